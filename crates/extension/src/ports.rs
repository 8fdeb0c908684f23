//! What extensions ask of the core, and what the core asks of extensions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gates::Options;
use ledger::order::PaymentResult;
use ledger::rows::actions::Actor;
use ledger::rows::subjects::SubjectKeys;
use ledger::waiting_list::LineChange;
use shop_domain::payment::ReceivedPayment;
use shop_domain::{
    Currency, Item, ItemEdit, ItemId, LedgerError, NewDraw, NewItem, Order, OrderId, Outcome,
    Quantity, RequestKey, UserId,
};
use time::OffsetDateTime;
use web::problem::Problem;
use web::session::Session;
use web::token::Role;

pub use ledger::catalog::{Created, KeyedRequest};

/// Sales of items that do not belong to the shop, for trying a strategy out.
#[async_trait]
pub trait TrialSales: Send + Sync {
    /// Creates an item.
    ///
    /// # Errors
    /// A sentence.
    async fn create(&self, new: &NewItem, now: OffsetDateTime) -> Result<Arc<Item>, String>;

    /// Edits an item.
    ///
    /// # Errors
    /// A sentence.
    async fn edit(&self, item: ItemId, edit: &ItemEdit, actor: &Actor) -> Result<(), String>;

    /// Buys, on the way of every purchase.
    async fn buy(&self, purchase: TrialPurchase) -> Outcome;

    /// Whether the servers of a strategy are configured.
    fn is_available(&self, strategy: &str) -> bool;

    /// How old the word "sold out" may be.
    fn sold_out_age(&self) -> Duration;
}

/// A purchase that tries a strategy out.
pub struct TrialPurchase {
    pub buyer: UserId,
    pub item: ItemId,
    /// The number of units.
    pub quantity: Quantity,
    /// The strategy's name.
    pub strategy: &'static str,
    /// The parameters of a lock strategy.
    pub options: Options,
    pub key: RequestKey,
}

/// Reads a new item from the texts of its fields, which are those of the request that creates one, or returns the
/// problem of the first field that is wrong. The first argument returns the text of a field, if there is one. The
/// second is the currency of an item that names none.
pub type ReadItem = fn(&dyn Fn(&str) -> Option<String>, Currency) -> Result<NewItem, Problem>;

/// Creates several items, all or none.
#[async_trait]
pub trait NewItems: Send + Sync {
    /// Finds what new items name and what does not exist.
    ///
    /// # Errors
    /// When the ledger does not answer.
    async fn unknown_names(&self, new: &[NewItem]) -> Result<Vec<UnknownName>, Problem>;

    /// Creates the items, and notes who did it. With a `request`, a repetition of it creates none.
    ///
    /// # Errors
    /// The problem of the first item that cannot be created, or the ledger's.
    async fn create_all(
        &self,
        new: &[NewItem],
        actor: &Actor,
        request: Option<KeyedRequest<'_>>,
    ) -> Result<Created, Problem>;
}

/// Something that a new item names and that does not exist.
pub struct UnknownName {
    /// The place of the item among the new ones.
    pub place: usize,
    /// The field that names it.
    pub column: &'static str,
    pub problem: Problem,
}

/// The accounts, for an extension that knows who people are.
#[async_trait]
pub trait SessionOpener: Send + Sync {
    /// Opens a session for a user whom another party has identified. It ends at `until` if that is earlier than the end
    /// of other sessions.
    ///
    /// # Errors
    /// The ledger's.
    async fn open_session(
        &self,
        user: UserId,
        role: Role,
        until: Option<OffsetDateTime>,
    ) -> Result<Session, LedgerError>;

    /// The keys under which the subjects of deleted people are hashed.
    fn subject_keys(&self) -> &SubjectKeys;
}

/// The longest token of a provider, in bytes: one with 200 groups has about 12,000, and one with as many names of a
/// directory twice that.
pub const IDENTITY_TOKEN_BYTES_MAX: usize = 32 << 10;

/// An extension that knows who people are, for the core.
#[async_trait]
pub trait IdentityProvider: Send + Sync {
    /// Its name on the page of sign-in, if browsers can sign in by it.
    fn name_for_browsers(&self) -> Option<&str>;

    /// Exchanges a token of the provider for a session, which ends no later than the token.
    ///
    /// # Errors
    /// The problem of a token that is not believed, or of a server that does not answer.
    async fn sign_in_by_token(&self, token: &str) -> Result<Session, Problem>;

    /// Proves by a token of the provider that its bearer is `user`, and returns the role that the token gives.
    ///
    /// # Errors
    /// As [`Self::sign_in_by_token`], also for the token of another user.
    async fn role_by_token(&self, token: &str, user: UserId) -> Result<Role, Problem>;
}

/// Orders after they are placed, for an extension that takes the money for them.
#[async_trait]
pub trait OrdersToPay: Send + Sync {
    /// Makes an owner's order paid. One that is paid already is answered as it is.
    ///
    /// # Errors
    /// The problem of an order that cannot be paid; nothing changed then.
    async fn pay(&self, id: OrderId, owner: UserId) -> Result<Order, Problem>;

    /// Finds an owner's order that is paid or may be.
    ///
    /// # Errors
    /// As [`Self::pay`].
    async fn payable(&self, id: OrderId, owner: UserId) -> Result<Order, Problem>;

    /// Takes money that came for an order. A repetition is [`PaymentResult::Known`].
    ///
    /// # Errors
    /// When the ledger does not answer; then the provider has to say it again.
    async fn confirm(&self, received: &ReceivedPayment) -> Result<PaymentResult, LedgerError>;
}

/// Whether buyers pay on a page of a payment provider, and not by a click here.
#[derive(Clone, Copy, Debug, Default)]
pub struct PaidElsewhere(pub bool);

/// The items, as the core reads them through its cache.
#[async_trait]
pub trait Items: Send + Sync {
    /// Finds an item as it was at most `age_max` ago; `None` if there is no such item.
    async fn find_recent(
        &self,
        item: ItemId,
        age_max: Duration,
    ) -> Result<Option<Arc<Item>>, LedgerError>;

    /// Forgets what was read of an item, so that the next one who asks reads the ledger.
    fn forget(&self, item: ItemId);
}

/// The waiting lists of items.
#[async_trait]
pub trait WaitingLists: Send + Sync {
    /// Counts a change of a line that was committed, and tells the counters and the buyers of it.
    async fn publish(&self, item: ItemId, change: &LineChange);
}

/// What the operator asks of the draw of a new item.
#[derive(Clone, Copy, Debug)]
pub struct DrawPromise {
    /// The end of the time in which buyers can enter.
    pub closes_at: OffsetDateTime,
    /// The most friends who are drawn as one.
    pub party_max: u8,
}

/// Asked by the core when an operator creates an item that is drawn.
pub trait AnnounceDraws: Send + Sync {
    /// Makes the promise of a new item's draw.
    ///
    /// # Errors
    /// The problem of a shop that can make no draw, or of an item that cannot be drawn, or not so.
    fn announce(&self, item: &NewItem, promise: DrawPromise) -> Result<NewDraw, Problem>;
}

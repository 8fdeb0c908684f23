//! Editing an item: one transaction, with the operator's log.

use serde_json::{Value, json};
use sqlx::MySqlConnection;
use time::Duration;

use super::{read_back, rfc3339};
use crate::rows::account::actions::{self, Actor};
use crate::rows::item::draws::{self, micros};
use crate::rows::item::items::{self, StockedItem};
use crate::rows::item::limit_groups;
use crate::waiting_list::{LineChange, WaitingLine};
use crate::work::item_permit::ItemPermit;
use crate::work::{Ledger, RetryPolicy, failed_change, stock_lock};
use crate::write::restock::{Restock, restock};
use mysql_connection::Rollback;
use shop_domain::product::NewVariant;
use shop_domain::{Currency, Item, ItemEdit, ItemId, LedgerError, LimitGroupId, SaleWindow};

/// The currency of an item is fixed this long before its sale: longer than an instance caches an item, so that no
/// cached item has the old one.
const CURRENCY_FIXED_BEFORE: Duration = Duration::seconds(5);

/// The reason why a strategy cannot be the default of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategyError {
    /// There is no strategy of this name.
    #[error("no such strategy")]
    Unknown,
    /// The strategy can oversell, and the item belongs to the shop.
    #[error("the strategy can oversell")]
    Unsafe,
}

/// The reason why an item was not edited; nothing changed unless the ledger did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// There is no such item.
    #[error("no such item")]
    NotFound,
    /// The item has another revision than the operator saw.
    #[error("the item was edited since")]
    RevisionChanged,
    /// The new schedule ends before it starts.
    #[error("the sale must start before it ends")]
    InvalidSchedule,
    /// The item is drawn, and without an offer time its draw would give nobody a unit.
    #[error("the units of a draw are offered")]
    OfferRequired,
    /// The item has orders, or its sale has begun, so its currency stays.
    #[error("the currency cannot be changed")]
    CurrencyFixed,
    /// There is no such group of items.
    #[error("no such group")]
    NoSuchGroup,
    /// There is no such product.
    #[error("no such product")]
    NoSuchProduct,
    /// Fewer units are left than were to be taken out, or the total would be too large.
    #[error("the stock would be out of range")]
    StockOutOfRange,
    /// The strategy cannot be used for the item.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

type EditResult = Result<(StockedItem, LineChange), Rollback<EditError>>;

/// Edits an item for an operator. Returns the item after the edit, and what became of the stock and of the
/// buyers in `line`.
///
/// # Errors
/// See [`EditError`].
pub async fn edit(
    ledger: &Ledger,
    id: ItemId,
    edit: &ItemEdit,
    actor: &Actor,
    line: &WaitingLine,
) -> Result<(StockedItem, LineChange), EditError> {
    let permit = ledger.permit_for_edit(id).await?;
    let edited = ledger.transact(RetryPolicy::ONCE, |transaction| {
        Box::pin(edit_in(transaction, &permit, edit, actor, line))
    });
    edited.await.map_err(|error| match error {
        Rollback::Refused(refusal) => refusal,
        Rollback::Failed(error) => EditError::Ledger(failed_change(&error)),
    })
}

async fn edit_in(
    transaction: &mut MySqlConnection,
    permit: &ItemPermit,
    edit: &ItemEdit,
    actor: &Actor,
    line: &WaitingLine,
) -> EditResult {
    let id = permit.item();
    let before = items::find_for_update(transaction, id).await?;
    let before = before.ok_or(Rollback::Refused(EditError::NotFound))?;
    let item = before.item;
    if edit.revision_seen.is_some_and(|seen| seen != item.revision) {
        return Err(Rollback::Refused(EditError::RevisionChanged));
    }
    let window = SaleWindow::new(
        edit.starts_at.unwrap_or_else(|| item.window.starts_at()),
        edit.ends_at.unwrap_or_else(|| item.window.ends_at()),
    );
    let window = window.ok_or(Rollback::Refused(EditError::InvalidSchedule))?;
    check_draw(transaction, &item, edit, window).await?;
    let variant = match &edit.variant {
        Some(variant) => variant.clone(),
        None => item.variant.as_ref().map(NewVariant::from),
    };
    let limit_group =
        edit.limit_group.unwrap_or_else(|| item.limit_group.as_ref().map(|group| group.id));
    let edited = Item {
        window,
        paused: edit.paused.unwrap_or(item.paused),
        waiting_room: edit.waiting_room.unwrap_or(item.waiting_room),
        unpaid_max: edit.unpaid_max.unwrap_or(item.unpaid_max),
        offer_seconds: edit.offer_seconds.unwrap_or(item.offer_seconds),
        extend_seconds: edit.extend_seconds.unwrap_or(item.extend_seconds),
        return_seconds: edit.return_seconds.unwrap_or(item.return_seconds),
        strategy: edit.strategy.as_ref().unwrap_or(&item.strategy).clone(),
        currency: edit.currency.unwrap_or(item.currency),
        ..Item::clone(&item)
    };
    let fixed_from = actor.now + CURRENCY_FIXED_BEFORE;
    let has_begun = [item.window, window].iter().any(|it| it.starts_at() <= fixed_from);
    if edited.currency != item.currency && (has_begun || items::has_orders(transaction, id).await?)
    {
        return Err(Rollback::Refused(EditError::CurrencyFixed));
    }
    items::update(transaction, &edited, limit_group, variant.as_ref()).await?;
    if let Some(group) = limit_group {
        limit_groups::add_item(transaction, group, id).await?;
    }
    if item.draw.is_some() && edited.paused != item.paused {
        stock_lock::lock(transaction, permit).await?;
        draws::note_pause(transaction, id).await?;
    }
    let change = change_stock(transaction, permit, edit, line, actor).await?;
    let detail = edit_json(edit);
    actions::record(transaction, actor, "item_edited", Some(id), &detail).await?;
    Ok((read_back(transaction, id).await?, change))
}

/// Refuses an edit after which a draw would offer no unit: that needs an offer time, and an open sale after the round.
async fn check_draw(
    transaction: &mut MySqlConnection,
    item: &Item,
    edit: &ItemEdit,
    window: SaleWindow,
) -> Result<(), Rollback<EditError>> {
    let Some(draw) = item.draw else { return Ok(()) };
    if edit.offer_seconds == Some(0) {
        return Err(Rollback::Refused(EditError::OfferRequired));
    }
    let mut fits = draw.fits(window);
    if edit.ends_at.is_some() {
        fits &= micros(window.ends_at()) > draws::round_at(transaction, item.id).await?;
    }
    fits.then_some(()).ok_or(Rollback::Refused(EditError::InvalidSchedule))
}

/// Restocks, and tends the line: new units go to the buyers who wait, and a pause ends the line, or suspends it if the sale
/// is drawn.
async fn change_stock(
    transaction: &mut MySqlConnection,
    permit: &ItemPermit,
    edit: &ItemEdit,
    line: &WaitingLine,
    actor: &Actor,
) -> Result<LineChange, Rollback<EditError>> {
    let mut restocked = LineChange::default();
    if let Some(units) = edit.stock_delta.filter(|&units| units != 0) {
        let order = Restock { permit, units, operator: actor.user, now: actor.now };
        let change = restock(transaction, &order).await?;
        restocked = change.ok_or(Rollback::Refused(EditError::StockOutOfRange))?;
    }
    let (change, _) = line.tend(transaction, permit).await?;
    Ok(match restocked.stock_version {
        Some(version) => change.after_return(restocked.to_stock, version),
        None => change,
    })
}

/// The operators' log line of an edit: the fields that it changes.
fn edit_json(edit: &ItemEdit) -> Value {
    let mut detail = json!({
        "starts_at": rfc3339(edit.starts_at),
        "ends_at": rfc3339(edit.ends_at),
        "currency": edit.currency.map(Currency::as_str),
        "paused": edit.paused,
        "waiting_room": edit.waiting_room,
        "unpaid_max": edit.unpaid_max,
        "offer_seconds": edit.offer_seconds,
        "extend_seconds": edit.extend_seconds,
        "return_seconds": edit.return_seconds,
        // 0: taken out of its group.
        "limit_group_id": edit.limit_group.map(|group| group.map_or(0, LimitGroupId::get)),
        // 0: taken out of its product.
        "product_id": edit.variant.as_ref().map(|variant| variant.as_ref().map_or(0, |it| it.product.get())),
        "strategy": edit.strategy,
        "stock_delta": edit.stock_delta.filter(|delta| *delta != 0),
    });
    if let Some(fields) = detail.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    detail
}

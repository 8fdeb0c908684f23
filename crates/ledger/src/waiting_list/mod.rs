//! The waiting list of an item: who gets a unit that comes back.
//!
//! Every transaction that makes units of an item available ends with [`WaitingLine::hand_out`]: a
//! returned unit goes to the first buyer in the line within the transaction that returns it. So no
//! purchase ever sees it as available, and no instance has to be alive for it to be offered. An
//! offered unit moves from `stock.available` to `stock.offered`.
//!
//! The lock of the item's stock row orders everything: joining takes it shared, and all else
//! exclusively. So a returned unit never passes a buyer whose joining was answered, and rows that
//! are read under the lock do not change. The conditions of the statements say it once more: on an
//! engine that locks nothing, the second of two transactions that offer one place breaks off.

mod length;
mod sql;
mod transaction;

use std::sync::Arc;

use sqlx::MySqlConnection;
use time::OffsetDateTime;

use crate::rows::account::erased;
use crate::rows::order::buyers;
use crate::rows::outbox::{OfferChange, Outbox};
use crate::rows::waiting_list;
use crate::work::item_permit::ItemPermit;
use crate::work::stock_lock;
use shop_domain::{Clock, Item, ItemId, Place, Refusal, SaleWindow, UserId, WaitingStatus};
use shop_metrics::Metrics;
use sql::{
    LAPSED, Row, close, first_in_line, move_to_available, move_to_offered, offer, open_offers,
    resume_offers,
};

use length::{Length, Lengths};
pub(crate) use sql::accept;
pub(crate) use transaction::TRACE;
pub use transaction::Waitlist;

/// Places that one statement changes.
const TOGETHER_MAX: usize = 256;
/// Places of buyers who wait that one transaction ends, from the back of the line: the stock row, for which
/// all others of the item wait, is held for a few hundredths of a second.
pub const ENDED_MAX: u32 = 1_000;
/// Offers that one transaction gives their time after a pause.
const RESUMED_MAX: u32 = 2_000;

/// The line in front of units that come back. Clones share everything.
#[derive(Clone)]
pub struct WaitingLine {
    parts: Arc<WaitingLineParts>,
}

struct WaitingLineParts {
    clock: Clock,
    outbox: Outbox,
    metrics: Metrics,
    line_max: u64,
    lengths: Lengths,
}

/// The reason why a buyer cannot wait for an item.
#[derive(Debug)]
pub enum JoinRefusal {
    /// The refusal that a purchase would get.
    Purchase(Refusal),
    /// The item has no waiting list.
    NoWaitingList,
    /// The buyer can buy a unit without waiting.
    UnitsLeft,
    /// The waiting list is as long as it may be.
    Full,
    /// The account of the buyer was deleted; this instance may not know it yet.
    AccountDeleted,
}

/// Whether a line goes on.
enum LineState {
    Open,
    /// A sale that is drawn is paused: nothing ends, and nobody joins. Units are still offered, because an instance that
    /// does not know of the pause yet would sell them.
    Suspended,
    /// Such a pause is over, and not all offers have their time yet: until then none ends.
    Resuming,
    Over(JoinRefusal),
}

/// What the state of a line depends on.
struct SaleRow {
    starts_at: OffsetDateTime,
    ends_at: OffsetDateTime,
    paused: bool,
    offer_seconds: u32,
    is_drawn: i64,
    has_paused: i64,
}

from_row!(SaleRow { starts_at, ends_at, paused, offer_seconds, is_drawn, has_paused });

impl SaleRow {
    const READ: &str = "SELECT starts_at, ends_at, paused, offer_seconds, \
         EXISTS (SELECT 1 FROM draws WHERE draws.item_id = items.id) AS is_drawn, \
         EXISTS (SELECT 1 FROM draws WHERE draws.item_id = items.id AND paused_at IS NOT NULL) AS has_paused \
         FROM items WHERE id = ?";
}

/// What a transaction did to the line of one item. It is true once the transaction is committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineChange {
    /// Units that became available (negative: offered units that were available before).
    pub to_stock: i64,
    /// The version of the stock afterwards; `None` if the stock row was not written.
    pub stock_version: Option<u64>,
    /// The places that changed, with their new status.
    pub changed: Vec<(UserId, WaitingStatus)>,
}

impl WaitingLine {
    /// A line of at most `line_max` buyers for each item. A sale is over by `clock`; offers end by
    /// the database's. Changes of offers are written into `outbox`.
    pub fn new(clock: Clock, outbox: Outbox, metrics: Metrics, line_max: u64) -> Self {
        let lengths = Lengths::new();
        Self { parts: Arc::new(WaitingLineParts { clock, outbox, metrics, line_max, lengths }) }
    }

    /// Where the transactions around it write their events.
    pub fn outbox(&self) -> Outbox {
        self.parts.outbox
    }

    /// Counts the changes of a transaction that was committed.
    pub fn count(&self, change: &LineChange) {
        for (_, status) in &change.changed {
            self.parts.metrics.waiting.changed(status.as_str());
        }
    }

    /// Puts a buyer at the end of the line, or answers the place that the buyer has. A refusal
    /// changed nothing. Beside a new place in a long line stands how many are in front of it.
    ///
    /// # Errors
    /// The database's; the caller rolls back. A duplicate when another request of the buyer was quicker: the next try
    /// finds its place.
    pub async fn join(
        &self,
        transaction: &mut MySqlConnection,
        permit: &ItemPermit,
        item: &Item,
        buyer: UserId,
    ) -> sqlx::Result<Result<(Place, Option<u64>), JoinRefusal>> {
        let available = stock_lock::lock_shared(transaction, permit).await?;
        let Some(available) = available else {
            return Ok(Err(JoinRefusal::Purchase(Refusal::ItemNotFound)));
        };
        if erased::contains(&mut *transaction, buyer).await? {
            return Ok(Err(JoinRefusal::AccountDeleted));
        }
        if let Some(place) = waiting_list::live(&mut *transaction, item.id, buyer).await? {
            return Ok(Ok((place, None)));
        }
        // Under the lock: a pause that came before is seen.
        match self.state(transaction, item.id).await? {
            LineState::Open | LineState::Resuming => {}
            LineState::Suspended => return Ok(Err(JoinRefusal::Purchase(Refusal::SalePaused))),
            LineState::Over(refusal) => return Ok(Err(refusal)),
        }
        if available > 0 {
            return Ok(Err(JoinRefusal::UnitsLeft));
        }
        if let Some(refusal) = at_limit(transaction, item, buyer).await? {
            return Ok(Err(JoinRefusal::Purchase(refusal)));
        }
        let length = self.parts.lengths.read(transaction, item.id).await?;
        if length.most() >= self.parts.line_max {
            return Ok(Err(JoinRefusal::Full));
        }
        sql::insert(transaction, item.id, buyer).await?;
        let place = waiting_list::live(transaction, item.id, buyer).await?;
        let ahead = match length {
            Length::Exact(_) => None,
            Length::AtMost(buyers) => Some(buyers),
        };
        Ok(Ok((place.ok_or(sqlx::Error::RowNotFound)?, ahead)))
    }

    /// Offers the item's available units to the first buyers in the line. Friends are offered units together or not at
    /// all: units that are too few for them go to the next buyers. Locks the stock row.
    ///
    /// # Errors
    /// The database's; the caller rolls back.
    pub async fn hand_out(
        &self,
        transaction: &mut MySqlConnection,
        permit: &ItemPermit,
    ) -> sqlx::Result<LineChange> {
        let item = permit.item();
        let mut left = stock_lock::lock(transaction, permit).await?;
        let mut change = LineChange::default();
        let mut offered = 0;
        // Each look begins behind the places that are offered: the index of waiting buyers has them until the
        // transaction ends.
        let mut after = 0;
        while left > 0 {
            let together =
                usize::try_from(left).map_or(TOGETHER_MAX, |left| left.min(TOGETHER_MAX));
            let first = first_in_line(transaction, item, after, left, together).await?;
            if first.is_empty() || (offered == 0 && self.is_over(transaction, item).await?) {
                break;
            }
            offer(transaction, item, &first).await?;
            after = first.last().map_or(after, |row| row.place);
            left -= i64::try_from(first.len()).unwrap_or(i64::MAX);
            offered += i64::try_from(first.len()).unwrap_or(i64::MAX);
            let status = WaitingStatus::Offered;
            change.changed.extend(first.iter().map(|row| (row.user_id, status)));
            self.tell(transaction, item, &first, status).await?;
        }
        if offered > 0 {
            change.to_stock = -offered;
            change.stock_version = Some(move_to_offered(transaction, item, offered).await?);
        }
        Ok(change)
    }

    /// Takes a buyer out of the line; the unit of an open offer goes to the next one. Answers
    /// `None` when the buyer has no place.
    ///
    /// # Errors
    /// The database's; the caller rolls back.
    async fn leave(
        &self,
        transaction: &mut MySqlConnection,
        permit: &ItemPermit,
        buyer: UserId,
    ) -> sqlx::Result<Option<LineChange>> {
        let item = permit.item();
        stock_lock::lock(transaction, permit).await?;
        let Some(place) = waiting_list::live(&mut *transaction, item, buyer).await? else {
            return Ok(None);
        };
        let rows = [Row { place: place.number, user_id: buyer }];
        if place.status == WaitingStatus::Offered {
            return self.take_back(transaction, permit, &rows, WaitingStatus::Left).await.map(Some);
        }
        sql::leave_party(transaction, item, place.number).await?;
        close(transaction, item, &rows, WaitingStatus::Left).await?;
        // Units that were too few for all friends may be enough for the others.
        let mut handed = self.hand_out(transaction, permit).await?;
        handed.changed.push((buyer, WaitingStatus::Left));
        Ok(Some(handed))
    }

    /// Adds units of restocks, and ends what is over: offers that were not accepted in time, and everything when the sale is
    /// paused or has ended. Then offers whatever is available. A pause of a sale that is drawn ends nothing: its places
    /// and offers go on afterwards. Answers also whether more is to do.
    ///
    /// # Errors
    /// The database's; the caller rolls back.
    pub(crate) async fn tend(
        &self,
        transaction: &mut MySqlConnection,
        permit: &ItemPermit,
    ) -> sqlx::Result<(LineChange, bool)> {
        stock_lock::lock(transaction, permit).await?;
        let added = sql::add_restocked(transaction, permit.item()).await?;
        let tended = self.tend_stock(transaction, permit).await?;
        Ok(match added {
            Some((units, version)) => (tended.0.after_return(units, version), true),
            None => tended,
        })
    }

    /// Tends the line with the units that are in the stock.
    async fn tend_stock(
        &self,
        transaction: &mut MySqlConnection,
        permit: &ItemPermit,
    ) -> sqlx::Result<(LineChange, bool)> {
        let item = permit.item();
        match self.state(transaction, item).await? {
            LineState::Open => {}
            LineState::Suspended => return Ok((self.hand_out(transaction, permit).await?, false)),
            LineState::Resuming => {
                let more = resume_offers(transaction, item, RESUMED_MAX).await?;
                return Ok((self.hand_out(transaction, permit).await?, more));
            }
            LineState::Over(_) => return self.end(transaction, permit).await,
        }
        let lapsed = open_offers(transaction, item, LAPSED, TOGETHER_MAX).await?;
        let more = lapsed.len() == TOGETHER_MAX;
        Ok((self.take_back(transaction, permit, &lapsed, WaitingStatus::Lapsed).await?, more))
    }

    /// Ends the line of an item whose sale is not open, and its open offers: as much as one transaction may.
    /// Answers also whether more is to do. A sale that opens again before all is done keeps the front of
    /// its line.
    async fn end(
        &self,
        transaction: &mut MySqlConnection,
        permit: &ItemPermit,
    ) -> sqlx::Result<(LineChange, bool)> {
        let item = permit.item();
        // The buyers who wait are told by the state of the sale, which all pages watch.
        let waiting = sql::end_waiting(transaction, item, ENDED_MAX).await?;
        let open = open_offers(transaction, item, "", TOGETHER_MAX).await?;
        let more = waiting == u64::from(ENDED_MAX) || open.len() == TOGETHER_MAX;
        Ok((self.take_back(transaction, permit, &open, WaitingStatus::Ended).await?, more))
    }

    /// Closes open offers, makes their units available, and hands them out.
    async fn take_back(
        &self,
        transaction: &mut MySqlConnection,
        permit: &ItemPermit,
        offers: &[Row],
        status: WaitingStatus,
    ) -> sqlx::Result<LineChange> {
        let item = permit.item();
        if offers.is_empty() {
            return self.hand_out(transaction, permit).await;
        }
        close(transaction, item, offers, status).await?;
        self.tell(transaction, item, offers, status).await?;
        let units = i64::try_from(offers.len()).unwrap_or(i64::MAX);
        let version = move_to_available(transaction, item, units).await?;
        let handed = self.hand_out(transaction, permit).await?;
        let mut changed: Vec<_> = offers.iter().map(|row| (row.user_id, status)).collect();
        changed.extend(handed.changed);
        Ok(LineChange {
            to_stock: units + handed.to_stock,
            stock_version: handed.stock_version.or(Some(version)),
            changed,
        })
    }

    /// Whether no unit of the item is offered any more.
    async fn is_over(&self, transaction: &mut MySqlConnection, item: ItemId) -> sqlx::Result<bool> {
        Ok(matches!(self.state(transaction, item).await?, LineState::Over(_)))
    }

    async fn state(
        &self,
        transaction: &mut MySqlConnection,
        item: ItemId,
    ) -> sqlx::Result<LineState> {
        // Without a lock: the row of an item is locked before its stock row.
        let sale: Option<SaleRow> =
            sqlx::query_as(SaleRow::READ).bind(item.get()).fetch_optional(transaction).await?;
        let Some(sale) = sale else {
            return Ok(LineState::Over(JoinRefusal::Purchase(Refusal::ItemNotFound)));
        };
        if sale.offer_seconds == 0 {
            return Ok(LineState::Over(JoinRefusal::NoWaitingList));
        }
        let window = SaleWindow::new(sale.starts_at, sale.ends_at);
        let window = window.ok_or(sqlx::Error::RowNotFound)?;
        Ok(match window.check_open(self.parts.clock.now(), sale.paused) {
            // The start may have been moved since the line was formed.
            Ok(()) | Err(Refusal::SaleNotStarted { .. }) if sale.has_paused != 0 => {
                LineState::Resuming
            }
            Ok(()) | Err(Refusal::SaleNotStarted { .. }) => LineState::Open,
            Err(Refusal::SalePaused) if sale.is_drawn != 0 => LineState::Suspended,
            Err(refusal) => LineState::Over(JoinRefusal::Purchase(refusal)),
        })
    }

    async fn tell(
        &self,
        transaction: &mut MySqlConnection,
        item: ItemId,
        rows: &[Row],
        status: WaitingStatus,
    ) -> sqlx::Result<()> {
        let changes = rows.iter().map(|row| OfferChange {
            place: row.place,
            item_id: item.get(),
            user_id: row.user_id.get(),
            status: status.as_str(),
        });
        self.parts.outbox.offers(transaction, changes.collect()).await
    }
}

impl LineChange {
    /// Takes note that `units` had been made available in the same transaction, which raised the
    /// stock to `version`.
    #[must_use]
    pub fn after_return(self, units: i64, version: u64) -> Self {
        let stock_version = self.stock_version.or(Some(version));
        Self { to_stock: units + self.to_stock, stock_version, ..self }
    }
}

/// The refusal of a buyer who may have no further unit. The ledger decides when an offer is accepted; this
/// only keeps buyers out of the line who could not accept.
async fn at_limit(
    transaction: &mut MySqlConnection,
    item: &Item,
    buyer: UserId,
) -> sqlx::Result<Option<Refusal>> {
    let limit = item.per_buyer_limit;
    if buyers::bought(&mut *transaction, item.id, buyer).await? >= limit.into() {
        return Ok(Some(Refusal::LimitReached { limit }));
    }
    let Some(group) = &item.limit_group else { return Ok(None) };
    let limit = group.per_buyer_limit;
    let bought = buyers::bought_of_group(transaction, group.id, buyer).await?;
    Ok((bought >= limit.into()).then_some(Refusal::GroupLimitReached { limit }))
}

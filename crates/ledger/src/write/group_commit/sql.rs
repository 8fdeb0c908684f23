//! The one transaction of a batch.
//!
//! Its locks are taken in one order, in every instance: the keys of the orders by item, buyer and key (the
//! order of their unique index), then the buyers' limits by item, then those by group of items, then the stock
//! rows, each sorted. So two batches that have items in common wait for each other and do not deadlock.

use std::collections::BTreeMap;

use sqlx::MySqlConnection;
use tokio::time::Instant;

use super::batch_orders::powers_of_two;
use super::pipeline::PipelineSlot;
use super::statements::take;
use crate::rows::outbox::Outbox;
use crate::work::item_permit::ItemPermits;
use crate::work::limit_lock::{self, OF_GROUPS, OF_ITEMS};
use crate::work::stock_lock;
use crate::write::new_order::{
    Fence, Written, count_buyers, count_in_groups, insert_movements, insert_orders, raise_fence,
};
use crate::write::protocol::protocol;
use crate::write::{Conflict, WRITTEN_AS, in_time, is_guarded, is_late};
use mysql_connection::{Fault, answered, begin_on};
use shop_domain::{ItemId, Purchase, Span};

/// Stock rows that one statement changes; a batch with more items has two. The statement compares
/// each row with half of the list on average, so twice the rows cost four times as much.
const STOCK_ROWS_MAX: usize = 128;

/// The failure of a batch's transaction.
pub(super) enum BatchError {
    /// Rolled back; nothing changed.
    Before(sqlx::Error),
    /// COMMIT was sent and not answered.
    AtCommit(sqlx::Error),
}

impl From<sqlx::Error> for BatchError {
    fn from(error: sqlx::Error) -> Self {
        Self::Before(error)
    }
}

/// The result of the statements before COMMIT.
pub(super) enum BatchResult {
    /// All orders are written.
    Whole,
    /// The stock of an item did not suffice for its orders.
    TooFew,
    /// Others have the stock row of an item of an order with several lines, or the limit of its buyer.
    Locked(ItemId),
    /// The batch before did not end in time.
    Late,
    /// A later holder of the item's lock has written.
    Fenced(Conflict),
}

/// The transaction. Anything but `Whole` was rolled back. It does not begin to wait for the stock's
/// rows after `turn_max`.
pub(super) async fn commit(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
    (fence, outbox, permits): (Option<Fence>, Outbox, Option<&ItemPermits>),
    (slot, turn_max, span): (&mut PipelineSlot, Option<Instant>, &Span),
) -> Result<BatchResult, BatchError> {
    let mut transaction = begin_on(connection).await?;
    match fill(&mut transaction, purchases, (fence, outbox, permits), (slot, turn_max, span)).await
    {
        Ok(BatchResult::Whole) => {
            protocol!("commit", purchases.iter().copied());
            let committed = {
                let _span = span.span("COMMIT");
                transaction.commit().await
            };
            match committed {
                Ok(()) => {
                    failpoint!("batch-committed");
                    protocol!("committed", purchases.iter().copied());
                    Ok(BatchResult::Whole)
                }
                Err(error) if Fault::of(&error) == Fault::Transient => {
                    protocol!("rolled back", purchases.iter().copied(), objected = false);
                    Err(BatchError::Before(error))
                }
                Err(error) => {
                    protocol!("commit lost", purchases.iter().copied());
                    Err(BatchError::AtCommit(error))
                }
            }
        }
        Ok(refused) => {
            let objected = matches!(refused, BatchResult::TooFew);
            protocol!("rolled back", purchases.iter().copied(), objected = objected);
            transaction.rollback().await?;
            Ok(refused)
        }
        Err(error) => {
            let fault = Fault::of(&error);
            let objected = matches!(fault, Fault::Duplicate | Fault::CheckViolated);
            protocol!("rolled back", purchases.iter().copied(), objected = objected);
            transaction.roll_back_after(&error).await;
            Err(BatchError::Before(error))
        }
    }
}

/// All statements before COMMIT: the rows, and once the batch before has ended, the stock.
async fn fill(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
    (fence, outbox, permits): (Option<Fence>, Outbox, Option<&ItemPermits>),
    (slot, turn_max, span): (&mut PipelineSlot, Option<Instant>, &Span),
) -> sqlx::Result<BatchResult> {
    let rows = span.span("rows");
    let written = write_rows(connection, purchases, (fence, outbox, permits));
    if let Some(refused) = slot.run(written).await? {
        return Ok(refused);
    }
    drop(rows);
    let turn = span.span("wait for the batch before");
    let has_turn = in_time(turn_max, slot.enter_stock_stage()).await.is_some();
    drop(turn);
    if !has_turn || is_late(turn_max) {
        return Ok(BatchResult::Late);
    }
    protocol!("turn", purchases.iter().copied());
    assert!(slot.is_in_stock_stage(), "a batch takes the stock after the batch before it");
    let _stock = span.span("stock");
    if let Some(permits) = permits
        && let Err(item) = slot.run(stock_lock::lock_all(connection, permits)).await?
    {
        return Ok(BatchResult::Locked(item));
    }
    let whole = slot.run(take_stock(connection, purchases)).await?;
    failpoint!("batch-stock-taken");
    if !whole {
        return Ok(BatchResult::TooFew);
    }
    protocol!("stock", purchases.iter().copied());
    Ok(BatchResult::Whole)
}

/// Writes all rows but the stock's: fence, orders, limits, movements, events. `Some` when a later holder of the item's
/// lock has written, or others have a limit of an order with several lines.
async fn write_rows(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
    (fence, outbox, permits): (Option<Fence>, Outbox, Option<&ItemPermits>),
) -> sqlx::Result<Option<BatchResult>> {
    let sequence = match fence.filter(|_| is_guarded(purchases[0])) {
        Some(fence) => match answered(raise_fence(connection, purchases[0], fence)).await? {
            Ok(sequence) => Some(sequence),
            Err(conflict) => return Ok(Some(BatchResult::Fenced(conflict))),
        },
        None => None,
    };
    let mut sorted = purchases.to_vec();
    sorted.sort_unstable_by_key(|one| (one.item.id, one.buyer, one.key.as_str()));
    let written = Written { status: WRITTEN_AS, fence, fence_sequence: sequence };
    for chunk in powers_of_two(&sorted) {
        answered(insert_orders(connection, chunk, &written)).await?;
    }
    failpoint!("batch-orders-inserted");
    protocol!("keys", purchases.iter().copied());
    // Only now: whoever waits for a key must have no limit.
    let guarded = summed(purchases, |one| is_guarded(one).then(|| one.item.id.get()));
    let grouped = summed(purchases, |one| one.counted_group().map(|group| group.id.get()));
    if permits.is_some() {
        if let Some(item) = count_alone(connection, &guarded, &grouped).await? {
            return Ok(Some(BatchResult::Locked(item)));
        }
    } else {
        for chunk in powers_of_two(&guarded) {
            answered(count_buyers(connection, chunk, false)).await?;
        }
        for chunk in powers_of_two(&grouped) {
            answered(count_in_groups(connection, chunk)).await?;
        }
    }
    failpoint!("batch-buyers-counted");
    protocol!("limits", purchases.iter().copied());
    for chunk in powers_of_two(&sorted) {
        answered(insert_movements(connection, chunk)).await?;
    }
    outbox.inserted(connection, purchases, WRITTEN_AS).await?;
    failpoint!("batch-movements-inserted");
    Ok(None)
}

/// Counts the units of an order with several lines in one limit after the other. It has permits of all its items, so it
/// waits for no limit: returns the item of one that another transaction has.
async fn count_alone(
    connection: &mut MySqlConnection,
    guarded: &[(&Purchase, i64)],
    grouped: &[(&Purchase, i64)],
) -> sqlx::Result<Option<ItemId>> {
    for counted in guarded.chunks(1) {
        let purchase = counted[0].0;
        let item = purchase.item.id;
        if !limit_lock::try_lock(connection, OF_ITEMS, item.get(), purchase.buyer).await? {
            return Ok(Some(item));
        }
        answered(count_buyers(connection, counted, false)).await?;
    }
    for counted in grouped.chunks(1) {
        let purchase = counted[0].0;
        let Some(group) = purchase.counted_group() else { continue };
        if !limit_lock::try_lock(connection, OF_GROUPS, group.id.get(), purchase.buyer).await? {
            return Ok(Some(purchase.item.id));
        }
        answered(count_in_groups(connection, counted)).await?;
    }
    Ok(None)
}

/// One row for each buyer of each item or group, sorted: their last purchase, and the units of all. `of` gives the id
/// of the item or group, if the purchase is counted.
fn summed<'a>(
    purchases: &[&'a Purchase],
    of: fn(&Purchase) -> Option<i64>,
) -> Vec<(&'a Purchase, i64)> {
    let mut sums: BTreeMap<(i64, i64), (&'a Purchase, i64)> = BTreeMap::new();
    for &purchase in purchases {
        let Some(of) = of(purchase) else { continue };
        let sum = sums.entry((of, purchase.buyer.get())).or_insert((purchase, 0));
        *sum = (purchase, sum.1 + purchase.quantity.signed());
    }
    sums.into_values().collect()
}

/// Takes the units of each item from its stock row; `false` when an item has too few, and the transaction
/// must be rolled back.
async fn take_stock(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
) -> sqlx::Result<bool> {
    let mut taken: BTreeMap<ItemId, i64> = BTreeMap::new();
    for purchase in purchases {
        *taken.entry(purchase.item.id).or_default() += purchase.quantity.signed();
    }
    let enough = taken.values().all(|units| *units > 0);
    assert!(enough, "a batch takes at least one unit of each item");
    let taken: Vec<(ItemId, i64)> = taken.into_iter().collect();
    for chunk in taken.chunks(STOCK_ROWS_MAX) {
        if answered(take(connection, chunk)).await? < chunk.len() as u64 {
            return Ok(false);
        }
    }
    Ok(true)
}

//! The one transaction in one round trip: a stored procedure judges and commits on the server.
//!
//! Its statements and their order are those of `transaction.rs`. The hot row is locked no longer than
//! the flush of the log takes, and the server parses the statements once for each connection instead
//! of once for each order.
//!
//! A write that compares the row with what was read takes the stock first instead. Most tries of such
//! a gate fail, and then they have written nothing else. It locks the row before the buyer's limit,
//! against the order of the others, so two orders of one buyer may deadlock; one of them tries again.
//!
//! A call that was not answered may still run, or may not have begun: the ledger can say that the
//! order is there, but not that it never will be. See [`Attempt::CallLost`].

use std::time::{Duration, Instant};

use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Executor, MySqlConnection};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use super::literal::{OrNull, Text, Time};
use super::stock::{self, StockWrite};
use super::{Attempt, OrderWrite, WRITTEN_AS, is_guarded};
use crate::rows::link::TRANSACTION_MAX;
use crate::rows::order_routine::{self, NAME};
use crate::rows::outbox::Outbox;
use crate::rows::{Fault, answered, within};
use shop_domain::Outcome;

/// The messages of the two errors that the procedure raises itself. Their number, 1644, is not enough to
/// know them by: a trigger that an operator has added may raise an error with this number, too.
const NOT_ONE_ROW: &str = "seckill: not one row";
const COMMIT_FAILED: &str = "seckill: COMMIT failed";

/// A call that takes longer is logged; the driver has the same limit for a statement.
const SLOW: Duration = Duration::from_secs(1);

/// The result of a call.
pub(super) enum Called {
    /// The call was answered, or lost.
    Tried(Attempt),
    /// The fence has no row yet, or was overtaken: the statements tell which, one by one.
    NotRaised,
    /// The server has no such procedure for this account.
    Missing,
}

/// One try. `Err` means that nothing was committed and the transaction was rolled back.
pub(super) async fn run(
    connection: &mut MySqlConnection,
    write: &OrderWrite<'_>,
    outbox: Outbox,
) -> sqlx::Result<Called> {
    let purchase = write.purchase;
    assert!(is_guarded(purchase) && write.stock.fits_a_call(), "only the arbiter's own statements");
    let call = call(write, outbox)?;
    let span = purchase.trace.span("transaction");
    let error = match within(TRANSACTION_MAX, send(&call, connection)).await {
        Ok(_) => {
            drop(span);
            failpoint!("committed");
            let token = write.fence.map(|fence| fence.token);
            let sold = Outcome::Sold(purchase.order(WRITTEN_AS, token));
            return Ok(Called::Tried(Attempt::Done(Ok(sold))));
        }
        Err(error) => error,
    };
    drop(span);
    let Some(answered_error) = server_error(&error) else {
        tracing::warn!(%error, order = %purchase.order_id, "the call of an order was not answered");
        return Ok(Called::Tried(Attempt::CallLost));
    };
    match answered_error.message() {
        NOT_ONE_ROW if write.fence.is_some() => Ok(Called::NotRaised),
        NOT_ONE_ROW => {
            let refused = stock::why_refused(connection, purchase, write.stock);
            Ok(Called::Tried(Attempt::Done(answered(refused).await?)))
        }
        COMMIT_FAILED => Ok(Called::Tried(Attempt::CommitLost)),
        _ if order_routine::is_missing(answered_error.number()) => Ok(Called::Missing),
        // The server ends the connection, maybe in the middle of COMMIT.
        _ if Fault::of(&error) == Fault::Connection => Ok(Called::Tried(Attempt::CommitLost)),
        _ => Err(error),
    }
}

/// The CALL, with the arguments in the order of `order_routine.sql`.
fn call(write: &OrderWrite<'_>, outbox: Outbox) -> sqlx::Result<String> {
    let OrderWrite { purchase, fence, stock, .. } = *write;
    assert!(purchase.quantity.signed() > 0, "a purchase takes at least one unit");
    let group = purchase.counted_group();
    let event = outbox.event_of(&[purchase], WRITTEN_AS)?;
    let (version, changed_at) = match stock {
        StockWrite::GuardedByVersion(version) => (Some(version), None),
        StockWrite::GuardedByTimestamp(changed_at) => (None, Some(Time(changed_at))),
        _ => (None, None),
    };
    let take = match stock {
        StockWrite::GuardedAfterLock => "locked",
        _ if fence.is_none() && stock.is_compared() => "first",
        _ => "last",
    };
    Ok(format!(
        "CALL {name}('{order}', {item}, {buyer}, {units}, {amount}, {strategy}, {key}, {created_at}, \
         {expires_at}, {limit}, {group}, {group_limit}, {backend}, {token}, {epoch}, {version}, \
         {changed_at}, '{take}', {event}, {kind}, {payload})",
        name = *NAME,
        order = purchase.order_id,
        item = purchase.item.id.get(),
        buyer = purchase.buyer.get(),
        units = purchase.quantity.units(),
        amount = purchase.amount.cents(),
        strategy = Text(purchase.strategy),
        key = Text(purchase.key.as_str()),
        created_at = Time(purchase.created_at),
        expires_at = Time(purchase.expires_at),
        limit = purchase.item.per_buyer_limit,
        group_limit = OrNull(group.map(|group| group.per_buyer_limit)),
        group = OrNull(group.map(|group| group.id.get())),
        backend = OrNull(fence.map(|fence| Text(fence.backend))),
        token = OrNull(fence.map(|fence| fence.token)),
        epoch = purchase.item.home.epoch,
        version = OrNull(version),
        changed_at = OrNull(changed_at),
        kind = OrNull(event.as_ref().map(|event| Text(event.kind))),
        payload = OrNull(event.as_ref().map(|event| Text(&event.payload))),
        event = OrNull(event.as_ref().map(|event| format!("'{}'", event.id))),
    ))
}

/// Sends the call and waits for its answer. The driver logs nothing meanwhile, because it would log the
/// text, which contains the values.
async fn send(call: &str, connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let start = Instant::now();
    let answer = connection.execute(sqlx::raw_sql(call)).with_subscriber(Dispatch::none()).await;
    let elapsed = start.elapsed();
    if elapsed > SLOW {
        tracing::warn!(elapsed_ms = elapsed.as_millis(), "the call of an order was slow");
    }
    answer.map(drop)
}

/// The server's error; `None` if the server gave none.
fn server_error(error: &sqlx::Error) -> Option<&MySqlDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

//! The stored procedure that writes one order: the one transaction in one round trip. It judges and commits on the
//! server. Without the procedure, `transaction.rs` sends one statement after the other.
//!
//! Both have the same statements in the same order. The hot row is locked no longer than
//! the flush of the log takes, and the server parses the statements once for each connection instead
//! of once for each order.
//!
//! A call that was not answered may still run, or may not have begun: the ledger can say that the
//! order is there, but not that it never will be. See [`Attempt::CallLost`].
//!
//! The procedure's name contains a digest of its text, so that builds of two versions sell side by side. The name
//! proves nothing: others may make a procedure of this name. So the text in the database is compared
//! with the program's own, and another one is not called. The procedure is optional: an engine may have
//! no procedures (TiDB), and an account may not be allowed to create, to execute or to read them.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Executor, MySqlConnection};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use super::new_order::{self, OrNull, Text, Time, Written, arguments};
use super::stock::{self, StockWrite};
use super::{Attempt, OrderWrite, WRITTEN_AS, is_guarded, transaction};
use crate::rows::outbox::Outbox;
use mysql_connection::limits::TRANSACTION_MAX;
use mysql_connection::statement::Read;
use mysql_connection::{Fault, answered, within};
use shop_domain::Outcome;

/// The text, with [`PLACEHOLDER`] for the name. Its statements are those of `new_order.rs`.
pub static TEXT: LazyLock<String> =
    LazyLock::new(|| new_order::fill_in(include_str!("order_routine.sql")));
const PLACEHOLDER: &str = "ORDER_ROUTINE";
/// Bytes of the digest that stand in the name.
const DIGEST_BYTES: usize = 6;

/// The procedure's name in the ledger's database.
pub static NAME: LazyLock<String> = LazyLock::new(|| {
    let digest = Sha256::digest(TEXT.as_bytes());
    let digits: Vec<_> =
        digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("write_order_{}", digits.concat())
});

/// The messages of the two errors that the procedure raises itself. Their number, 1644, is not enough to
/// know them by: a trigger that an operator has added may raise an error with this number, too.
const NOT_ONE_ROW: &str = "seckill: not one row";
const COMMIT_FAILED: &str = "seckill: COMMIT failed";

/// A call that takes longer is logged; the driver has the same limit for a statement.
const SLOW: Duration = Duration::from_secs(1);

/// The procedure is looked at again after this: it may have been made or replaced since, or another
/// server may write.
const RECHECK_PERIOD: Duration = Duration::from_secs(30);

/// What is known about the procedure, and since when.
type KnownRoutine = Option<(RoutineState, Instant)>;

/// Writes orders by calls where the server has the procedure. Clones share what they know about it.
#[derive(Clone, Debug)]
pub(super) struct OrderCalls {
    /// Whether an order may be one call of the procedure.
    pub(super) is_called: bool,
    known: Arc<Mutex<KnownRoutine>>,
}

impl Default for OrderCalls {
    fn default() -> Self {
        Self { is_called: true, known: Arc::default() }
    }
}

impl OrderCalls {
    /// One try in the fastest form: one call, or one statement after the other. `Err` means that nothing
    /// was committed and the transaction was rolled back.
    pub(super) async fn try_once(
        &self,
        connection: &mut MySqlConnection,
        write: &OrderWrite<'_>,
        outbox: Outbox,
        takes_calls: bool,
    ) -> sqlx::Result<Attempt> {
        let purchase = write.purchase;
        // Some writers never get a call.
        let fits = is_guarded(purchase) && write.stock.fits_a_call() && takes_calls;
        if !(fits && self.is_called && self.is_own(connection).await?) {
            return transaction::run(connection, write, outbox).await;
        }
        let call = call(write, outbox)?;
        let span = purchase.trace.span("transaction");
        let started = Instant::now();
        // The driver logs nothing meanwhile, because it would log the text, which contains the values.
        let sent = connection.execute(sqlx::raw_sql(&call)).with_subscriber(Dispatch::none());
        let answer = within(TRANSACTION_MAX, sent).await;
        drop(span);
        let elapsed = started.elapsed();
        if elapsed > SLOW {
            tracing::warn!(elapsed_ms = elapsed.as_millis(), "the call of an order was slow");
        }
        let Err(error) = answer else {
            failpoint!("committed");
            let token = write.fence.map(|fence| fence.token);
            return Ok(Attempt::Done(Ok(Outcome::Sold(purchase.order(WRITTEN_AS, token)))));
        };
        let Some(server_error) = server_error(&error) else {
            tracing::warn!(%error, order = %purchase.order_id, "the call of an order was not answered");
            return Ok(Attempt::CallLost);
        };
        match server_error.message() {
            // The fence has no row yet, or was overtaken: the statements tell which, one by one.
            NOT_ONE_ROW if write.fence.is_some() => {
                transaction::run(connection, write, outbox).await
            }
            NOT_ONE_ROW => {
                let refused = stock::why_refused(connection, purchase, write.stock);
                Ok(Attempt::Done(answered(refused).await?))
            }
            COMMIT_FAILED => Ok(Attempt::CommitLost),
            _ if is_missing(server_error.number()) => {
                self.remember(RoutineState::Missing);
                transaction::run(connection, write, outbox).await
            }
            // The server ends the connection, maybe in the middle of COMMIT.
            _ if Fault::of(&error) == Fault::Connection => Ok(Attempt::CommitLost),
            _ => Err(error),
        }
    }

    /// Whether the server's procedure is the program's own.
    async fn is_own(&self, connection: &mut MySqlConnection) -> sqlx::Result<bool> {
        match self.recent() {
            Some(found) => Ok(found == RoutineState::Own),
            None => {
                let found = compare(connection).await?;
                self.remember(found);
                Ok(found == RoutineState::Own)
            }
        }
    }

    /// The known state, if it is recent enough. When it is too old, one caller looks again, and the others use it until
    /// then.
    fn recent(&self) -> Option<RoutineState> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (found, since) = known.as_mut()?;
        if since.elapsed() < RECHECK_PERIOD {
            return Some(*found);
        }
        *since = Instant::now();
        None
    }

    fn remember(&self, found: RoutineState) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.replace((found, Instant::now()));
        if before.is_some_and(|(before, _)| before == found) {
            return;
        }
        match found {
            RoutineState::Own => {}
            RoutineState::Missing => tracing::warn!(
                "the ledger has no procedure for orders, or this account may not execute it; \
                 `seckill migrate` makes it; until then each order takes more round trips"
            ),
            RoutineState::Foreign => tracing::warn!(
                "the ledger's procedure for orders is not the one of this program, or this account may \
                 not read it; it is not called; `seckill migrate` replaces it"
            ),
        }
    }
}

/// The CALL, with the arguments in the order of `order_routine.sql`.
fn call(write: &OrderWrite<'_>, outbox: Outbox) -> sqlx::Result<String> {
    let OrderWrite { purchase, fence, stock, .. } = *write;
    assert!(purchase.quantity.signed() > 0, "a purchase takes at least one unit");
    let event = outbox.event_of(&[purchase], WRITTEN_AS)?;
    let written = Written { status: WRITTEN_AS, fence, fence_sequence: None };
    let (version, changed_at) = match stock {
        StockWrite::GuardedByVersion(version) => (Some(version), None),
        StockWrite::GuardedByTimestamp(changed_at) => (None, Some(Time(changed_at))),
        _ => (None, None),
    };
    let take = match stock {
        StockWrite::GuardedAfterLock => "locked",
        _ if write.takes_stock_first() => "first",
        _ => "last",
    };
    Ok(format!(
        "CALL {name}({order}, {limit}, {unpaid_max}, {group_limit}, {version}, {changed_at}, '{take}', \
         {event}, {kind}, {payload})",
        name = *NAME,
        order = arguments(purchase, &written),
        limit = purchase.item.per_buyer_limit,
        unpaid_max = purchase.item.unpaid_max,
        group_limit = OrNull(purchase.counted_group().map(|group| group.per_buyer_limit)),
        version = OrNull(version),
        changed_at = OrNull(changed_at),
        kind = OrNull(event.as_ref().map(|event| Text(event.kind))),
        payload = OrNull(event.as_ref().map(|event| Text(&event.payload))),
        event = OrNull(event.as_ref().map(|event| format!("'{}'", event.id))),
    ))
}

/// The server's error; `None` if the server gave none.
fn server_error(error: &sqlx::Error) -> Option<&MySqlDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

/// The procedure of this name in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineState {
    /// The program's own.
    Own,
    /// One with another text, other parameters or other rights; or this account may not read the text.
    Foreign,
    /// None that this account can see.
    Missing,
}

/// The text from `BEGIN` to `END`, as the server keeps it.
fn body() -> &'static str {
    TEXT.split_once("\nBEGIN\n").map_or("", |(head, _)| &TEXT[head.len() + 1..]).trim_end()
}

/// The names of the parameters in their order, with commas between them.
fn parameters() -> String {
    let head = TEXT.split_once("\nBEGIN\n").map_or("", |(head, _)| head);
    let names = head.lines().filter_map(|line| line.trim_start().split_once(' '));
    let names: Vec<_> = names.map(|(name, _)| name).filter(|name| name.starts_with("p_")).collect();
    names.join(",")
}

/// Compares the procedure in the database with the program's own.
pub async fn compare(connection: &mut MySqlConnection) -> sqlx::Result<RoutineState> {
    let found: Option<(Option<String>, Option<String>, Option<String>)> = sqlx::query_as(
        "SELECT CAST(routine_definition AS CHAR), CAST(security_type AS CHAR), \
         (SELECT CAST(GROUP_CONCAT(CONCAT(parameter_mode, ' ', parameter_name) \
          ORDER BY ordinal_position) AS CHAR) FROM information_schema.parameters \
          WHERE specific_schema = DATABASE() AND specific_name = routine_name) \
         FROM information_schema.routines WHERE routine_schema = DATABASE() AND routine_name = ? \
         AND routine_type = 'PROCEDURE'",
    )
    .bind(&*NAME)
    .first(connection)
    .await?;
    let Some((text, rights, names)) = found else { return Ok(RoutineState::Missing) };
    let names = names.unwrap_or_default().replace("IN ", "");
    let is_own = text.is_some_and(|text| text.trim() == body())
        && rights.as_deref() == Some("INVOKER")
        && names == parameters();
    Ok(if is_own { RoutineState::Own } else { RoutineState::Foreign })
}

/// Creates the procedure unless it is there, and replaces one with another text. The `sql_mode` of the
/// session that makes it is that of all who call it.
///
/// # Errors
/// The database's: it has no procedures, this account may not create them, or it does not answer.
pub async fn install(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let found = compare(connection).await?;
    let work = async {
        match found {
            RoutineState::Own => return Ok(()),
            RoutineState::Missing => {}
            RoutineState::Foreign => {
                tracing::warn!(
                    name = *NAME,
                    "a procedure of this name has another text, and is replaced"
                );
                connection.execute(sqlx::raw_sql(&format!("DROP PROCEDURE {}", *NAME))).await?;
            }
        }
        let text = TEXT.replacen(PLACEHOLDER, &NAME, 1);
        connection.execute(sqlx::raw_sql(&text)).await?;
        Ok(())
    };
    answered(work).await
}

/// Returns whether the server says that this account has no such procedure: it is missing (1305), or may
/// not be executed (1370).
fn is_missing(number: u16) -> bool {
    matches!(number, 1305 | 1370)
}

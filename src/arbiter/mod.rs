//! The second line of defence, and the only place that writes an order or takes stock.
//!
//! Whatever a gate decided, an order exists only when one InnoDB transaction has inserted it,
//! counted it against the buyer's limit, written the movement and taken the stock with a
//! condition (`transaction.rs`). Gates may lie, vanish or restart: nothing is oversold.
//!
//! For lab items the arbiter can be off. Then the same order is written with the bare stock write
//! of the strategy's textbook form (`bare.rs`), and the gate has to carry correctness alone.
//!
//! Three endings of an attempt matter (`attempt` below): *done*; *again* (rolled back for a
//! passing reason, so the whole transaction is tried again, a bounded number of times); and
//! *commit lost* (the connection died after COMMIT was sent: `settle` asks the ledger).

mod bare;
mod batch;
mod batch_sql;
mod budget;
pub mod checks;
mod lane;
mod places;
mod reject;
pub mod restock;
mod transaction;
mod turns;

use std::time::Duration;

use std::sync::Arc;

use sqlx::{MySqlConnection, MySqlPool};
use tokio::time::Instant;

use crate::domain::outcome::Dependency;
use crate::domain::{ArbiterMode, Doubt, Order, OrderStatus, Purchase, Refusal, Unavailable};
use crate::metrics::Metrics;
use crate::store::mysql::{Fault, orders};

use budget::RetryBudget;
use places::Places;

pub use bare::Bare;
pub use batch::{Batches, LaneConnections};
pub use lane::{BATCH_MAX, Lanes};
pub use transaction::Fence;

/// How often a whole transaction is tried.
pub const ATTEMPTS_MAX: u32 = 4;
/// How often the ledger is asked about a COMMIT whose answer was lost.
pub const SETTLE_ATTEMPTS_MAX: u32 = 5;
/// The longest pause before the second try; it doubles from try to try, and is jittered.
const PAUSE_FIRST: Duration = Duration::from_millis(4);

tokio::task_local! {
    /// Until when a transaction may be begun for the running purchase. It travels with the task,
    /// since no gate has a use for it here.
    static DEADLINE: Instant;
}

/// Runs a purchase for which no transaction is begun after `deadline`, while one that is under way is
/// finished. The deadline leaves enough time for a transaction that waits for a row to end before the
/// buyer stops waiting.
pub async fn by<T>(deadline: Instant, purchase: impl Future<Output = T>) -> T {
    DEADLINE.scope(deadline, purchase).await
}

/// What a gate hands over.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The purchase that the gate let through.
    pub purchase: &'a Purchase,
    /// The token of the item's lock, if the gate holds it.
    pub fence: Option<Fence>,
    /// The version that the gate saw, if it compares versions.
    pub version_seen: Option<u64>,
    /// The textbook's own stock write, for when the arbiter is off.
    pub bare: Bare,
}

/// How the ledger judged a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The order is durable.
    Sold(Order),
    /// An earlier request with this key already became this order; nothing changed now.
    Replayed(Order),
    /// Nothing changed.
    Refused(Refusal),
    /// The stock changed since the gate looked (only if it compares); nothing changed.
    Stale,
    /// A later holder of the item's lock has written since; nothing changed.
    Fenced {
        /// The highest token that was accepted.
        accepted: u64,
    },
    /// Nothing changed; try again later.
    Unavailable(Unavailable),
    /// The COMMIT's answer was lost and the ledger cannot be asked now, or a part of the service
    /// broke off.
    Unknown(Doubt),
}

impl Verdict {
    /// The ledger has not answered a COMMIT and cannot be asked.
    pub(crate) const UNANSWERED: Self = Self::Unknown(Doubt::Unanswered(Dependency::Mysql));
}

/// The arbiter. Clones share the pool and the counters.
#[derive(Clone, Debug)]
pub struct Arbiter {
    pool: MySqlPool,
    metrics: Metrics,
    budget: Arc<RetryBudget>,
    places: Places,
}

/// How one try of the transaction ended.
enum Attempt {
    Done(Verdict),
    /// Rolled back for a passing reason.
    Again(Fault),
    /// COMMIT was sent and not answered.
    CommitLost,
}

impl Arbiter {
    /// An arbiter over the ledger's pool.
    #[must_use]
    pub fn new(pool: MySqlPool, metrics: Metrics) -> Self {
        let places = Places::new(pool.options().get_max_connections());
        Self { pool, metrics, budget: Arc::new(RetryBudget::new()), places }
    }

    /// Writes the order and takes the stock, or says why not. Never leaves half an order.
    pub async fn write(&self, write: &Write<'_>) -> Verdict {
        self.write_split(write, &mut || ()).await
    }

    /// The same, for a gate that lets go too early: with the arbiter off and [`Bare::SetEarly`],
    /// `stock_written` is called when the stock is written and the rest of the transaction, with
    /// its COMMIT, is still to come. Called once per try; never with the arbiter on.
    pub async fn write_split(
        &self,
        write: &Write<'_>,
        stock_written: &mut (dyn FnMut() + Send),
    ) -> Verdict {
        let verdict = self.judge(write, stock_written).await;
        self.count(write.purchase.strategy, verdict)
    }

    /// The same; the caller counts a refusal.
    async fn judge(&self, write: &Write<'_>, stock_written: &mut (dyn FnMut() + Send)) -> Verdict {
        let mut fault = Fault::Transient;
        self.budget.write();
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                if !self.budget.retry() {
                    self.metrics.arbiter_retries_unaffordable.inc();
                    break;
                }
                self.metrics.arbiter_retries.inc();
                pause(attempt).await;
            }
            if is_late() {
                break;
            }
            match self.attempt(write, stock_written).await {
                Attempt::Done(verdict) => return verdict,
                Attempt::Again(why) => fault = why,
                Attempt::CommitLost => match self.settle(write.purchase).await {
                    Some(Some(order)) => return replay(write.purchase, order),
                    Some(None) => fault = Fault::Connection,
                    None => return Verdict::UNANSWERED,
                },
            }
        }
        Verdict::Unavailable(match fault {
            Fault::Transient => Unavailable::Contended,
            _ => Unavailable::Dependency(Dependency::Mysql),
        })
    }

    async fn attempt(
        &self,
        write: &Write<'_>,
        stock_written: &mut (dyn FnMut() + Send),
    ) -> Attempt {
        // What waits here waits for rows of its own item, without a connection.
        let place = in_time(self.places.enter(write.purchase.item.id));
        let Some(_place) = place.await else {
            return Attempt::Done(Verdict::Unavailable(Unavailable::Contended));
        };
        let mut connection = match in_time(self.pool.acquire()).await {
            Some(Ok(connection)) => connection,
            None => return Attempt::Done(Verdict::Unavailable(Unavailable::Contended)),
            // The pool has tried for as long as it may; trying again would only keep the buyer
            // waiting.
            Some(Err(_)) => {
                let unavailable = Unavailable::Dependency(Dependency::Mysql);
                return Attempt::Done(Verdict::Unavailable(unavailable));
            }
        };
        match transaction::run(&mut connection, write, stock_written).await {
            Ok(attempt) => attempt,
            Err(error) => self.after_error(&mut connection, write, &error).await,
        }
    }

    /// Sorts an error that came before COMMIT was sent; the transaction is rolled back already.
    /// The connection in hand is used further: were each to wait for a second one, a crowd of
    /// retries would hold all and wait for more.
    async fn after_error(
        &self,
        connection: &mut MySqlConnection,
        write: &Write<'_>,
        error: &sqlx::Error,
    ) -> Attempt {
        let purchase = write.purchase;
        match Fault::of(error) {
            // Two unique keys can be taken: the order's id (our own earlier try went through) and
            // the request's key (an earlier request did). Both are found by the key.
            Fault::Duplicate => match find(connection, purchase).await {
                Ok(Some(order)) => Attempt::Done(replay(purchase, order)),
                Ok(None) => Attempt::Again(Fault::Transient),
                Err(_) => Attempt::Again(Fault::Connection),
            },
            Fault::CheckViolated => {
                let limit = purchase.item.per_buyer_limit;
                Attempt::Done(Verdict::Refused(Refusal::LimitReached { limit }))
            }
            fault @ (Fault::Transient | Fault::Connection) => Attempt::Again(fault),
            Fault::ReadOnly => Attempt::Done(Verdict::Unavailable(Unavailable::ReadOnly)),
            Fault::Other => {
                tracing::error!(%error, item = %purchase.item.id, "the ledger refused an order");
                Attempt::Done(Verdict::Unavailable(Unavailable::Faulty(Dependency::Mysql)))
            }
        }
    }

    /// Finds out what became of a COMMIT whose answer was lost: `Some(Some(order))` it happened,
    /// `Some(None)` it did not and never will, `None` the ledger cannot be asked.
    ///
    /// The read locks, so it waits for a transaction that still holds the row: a COMMIT that is
    /// only slow is not mistaken for one that failed.
    async fn settle(&self, purchase: &Purchase) -> Option<Option<Order>> {
        self.metrics.arbiter_commits_lost.inc();
        for attempt in 1..=SETTLE_ATTEMPTS_MAX {
            match transaction::find_locking(&self.pool, purchase).await {
                Ok(found) => return Some(found),
                Err(error) => {
                    tracing::warn!(%error, order = %purchase.order_id, "a lost COMMIT is not settled yet");
                }
            }
            pause(attempt + 2).await;
        }
        None
    }

    /// Counts a refusal, and passes it on: a gate that lets too much through is visible even when
    /// nothing went wrong.
    #[must_use]
    pub fn count(&self, strategy: &'static str, verdict: Verdict) -> Verdict {
        let why = match &verdict {
            Verdict::Refused(refusal) => refusal.code(),
            Verdict::Stale => "stale",
            Verdict::Fenced { .. } => "fenced",
            _ => return verdict,
        };
        self.metrics.arbiter_refused(strategy, why);
        verdict
    }
}

async fn find(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
) -> sqlx::Result<Option<Order>> {
    orders::find_by_key(connection, purchase.buyer, purchase.item.id, &purchase.key).await
}

/// What a retry with the key of `order` is answered.
#[must_use]
pub fn replay(purchase: &Purchase, order: Order) -> Verdict {
    if order.id == purchase.order_id {
        Verdict::Sold(order)
    } else if order.quantity == purchase.quantity {
        Verdict::Replayed(order)
    } else {
        Verdict::Refused(Refusal::KeyReused { order_id: order.id })
    }
}

/// The state in which the arbiter writes an order.
const WRITTEN_AS: OrderStatus = OrderStatus::Pending;

fn is_guarded(purchase: &Purchase) -> bool {
    purchase.item.arbiter == ArbiterMode::On
}

/// Until when a transaction may be begun for the running purchase; `None` where nobody waits for
/// its end, so that it is not bounded.
fn deadline() -> Option<Instant> {
    DEADLINE.try_with(|deadline| *deadline).ok()
}

/// Whether it is too late to begin a transaction for the running purchase.
fn is_late() -> bool {
    deadline().is_some_and(|deadline| Instant::now() >= deadline)
}

/// What `wait` comes to, unless the running purchase's deadline comes first.
async fn in_time<T>(wait: impl Future<Output = T>) -> Option<T> {
    match deadline() {
        Some(deadline) => tokio::time::timeout_at(deadline, wait).await.ok(),
        None => Some(wait.await),
    }
}

/// Full jitter over a doubling bound.
async fn pause(attempt: u32) {
    let bound = PAUSE_FIRST * 2_u32.pow(attempt.min(8));
    tokio::time::sleep(bound.mul_f64(rand::random::<f64>())).await;
}

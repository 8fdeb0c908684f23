//! The second line of defence, and the only place that writes an order or takes stock.
//!
//! Whatever a gate decided, an order exists only when one InnoDB transaction has inserted it,
//! counted it against the buyer's limit, written the movement and taken the stock with a
//! condition (`transaction.rs`, `stock.rs`). Gates may lie, vanish or restart: nothing is oversold.
//!
//! One order is written like this:
//!
//! 1. [`Arbiter::write`] tries the transaction until it is decided, and counts a refusal;
//! 2. one try is a call of the server's procedure (`order_routine.rs`), or one
//!    statement after the other (`transaction.rs`) where there is no procedure;
//! 3. an error is sorted by `after_error.rs`: rolled back and tried again, refused, or unknown.
//!
//! Orders that wait for each other are written in batches ([`GroupCommit`]). All forms have the same
//! statements in the same order: their texts are in `new_order.rs`, each once.
//!
//! For lab items the arbiter can be off. Then the order is written with the stock statement of the
//! strategy's textbook form, and the gate has to carry correctness alone.
//!
//! One try of the transaction ends in one of four ways ([`Attempt`]): it is *done*; it was rolled
//! back for a passing reason and the whole transaction is tried *again*, a bounded number of times;
//! the connection died after *COMMIT* was sent, and the ledger is asked what became of it
//! (`after_error.rs`); or it died after the *call* of the whole order was sent (`order_routine.rs`).
//! Such a call may still run when the ledger has been asked. So the order is tried again under the same
//! key, which lets one of the two count; if the second try sells nothing, the outcome is unknown.

mod after_error;
mod answers;
mod group_commit;
mod kept_connections;
pub(crate) mod new_order;
pub mod order_routine;
mod protocol;
mod reject;
pub mod restock;
mod stock;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub(crate) use crate::work::item_concurrency::in_time;
pub(crate) use crate::work::{ATTEMPTS_MAX, pause};
use tokio::time::Instant;

use crate::rows::item::items::StockRow;
use crate::rows::outbox::Outbox;
use crate::work::breaker::Breaker;
use crate::work::item_concurrency::ItemConcurrency;
use crate::work::item_permit::ItemPermit;
use mysql_connection::{Database, Fault, Shards, Writer};
use shop_domain::outcome::Dependency;
use shop_domain::{
    ArbiterMode, Doubt, ItemId, OrderId, OrderStatus, Outcome, Purchase, Quantity, RequestKey,
    Unavailable, UserId,
};
use shop_metrics::Metrics;

use after_error::{after_error, unavailable};
pub use after_error::{no_ledger, replay, replay_lines};
pub use answers::{AnswerReceiver, AnswerSender, Answers, ReadyAnswer, answer_channel};
use kept_connections::{KeptConnection, KeptConnections};
pub use new_order::Fence;
use order_routine::OrderCalls;
use protocol::protocol;

pub use group_commit::{
    BATCH_MAX, BatchConnections, BatchOrders, BatchTasks, BatchWriter, GroupCommit,
    SHARED_CONNECTIONS, Tell,
};
pub use stock::{StockWrite, UnguardedWrite};

/// Reads of the ledger about a COMMIT whose answer was lost.
pub const LOST_COMMIT_READS_MAX: u32 = 5;
/// The arbiter keeps at most the pool's connections divided by this, so that the others find some.
const KEPT_SHARE: u32 = 2;

/// An order to be written, as a gate hands it over.
#[derive(Clone, Copy, Debug)]
pub struct OrderWrite<'a> {
    /// The purchase that the gate accepted.
    pub purchase: &'a Purchase,
    /// The fence of the item's lock, if the gate holds one.
    pub fence: Option<Fence>,
    /// The statement that takes the stock.
    pub stock: StockWrite<'a>,
    /// No transaction is begun after this instant, while one that is under way is finished; `None`
    /// where no buyer waits for the answer. It leaves enough time for a transaction that waits for
    /// a row to end before the buyer stops waiting.
    pub deadline: Option<Instant>,
}

impl OrderWrite<'_> {
    /// Whether this takes the stock before it writes anything else. A write that compares the stock row with
    /// what was read does, because most tries of such a gate fail, and then they have written nothing else.
    ///
    /// Such a write locks the stock row before the buyer's limit, and all others lock the limit first. The call
    /// and the statements both go by this, or orders of one buyer through one gate deadlock. Through two
    /// gates they may; one of them tries again.
    fn takes_stock_first(&self) -> bool {
        let is_set_first =
            matches!(self.stock, StockWrite::Unguarded(UnguardedWrite::SetFirst { .. }));
        is_set_first || (self.fence.is_none() && self.stock.is_compared())
    }
}

/// The reason why nothing was written: another write came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The stock row is not as the gate has read it. Only writes that compare can meet this.
    Stale,
    /// Too few rows of the strategy's own table are free. Only writes that take such rows can meet this.
    NothingFree,
    /// A later holder of the item's lock has written. Only writes with a fence can meet this.
    Fenced {
        /// The highest fence that was accepted.
        accepted: u64,
    },
}

impl From<Conflict> for Outcome {
    /// The outcome for a gate that gives up after a conflict.
    fn from(_: Conflict) -> Self {
        Self::Unavailable(Unavailable::Contended)
    }
}

/// The result of a write: an outcome other than `Queued`, or a conflict that the gate may act on.
pub type Answer = Result<Outcome, Conflict>;

/// The ledger has not answered a COMMIT and cannot be asked about it.
const UNANSWERED: Outcome = Outcome::Unknown(Doubt::Unanswered(Dependency::Mysql));

/// The arbiter. Clones share the pool and the counters.
#[derive(Clone)]
pub struct Arbiter {
    pool: Database,
    /// Asked to look again when a server refuses a write or is lost.
    writer: Option<Writer>,
    /// Where items are; one transaction writes those of one shard.
    shards: Shards,
    metrics: Metrics,
    budget: Arc<RetryBudget>,
    concurrency: ItemConcurrency,
    kept: KeptConnections,
    calls: OrderCalls,
    outbox: Outbox,
}

/// The result of one try of the transaction.
enum Attempt {
    Done(Answer),
    /// Rolled back for a passing reason.
    Again(Fault),
    /// COMMIT was sent and not answered.
    CommitLost,
    /// The call of the procedure was sent and not answered. It may begin even later.
    CallLost,
}

impl Arbiter {
    /// An arbiter over the ledger's pool.
    pub fn new(pool: Database, metrics: Metrics) -> Self {
        let concurrency = ItemConcurrency::new(pool.connections_max());
        let budget = Arc::new(RetryBudget::new());
        let kept_max = pool.connections_max() / KEPT_SHARE;
        let kept = KeptConnections::new(pool.clone(), kept_max);
        let calls = OrderCalls::default();
        let outbox = Outbox::default();
        let shards = Shards::default();
        Self { pool, writer: None, shards, metrics, budget, concurrency, kept, calls, outbox }
    }

    /// An arbiter that shares the limit of each item with the other transactions of the pool, and answers "overloaded"
    /// where it gets no connection although the server answers `breaker`. It tells `writer` when the server behind the
    /// pool refuses writes or is lost.
    #[must_use]
    pub fn beside(self, concurrency: ItemConcurrency, breaker: Breaker, writer: Writer) -> Self {
        let kept = self.kept.checked_by(breaker);
        let shards = writer.shards().clone();
        Self { concurrency, kept, writer: Some(writer), shards, ..self }
    }

    /// Whether an order may be one call of the ledger's procedure; without this, it may.
    #[must_use]
    pub fn with_calls(mut self, is_called: bool) -> Self {
        self.calls.is_called = is_called;
        self
    }

    /// Has the hosts of the ledger asked soon, after an error that another host may not give.
    fn recheck_writer(&self, error: &sqlx::Error) {
        if let (Some(writer), Fault::ReadOnly | Fault::Connection) =
            (&self.writer, Fault::of(error))
        {
            writer.recheck_writer();
        }
    }

    /// Writes events of its orders into `outbox`; without this it writes none.
    #[must_use]
    pub fn with_outbox(self, outbox: Outbox) -> Self {
        Self { outbox, ..self }
    }

    /// Reads the stock row of an item without a lock, on a connection that the next order is written on.
    /// `None` when there is no such item.
    ///
    /// # Errors
    /// The database's.
    pub async fn stock(&self, item: ItemId) -> sqlx::Result<Option<StockRow>> {
        self.kept.read_stock(self.kept.get().await?, item).await
    }

    /// Writes the order and takes the stock, or says why not. Never leaves half an order.
    ///
    /// # Errors
    /// The conflict, when another write came first; nothing changed. Only a gate that compares or
    /// holds a lock can meet one.
    pub async fn write(&self, write: &OrderWrite<'_>) -> Answer {
        let answer = self.decide(write).await;
        self.count_refusal(write.purchase, &answer);
        answer
    }

    /// Writes like [`Arbiter::write`], without a fence, for a gate that gives up after a conflict.
    pub async fn sell(
        &self,
        purchase: &Purchase,
        stock: StockWrite<'_>,
        deadline: Option<Instant>,
    ) -> Outcome {
        let write = OrderWrite { purchase, fence: None, stock, deadline };
        self.write(&write).await.unwrap_or_else(Outcome::from)
    }

    /// Whether the ledger takes an order of another buyer for the item of `purchase`: tries one, and rolls it back. If
    /// it takes none, for example because a table is missing, the fault is not that of a single order.
    pub async fn takes_others(&self, purchase: &Purchase) -> bool {
        let order_id = OrderId::generate();
        let other = Purchase {
            order_id,
            buyer: UserId::generate_guest(),
            quantity: Quantity::ONE,
            amount: purchase.item.price,
            key: RequestKey::of_order(order_id),
            ..purchase.clone()
        };
        let stock = StockWrite::of(&other.item, StockWrite::Guarded, UnguardedWrite::Record);
        let write = OrderWrite { purchase: &other, fence: None, stock, deadline: None };
        let Ok((_permit, mut kept)) = self.connect(&write).await else { return false };
        let tried = transaction::try_out(&mut kept.connection, &write, self.outbox).await;
        tried.is_ok()
    }

    /// Tries the transaction until it is decided.
    async fn decide(&self, write: &OrderWrite<'_>) -> Answer {
        let mut fault = Fault::Transient;
        // Whether an earlier call of this order was not answered.
        let mut may_run = false;
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
            if is_late(write.deadline) {
                break;
            }
            let (permit, kept) = match self.connect(write).await {
                Ok(connected) => connected,
                Err(_) if may_run => break,
                Err(why) => return Ok(Outcome::Unavailable(why)),
            };
            let tried = self.try_once(write, permit, kept).await;
            let is_call = matches!(tried, Attempt::CallLost);
            match tried {
                Attempt::Done(answer) if may_run => {
                    return self.doubt(write.purchase, answer).await;
                }
                Attempt::Done(answer) => return answer,
                Attempt::CommitLost | Attempt::CallLost => {
                    may_run |= is_call;
                    let found = Box::pin(self.recover_lost_commit(write.purchase)).await;
                    protocol::recovered(write.purchase, found.as_ref());
                    match found {
                        Some(Some(order)) => return Ok(replay(write.purchase, order)),
                        Some(None) => fault = Fault::Connection,
                        None => return Ok(UNANSWERED),
                    }
                }
                Attempt::Again(why) => fault = why,
            }
        }
        if may_run {
            return Ok(UNANSWERED);
        }
        Ok(Outcome::Unavailable(unavailable(fault)))
    }

    /// One try on a connection, which is kept for the next order if its transaction has ended.
    async fn try_once(
        &self,
        write: &OrderWrite<'_>,
        permit: ItemPermit,
        mut kept: KeptConnection,
    ) -> Attempt {
        // Only after its own COMMIT or ROLLBACK was answered: BEGIN would commit an open transaction.
        let mut has_ended = false;
        let takes_calls = self.writer.as_ref().is_none_or(Writer::takes_calls);
        protocol!("begin", [write.purchase], kind = "call");
        let connection = &mut kept.connection;
        let tried = self.calls.try_once(connection, write, self.outbox, takes_calls);
        let mut tried = match tried.await {
            Ok(tried) => {
                has_ended = matches!(tried, Attempt::Done(_));
                tried
            }
            // Boxed: it is rarely awaited, and would make every purchase's future larger.
            Err(error) => {
                self.recheck_writer(&error);
                Box::pin(after_error(&mut kept.connection, write.purchase, &error)).await
            }
        };
        if matches!(tried, Attempt::Done(_)) && kept.destination.has_changed() {
            // A server that was replaced meanwhile has answered: the ledger may not have it.
            tried = Attempt::CommitLost;
        }
        if has_ended {
            self.kept.keep(kept);
        } else {
            drop(kept);
        }
        drop(permit);
        protocol::tried(write.purchase, &tried);
        tried
    }

    /// Waits for a connection. What waits for rows of one item waits first, without a connection.
    async fn connect(
        &self,
        write: &OrderWrite<'_>,
    ) -> Result<(ItemPermit, KeptConnection), Unavailable> {
        let _span = write.purchase.trace.span("connection wait");
        let permit =
            in_time(write.deadline, self.concurrency.acquire(write.purchase.item.id)).await;
        let permit = permit.flatten().ok_or(Unavailable::Contended)?;
        match in_time(write.deadline, self.kept.get()).await {
            Some(Ok(kept)) => Ok((permit, kept)),
            None => Err(Unavailable::Contended),
            Some(Err(error)) => Err(no_connection(&error)),
        }
    }

    /// Counts a refusal: a gate that lets too much through is visible even when nothing went wrong.
    fn count_refusal(&self, purchase: &Purchase, answer: &Answer) {
        if !purchase.counts_refusals {
            return;
        }
        let why = match answer {
            Ok(Outcome::Refused(refusal)) => refusal.code(),
            Err(Conflict::Stale) => "stale",
            Err(Conflict::Fenced { .. }) => "fenced",
            Ok(_) | Err(Conflict::NothingFree) => return,
        };
        self.metrics.arbiter_refused(purchase.strategy, why);
    }
}

/// The state in which the arbiter writes an order.
const WRITTEN_AS: OrderStatus = OrderStatus::Pending;

fn is_guarded(purchase: &Purchase) -> bool {
    purchase.item.arbiter == ArbiterMode::On
}

/// The reason for a purchase that got no connection. The pool has tried for as long as it may; trying again would only
/// keep the buyer waiting.
fn no_connection(error: &sqlx::Error) -> Unavailable {
    match Fault::of(error) {
        Fault::AllInUse => Unavailable::Overloaded,
        _ => Unavailable::Dependency(Dependency::Mysql),
    }
}

/// Whether it is too late to begin a transaction.
fn is_late(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// Credit that a write adds.
const WRITE_CREDIT: i64 = 1;
/// Credit that a retry costs.
const RETRY_COST: i64 = 10;
/// The most credit that is saved up: a hundred retries.
const CREDIT_MAX: i64 = 100 * RETRY_COST;

/// The retries of one process: one for every ten writes, so that retries cannot multiply the load on a
/// database that is in trouble. A reserve covers short storms.
#[derive(Debug)]
struct RetryBudget(AtomicI64);

impl RetryBudget {
    /// A full reserve.
    fn new() -> Self {
        Self(AtomicI64::new(CREDIT_MAX))
    }

    /// Adds the credit of one write.
    fn write(&self) {
        if self.0.fetch_add(WRITE_CREDIT, Ordering::Relaxed) >= CREDIT_MAX {
            self.0.fetch_sub(WRITE_CREDIT, Ordering::Relaxed);
        }
    }

    /// Pays for a retry; `false` when the credit does not suffice.
    fn retry(&self) -> bool {
        let paid = self.0.fetch_sub(RETRY_COST, Ordering::Relaxed) >= RETRY_COST;
        if !paid {
            self.0.fetch_add(RETRY_COST, Ordering::Relaxed);
        }
        paid
    }
}

#[cfg(test)]
mod tests {
    use mysql_connection::{PoolOptions, pool_of};
    use shop_domain::{Cents, Currency, Item, ItemKind, SaleWindow};
    use time::{Duration, OffsetDateTime};

    use super::*;

    #[test]
    fn retries_are_a_tenth_of_the_writes_once_the_reserve_is_gone() {
        let budget = RetryBudget::new();
        let reserve = (0..1_000).filter(|_| budget.retry()).count();
        assert_eq!(reserve, 100);
        let mut retries = 0;
        for _ in 0..1_000 {
            budget.write();
            retries += u32::from(budget.retry());
        }
        assert_eq!(retries, 100);
    }

    /// An item of which a buyer may have two units.
    pub(super) fn item(id: i64) -> Item {
        let now = OffsetDateTime::UNIX_EPOCH;
        Item {
            id: ItemId::new(id).expect("positive"),
            name: "thing".to_owned(),
            description: String::new(),
            image_url: None,
            price: Cents::new(100).expect("small"),
            currency: Currency::USD,
            window: SaleWindow::new(now, now + Duration::DAY).expect("a window"),
            per_buyer_limit: 2,
            unpaid_max: 0,
            hold_seconds: 300,
            strategy: "mysql-batch".to_owned(),
            kind: ItemKind::Shop,
            arbiter: ArbiterMode::On,
            paused: false,
            waiting_room: false,
            offer_seconds: 0,
            extend_seconds: 0,
            return_seconds: 0,
            limit_group: None,
            variant: None,
            draw: None,
            has_queue: false,
            revision: 0,
        }
    }

    /// A purchase without a key of the buyer.
    pub(super) fn purchase(item: &Item, buyer: i64, units: i128) -> Purchase {
        let order_id = OrderId::generate();
        let quantity = Quantity::new(units).expect("positive");
        Purchase {
            order_id,
            item: Arc::new(item.clone()),
            buyer: UserId::new(buyer).expect("positive"),
            quantity,
            amount: item.price.times(quantity).expect("small"),
            key: RequestKey::of_order(order_id),
            strategy: "mysql-batch",
            created_at: OffsetDateTime::UNIX_EPOCH,
            expires_at: OffsetDateTime::UNIX_EPOCH,
            trace: Default::default(),
            line_count: None,
            counts_refusals: true,
        }
    }

    /// A pool of a ledger at this port, which does not wait long for a connection.
    pub(super) fn pool_at(port: u16) -> Database {
        let options = PoolOptions {
            url: format!("mysql://nobody@127.0.0.1:{port}/nothing"),
            connections_max: 2,
            lock_wait_timeout_seconds: 1,
            one_shard: true,
            acquire_timeout_ms: 100,
        };
        pool_of(options, 2).expect("the URL is fine")
    }

    /// An arbiter whose ledger is not asked.
    pub(super) fn arbiter() -> Arbiter {
        Arbiter::new(pool_at(9), Metrics::new())
    }
}

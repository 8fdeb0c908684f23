//! A lane's batches: the orders of many buyers of one item in one transaction.
//!
//! A batch is written in good faith first: the unique key, the CHECK on the buyer's limit and
//! `available >= ?` stand behind it as behind a single order, so what must not happen does not.
//! When one of them objects, the batch is rolled back, and this one and the next are looked at
//! before they are written: duplicates of a key, buyers over their limit and those for whom nothing
//! is left are answered singly, and the rest goes through together. Once nobody had to be sorted
//! out, good faith returns.
//!
//! A batch is only ever an optimisation: whatever stays undecided is written one by one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{Connection, MySql, MySqlConnection, MySqlPool, Row};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::transaction::{Fence, insert_orders, raise_fence};
use super::{ATTEMPTS_MAX, Arbiter, Bare, Verdict, WRITTEN_AS, Write, is_guarded, pause, replay};
use crate::domain::order::MovementReason;
use crate::domain::{Purchase, Refusal, UserId};
use crate::store::mysql::{Fault, orders};

/// The connections that lanes keep while they are busy. Clones share them.
#[derive(Clone, Debug)]
pub struct LaneConnections {
    pool: MySqlPool,
    free: Arc<Semaphore>,
}

impl LaneConnections {
    /// At most `count` of `pool`, which has as many and is used by nobody else.
    #[must_use]
    pub fn new(pool: MySqlPool, count: u32) -> Self {
        Self { pool, free: Arc::new(Semaphore::new(count as usize)) }
    }

    /// One to keep, or one of the common pool when all are taken.
    async fn get(&self, common: &MySqlPool) -> sqlx::Result<Own> {
        let place = Arc::clone(&self.free).try_acquire_owned().ok();
        let pool = if place.is_some() { &self.pool } else { common };
        Ok(Own { connection: pool.acquire().await?, place })
    }
}

/// A connection and the right to keep it. The connection is dropped first.
struct Own {
    connection: PoolConnection<MySql>,
    place: Option<OwnedSemaphorePermit>,
}

/// Writes the batches of one lane, or of one holder of an item's lock.
pub struct Batches {
    arbiter: Arbiter,
    connections: LaneConnections,
    /// Kept from batch to batch, so that its statements are prepared once.
    own: Option<Own>,
    /// Whether batches are looked at before they are written.
    careful: bool,
}

impl Batches {
    /// For one item at a time; uncounted refusals, see [`Arbiter::count`].
    pub(super) fn new(arbiter: Arbiter, connections: LaneConnections) -> Self {
        Self { arbiter, connections, own: None, careful: false }
    }

    /// Judges and writes the orders of one item, under the token of the item's lock if there is
    /// one; the verdicts are in the orders' order. Refusals are not counted.
    pub async fn write(&mut self, purchases: &[Purchase], fence: Option<Fence>) -> Vec<Verdict> {
        let mut verdicts: Vec<Option<Verdict>> = vec![None; purchases.len()];
        if purchases.len() > 1 {
            self.together(purchases, fence, &mut verdicts).await;
        }
        let mut judged = Vec::with_capacity(purchases.len());
        for (purchase, verdict) in purchases.iter().zip(verdicts) {
            judged.push(match verdict {
                Some(verdict) => verdict,
                None => self.arbiter.judge(&single(purchase, fence), &mut || ()).await,
            });
        }
        judged
    }

    /// Writes what can be written together; what stays `None` is to be written singly.
    async fn together(
        &mut self,
        purchases: &[Purchase],
        fence: Option<Fence>,
        verdicts: &mut [Option<Verdict>],
    ) {
        let Ok(mut own) = self.connection().await else { return };
        let kept = self.write_with(&mut own.connection, purchases, fence, verdicts).await;
        // Without a place it goes back to the common pool, and after an error to nobody.
        self.own = (kept && own.place.is_some()).then_some(own);
        if kept {
            return;
        }
        // A COMMIT that was not answered: each order settles for itself, once the connection that
        // may hold its row is gone.
        for (purchase, verdict) in purchases.iter().zip(verdicts) {
            if *verdict == Some(Verdict::Unknown) {
                *verdict = match self.arbiter.settle(purchase).await {
                    Some(Some(order)) => Some(Verdict::Sold(order)),
                    Some(None) => None,
                    None => Some(Verdict::Unknown),
                };
            }
        }
    }

    async fn connection(&mut self) -> sqlx::Result<Own> {
        match self.own.take() {
            Some(own) => Ok(own),
            None => self.connections.get(&self.arbiter.pool).await,
        }
    }

    /// `false` when the connection is not to be used again. Orders that may have been written are
    /// `Unknown` then.
    async fn write_with(
        &mut self,
        connection: &mut MySqlConnection,
        purchases: &[Purchase],
        fence: Option<Fence>,
        verdicts: &mut [Option<Verdict>],
    ) -> bool {
        let first_of_their_key = first_of_their_key(purchases);
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                self.arbiter.metrics.arbiter_retries.inc();
                pause(attempt).await;
            }
            let chosen = if self.careful {
                match choose(connection, purchases, &first_of_their_key, verdicts).await {
                    Ok(chosen) => chosen,
                    Err(error) => {
                        tracing::debug!(%error, "a batch was not looked at; its orders are written singly");
                        return Fault::of(&error) != Fault::Connection;
                    }
                }
            } else {
                first_of_their_key.clone()
            };
            self.careful = chosen.len() < first_of_their_key.len();
            if chosen.is_empty() {
                return true;
            }
            let picked: Vec<&Purchase> = chosen.iter().map(|&index| &purchases[index]).collect();
            match commit(connection, &picked, fence).await {
                Ok(Filled::Whole) => {
                    let token = fence.map(|fence| fence.token);
                    for &index in &chosen {
                        let order = purchases[index].order(WRITTEN_AS, token);
                        verdicts[index] = Some(Verdict::Sold(order));
                    }
                    return true;
                }
                Ok(Filled::Fenced { accepted }) => {
                    for &index in &chosen {
                        verdicts[index] = Some(Verdict::Fenced { accepted });
                    }
                    return true;
                }
                // Too few are left for all, or for all that there were a moment ago.
                Ok(Filled::TooFew) => self.careful = true,
                Err(Broken::Before(error)) => {
                    tracing::debug!(%error, "a batch was rolled back");
                    match Fault::of(&error) {
                        Fault::Duplicate | Fault::CheckViolated => self.careful = true,
                        Fault::Transient => {}
                        Fault::Connection => return false,
                        Fault::Other => return true,
                    }
                }
                Err(Broken::AtCommit(error)) => {
                    tracing::warn!(%error, orders = picked.len(), "a batch's COMMIT was not answered");
                    self.arbiter.metrics.arbiter_commits_lost.inc();
                    for &index in &chosen {
                        verdicts[index] = Some(Verdict::Unknown);
                    }
                    return false;
                }
            }
        }
        true
    }
}

/// An order by itself.
fn single(purchase: &Purchase, fence: Option<Fence>) -> Write<'_> {
    Write { purchase, fence, version_seen: None, bare: Bare::Take }
}

/// The second of two with one key waits for the first, and then finds it.
fn first_of_their_key(purchases: &[Purchase]) -> Vec<usize> {
    let mut seen = HashSet::with_capacity(purchases.len());
    let is_first = |index: &usize| {
        let purchase = &purchases[*index];
        seen.insert((purchase.buyer, purchase.key.as_str()))
    };
    (0..purchases.len()).filter(is_first).collect()
}

/// Finds the orders that should go through together, and answers those that are decided already.
async fn choose(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
    candidates: &[usize],
    verdicts: &mut [Option<Verdict>],
) -> sqlx::Result<Vec<usize>> {
    let item = purchases[0].item.id.get();
    answer_finished(connection, purchases, verdicts).await?;
    let mut bought = if is_guarded(&purchases[0]) {
        bought_so_far(connection, purchases).await?
    } else {
        HashMap::new()
    };
    let row = sqlx::query("SELECT available FROM stock WHERE item_id = ?")
        .bind(item)
        .fetch_one(&mut *connection)
        .await?;
    let mut left: i64 = row.try_get("available")?;
    let mut chosen = Vec::with_capacity(candidates.len());
    for &index in candidates {
        if verdicts[index].is_some() {
            continue;
        }
        let purchase = &purchases[index];
        let units = purchase.quantity.signed();
        let counted = bought.entry(purchase.buyer).or_default();
        let limit = purchase.item.per_buyer_limit;
        if is_guarded(purchase) && *counted + units > i64::from(limit) {
            verdicts[index] = Some(Verdict::Refused(Refusal::LimitReached { limit }));
        } else if units > left {
            verdicts[index] = Some(Verdict::Refused(Refusal::SoldOut));
        } else {
            *counted += units;
            left -= units;
            chosen.push(index);
        }
    }
    Ok(chosen)
}

/// Answers the keys that are orders already. Keys that were made here cannot be.
async fn answer_finished(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
    verdicts: &mut [Option<Verdict>],
) -> sqlx::Result<()> {
    let keyed: Vec<&Purchase> = purchases.iter().filter(|p| p.key.is_from_caller()).collect();
    if keyed.is_empty() {
        return Ok(());
    }
    let mut found = HashMap::new();
    for chunk in powers_of_two(&keyed) {
        let places = vec!["(?, ?)"; chunk.len()].join(", ");
        let statement = format!(
            "SELECT {}, request_key FROM orders WHERE item_id = ? AND (user_id, request_key) IN ({places})",
            orders::COLUMNS
        );
        let mut query = sqlx::query(&statement).bind(purchases[0].item.id.get());
        for purchase in chunk {
            query = query.bind(purchase.buyer.get()).bind(purchase.key.as_str());
        }
        for row in query.fetch_all(&mut *connection).await? {
            let key: String = row.try_get_unchecked("request_key")?;
            let order = orders::read(&row)?;
            found.insert((order.user_id, key), order);
        }
    }
    for (purchase, verdict) in
        purchases.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none())
    {
        let order = found.get(&(purchase.buyer, purchase.key.as_str().to_owned()));
        *verdict = order.map(|order| replay(purchase, order.clone()));
    }
    Ok(())
}

/// Units that the batch's buyers have already.
async fn bought_so_far(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
) -> sqlx::Result<HashMap<UserId, i64>> {
    let mut bought = HashMap::new();
    let all: Vec<&Purchase> = purchases.iter().collect();
    for chunk in powers_of_two(&all) {
        let places = vec!["?"; chunk.len()].join(", ");
        let statement = format!(
            "SELECT user_id, bought FROM buyer_limits WHERE item_id = ? AND user_id IN ({places})"
        );
        let mut query = sqlx::query(&statement).bind(purchases[0].item.id.get());
        for purchase in chunk {
            query = query.bind(purchase.buyer.get());
        }
        for row in query.fetch_all(&mut *connection).await? {
            if let Some(user) = UserId::new(row.try_get("user_id")?) {
                bought.insert(user, i64::from(row.try_get::<i32, _>("bought")?));
            }
        }
    }
    Ok(bought)
}

/// How a batch's transaction failed.
enum Broken {
    /// Rolled back; nothing changed.
    Before(sqlx::Error),
    /// COMMIT was sent and not answered.
    AtCommit(sqlx::Error),
}

impl From<sqlx::Error> for Broken {
    fn from(error: sqlx::Error) -> Self {
        Self::Before(error)
    }
}

/// What the statements before COMMIT came to.
enum Filled {
    /// All orders are written.
    Whole,
    /// The stock did not suffice for all.
    TooFew,
    /// A later holder of the item's lock has written.
    Fenced {
        /// The highest token that was accepted.
        accepted: u64,
    },
}

/// The transaction. Anything but `Whole` was rolled back.
async fn commit(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
    fence: Option<Fence>,
) -> Result<Filled, Broken> {
    let mut transaction = connection.begin().await?;
    match fill(&mut transaction, purchases, fence).await {
        Ok(Filled::Whole) => match transaction.commit().await {
            Ok(()) => Ok(Filled::Whole),
            Err(error) if Fault::of(&error) == Fault::Transient => Err(Broken::Before(error)),
            Err(error) => Err(Broken::AtCommit(error)),
        },
        Ok(refused) => {
            transaction.rollback().await?;
            Ok(refused)
        }
        Err(error) => {
            // When even this fails the connection is dead, and the server rolls back by itself.
            let _ = transaction.rollback().await;
            Err(Broken::Before(error))
        }
    }
}

async fn fill(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
    fence: Option<Fence>,
) -> sqlx::Result<Filled> {
    let guarded = is_guarded(purchases[0]);
    if let Some(fence) = fence
        && guarded
        && let Some(accepted) = raise_fence(connection, purchases[0], fence).await?
    {
        return Ok(Filled::Fenced { accepted });
    }
    for chunk in powers_of_two(purchases) {
        let writes: Vec<Write<'_>> = chunk.iter().map(|purchase| single(purchase, fence)).collect();
        insert_orders(connection, &writes).await?;
    }
    if guarded {
        count_buyers(connection, purchases).await?;
    }
    for chunk in powers_of_two(purchases) {
        insert_movements(connection, chunk).await?;
    }
    let units: i64 = purchases.iter().map(|purchase| purchase.quantity.signed()).sum();
    let taken = sqlx::query(
        "UPDATE stock SET available = available - ?, version = version + 1 \
         WHERE item_id = ? AND available >= ?",
    )
    .bind(units)
    .bind(purchases[0].item.id.get())
    .bind(units)
    .execute(connection)
    .await?;
    Ok(if taken.rows_affected() == 1 { Filled::Whole } else { Filled::TooFew })
}

/// One row per buyer, sorted: two batches of different instances take their locks in one order.
async fn count_buyers(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
) -> sqlx::Result<()> {
    let mut units: HashMap<UserId, i64> = HashMap::new();
    for purchase in purchases {
        *units.entry(purchase.buyer).or_default() += purchase.quantity.signed();
    }
    let mut units: Vec<(UserId, i64)> = units.into_iter().collect();
    units.sort_unstable();
    let item = &purchases[0].item;
    for chunk in powers_of_two(&units) {
        let places = vec!["(?, ?, ?, ?)"; chunk.len()].join(", ");
        let statement = format!(
            "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES {places} \
             ON DUPLICATE KEY UPDATE bought = bought + VALUES(bought), allowed = VALUES(allowed)"
        );
        let mut query = sqlx::query(&statement);
        for (user, units) in chunk {
            query =
                query.bind(item.id.get()).bind(user.get()).bind(units).bind(item.per_buyer_limit);
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

async fn insert_movements(
    connection: &mut MySqlConnection,
    chunk: &[&Purchase],
) -> sqlx::Result<()> {
    let sold = MovementReason::Sold.word();
    let places = vec![format!("(?, ?, '{sold}', ?, ?)"); chunk.len()].join(", ");
    let statement = format!(
        "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) VALUES {places}"
    );
    let mut query = sqlx::query(&statement);
    for purchase in chunk {
        query = query
            .bind(purchase.item.id.get())
            .bind(purchase.order_id.to_string())
            .bind(-purchase.quantity.signed())
            .bind(purchase.created_at);
    }
    query.execute(connection).await?;
    Ok(())
}

/// Cuts a batch into pieces whose lengths are powers of two, largest first: a handful of statement
/// shapes, so that each is prepared once and used for ever.
fn powers_of_two<T>(mut rest: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let length = 1 << rest.len().checked_ilog2()?;
        let (piece, tail) = rest.split_at(length);
        rest = tail;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_powers_of_two_and_miss_nothing() {
        for length in 0..600 {
            let all: Vec<usize> = (0..length).collect();
            let pieces: Vec<&[usize]> = powers_of_two(&all).collect();
            assert!(pieces.iter().all(|piece| piece.len().is_power_of_two()));
            assert_eq!(pieces.concat(), all);
        }
    }
}

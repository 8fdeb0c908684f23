//! A lane's batch: the orders of many buyers of one item in one transaction.
//!
//! What could spoil the transaction is found before it: duplicates of a key, buyers over their
//! limit, and those for whom nothing is left are judged singly, so the batch holds only orders that
//! should go through, in the order in which they came. The same conditions as for a single order
//! stand behind it (unique key, CHECK, `available >= ?`), so when somebody else writes in between
//! the transaction is rolled back and its orders are written one by one: a batch is only ever an
//! optimisation.

use std::collections::{HashMap, HashSet};

use sqlx::{Connection, MySqlConnection, Row};

use super::transaction::insert_orders;
use super::{Arbiter, Bare, Verdict, WRITTEN_AS, Write, is_guarded, replay};
use crate::domain::order::MovementReason;
use crate::domain::{Purchase, Refusal, UserId};
use crate::store::mysql::{Fault, orders};

/// Judges and writes the orders of one item; the verdicts are in the orders' order.
pub(super) async fn write(arbiter: &Arbiter, purchases: &[Purchase]) -> Vec<Verdict> {
    let mut verdicts: Vec<Option<Verdict>> = vec![None; purchases.len()];
    if purchases.len() > 1 {
        together(arbiter, purchases, &mut verdicts).await;
    }
    let mut judged = Vec::with_capacity(purchases.len());
    for (purchase, verdict) in purchases.iter().zip(verdicts) {
        judged.push(match verdict {
            Some(verdict) => verdict,
            None => arbiter.write(&single(purchase)).await,
        });
    }
    judged
}

/// An order by itself.
fn single(purchase: &Purchase) -> Write<'_> {
    Write { purchase, fence: None, version_seen: None, bare: Bare::Take }
}

/// Writes what can be written together; what stays `None` is to be written singly.
async fn together(arbiter: &Arbiter, purchases: &[Purchase], verdicts: &mut [Option<Verdict>]) {
    let Ok(mut connection) = arbiter.pool.acquire().await else { return };
    let chosen = match choose(&mut connection, purchases, verdicts).await {
        Ok(chosen) if chosen.is_empty() => return,
        Ok(chosen) => chosen,
        Err(error) => {
            tracing::debug!(%error, "a batch was not looked at; its orders are written singly");
            return;
        }
    };
    let picked: Vec<&Purchase> = chosen.iter().map(|&index| &purchases[index]).collect();
    match commit(&mut connection, &picked).await {
        Ok(true) => {
            for &index in &chosen {
                verdicts[index] = Some(Verdict::Sold(purchases[index].order(WRITTEN_AS, None)));
            }
        }
        // Somebody else wrote in between.
        Ok(false) => {}
        Err(Broken::Before(error)) => tracing::debug!(%error, "a batch was rolled back"),
        // Each order settles for itself: writing it again finds it, or writes it.
        Err(Broken::AtCommit(error)) => {
            tracing::warn!(%error, orders = picked.len(), "a batch's COMMIT was not answered");
            arbiter.metrics.arbiter_commits_lost.inc();
            drop(connection);
            for &index in &chosen {
                verdicts[index] = match arbiter.settle(&purchases[index]).await {
                    Some(Some(order)) => Some(Verdict::Sold(order)),
                    Some(None) => None,
                    None => Some(Verdict::Unknown),
                };
            }
        }
    }
}

/// Finds the orders that should go through together, and answers those that are decided already.
async fn choose(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
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
    let mut seen = HashSet::new();
    let mut chosen = Vec::with_capacity(purchases.len());
    for (index, purchase) in purchases.iter().enumerate() {
        let units = purchase.quantity.signed();
        // The second of two with one key waits for the first, and then finds it.
        let first = seen.insert((purchase.buyer, purchase.key.as_str()));
        if verdicts[index].is_some() || !first {
            continue;
        }
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
    for (purchase, verdict) in purchases.iter().zip(verdicts) {
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

/// The transaction. `false` means that the stock did not suffice and it was rolled back.
async fn commit(connection: &mut MySqlConnection, purchases: &[&Purchase]) -> Result<bool, Broken> {
    let mut transaction = connection.begin().await?;
    match fill(&mut transaction, purchases).await {
        Ok(true) => match transaction.commit().await {
            Ok(()) => {
                failpoint!("batch-committed");
                Ok(true)
            }
            Err(error) if Fault::of(&error) == Fault::Transient => Err(Broken::Before(error)),
            Err(error) => Err(Broken::AtCommit(error)),
        },
        Ok(false) => {
            transaction.rollback().await?;
            Ok(false)
        }
        Err(error) => {
            // When even this fails the connection is dead, and the server rolls back by itself.
            let _ = transaction.rollback().await;
            Err(Broken::Before(error))
        }
    }
}

async fn fill(connection: &mut MySqlConnection, purchases: &[&Purchase]) -> sqlx::Result<bool> {
    for chunk in powers_of_two(purchases) {
        let writes: Vec<Write<'_>> = chunk.iter().map(|purchase| single(purchase)).collect();
        insert_orders(connection, &writes).await?;
    }
    failpoint!("batch-orders-inserted");
    if is_guarded(purchases[0]) {
        count_buyers(connection, purchases).await?;
    }
    failpoint!("batch-buyers-counted");
    for chunk in powers_of_two(purchases) {
        insert_movements(connection, chunk).await?;
    }
    failpoint!("batch-movements-inserted");
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
    failpoint!("batch-stock-taken");
    Ok(taken.rows_affected() == 1)
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
    let places = vec!["(?, ?, ?, ?, ?)"; chunk.len()].join(", ");
    let statement = format!(
        "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) VALUES {places}"
    );
    let mut query = sqlx::query(&statement);
    for purchase in chunk {
        query = query
            .bind(purchase.item.id.get())
            .bind(purchase.order_id.to_string())
            .bind(MovementReason::Sold.word())
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

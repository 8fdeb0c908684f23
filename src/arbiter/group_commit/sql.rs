//! The statements of a batch: its check, and its one transaction.

use std::collections::HashMap;

use sqlx::{Connection, MySqlConnection, Row};

use super::pipeline::PipelineSlot;
use crate::arbiter::fence::{Fence, Raised, raise_fence};
use crate::arbiter::transaction::insert_orders;
use crate::arbiter::{Answer, WRITTEN_AS, is_guarded, replay};
use crate::domain::order::MovementReason;
use crate::domain::{ItemId, Outcome, Purchase, Refusal, UserId};
use crate::store::mysql::link::roll_back;
use crate::store::mysql::outbox::Outbox;
use crate::store::mysql::{Fault, answered, orders};

/// Finds the orders that should go through together, and answers those that are decided already.
///
/// A refusal follows from committed rows alone. An order that would fit without the chosen ones
/// stays undecided: they may still fail, and then it is chosen next.
pub(super) async fn choose(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
    candidates: &[usize],
    answers: &mut [Option<Answer>],
) -> sqlx::Result<Vec<usize>> {
    let item = purchases[0].item.id.get();
    let guarded = is_guarded(&purchases[0]);
    answer_finished(connection, purchases, answers).await?;
    let bought = if guarded { bought_so_far(connection, purchases).await? } else { HashMap::new() };
    let row = sqlx::query("SELECT available FROM stock WHERE item_id = ?")
        .bind(item)
        .fetch_one(&mut *connection)
        .await?;
    let available: i64 = row.try_get("available")?;
    // What the chosen ones would take, of the stock and of each buyer's limit.
    let mut taken = 0;
    let mut taken_by: HashMap<UserId, i64> = HashMap::new();
    let mut chosen = Vec::with_capacity(candidates.len());
    for &index in candidates {
        if answers[index].is_some() {
            continue;
        }
        let purchase = &purchases[index];
        let units = purchase.quantity.signed();
        let limit = purchase.item.per_buyer_limit;
        let written = bought.get(&purchase.buyer).copied().unwrap_or_default();
        let taken_by = taken_by.entry(purchase.buyer).or_default();
        let over_limit = |counted: i64| guarded && counted + units > i64::from(limit);
        if over_limit(written) {
            answers[index] = Some(Ok(Outcome::Refused(Refusal::LimitReached { limit })));
        } else if units > available {
            answers[index] = Some(Ok(Outcome::Refused(Refusal::SoldOut)));
        } else if !over_limit(written + *taken_by) && taken + units <= available {
            *taken_by += units;
            taken += units;
            chosen.push(index);
        }
    }
    assert!(taken <= available.max(0), "the chosen orders take what is left, and no more");
    Ok(chosen)
}

/// Answers the keys that are orders already. Keys that were made here cannot be.
async fn answer_finished(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
    answers: &mut [Option<Answer>],
) -> sqlx::Result<()> {
    let asked: Vec<_> = purchases.iter().filter(|p| p.key.is_from_caller()).map(request).collect();
    let found = orders::find_by_keys(connection, &asked).await?;
    for (purchase, answer) in purchases.iter().zip(answers).filter(|(_, answer)| answer.is_none()) {
        let key = purchase.key.as_str().to_owned();
        let order = found.get(&(purchase.buyer, purchase.item.id, key));
        *answer = order.map(|order| Ok(replay(purchase, order.clone())));
    }
    Ok(())
}

fn request(purchase: &Purchase) -> (UserId, ItemId, &str) {
    (purchase.buyer, purchase.item.id, purchase.key.as_str())
}

/// Units that the batch's buyers have already.
async fn bought_so_far(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
) -> sqlx::Result<HashMap<UserId, i64>> {
    let mut bought = HashMap::new();
    let all: Vec<&Purchase> = purchases.iter().collect();
    for chunk in powers_of_two(&all) {
        let placeholders = vec!["?"; chunk.len()].join(", ");
        let statement = format!(
            "SELECT user_id, bought FROM buyer_limits WHERE item_id = ? AND user_id IN ({placeholders})"
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

/// The failure of a batch's transaction.
pub(super) enum Broken {
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

/// The result of the statements before COMMIT.
pub(super) enum Filled {
    /// All orders are written.
    Whole,
    /// The stock did not suffice for all.
    TooFew,
    /// A later holder of the item's lock has written.
    Fenced {
        /// The highest fence that was accepted.
        accepted: u64,
    },
}

/// The transaction. Anything but `Whole` was rolled back.
pub(super) async fn commit(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
    (fence, outbox): (Option<Fence>, Outbox),
    slot: &mut PipelineSlot,
) -> Result<Filled, Broken> {
    let mut transaction = answered(connection.begin()).await?;
    match fill(&mut transaction, purchases, (fence, outbox), slot).await {
        Ok(Filled::Whole) => match answered(transaction.commit()).await {
            Ok(()) => {
                failpoint!("batch-committed");
                Ok(Filled::Whole)
            }
            Err(error) if Fault::of(&error) == Fault::Transient => Err(Broken::Before(error)),
            Err(error) => Err(Broken::AtCommit(error)),
        },
        Ok(refused) => {
            answered(transaction.rollback()).await?;
            Ok(refused)
        }
        Err(error) => {
            roll_back(transaction, &error).await;
            Err(Broken::Before(error))
        }
    }
}

async fn fill(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
    (fence, outbox): (Option<Fence>, Outbox),
    slot: &mut PipelineSlot,
) -> sqlx::Result<Filled> {
    let guarded = is_guarded(purchases[0]);
    let sequence = match fence.filter(|_| guarded) {
        Some(fence) => match answered(raise_fence(connection, purchases[0], fence)).await? {
            Raised::Accepted { sequence } => Some(sequence),
            Raised::Late { accepted } => return Ok(Filled::Fenced { accepted }),
        },
        None => None,
    };
    for chunk in powers_of_two(purchases) {
        answered(insert_orders(connection, chunk, fence, sequence)).await?;
    }
    failpoint!("batch-orders-inserted");
    if guarded {
        answered(count_buyers(connection, purchases)).await?;
    }
    failpoint!("batch-buyers-counted");
    for chunk in powers_of_two(purchases) {
        answered(insert_movements(connection, chunk)).await?;
    }
    outbox.inserted(connection, purchases, WRITTEN_AS).await?;
    failpoint!("batch-movements-inserted");
    slot.enter_stock_stage().await;
    assert!(slot.is_in_stock_stage(), "a batch takes the stock after the batch before it");
    let units: i64 = purchases.iter().map(|purchase| purchase.quantity.signed()).sum();
    assert!(units > 0, "a batch takes at least one unit");
    let taken = sqlx::query(
        "UPDATE stock SET available = available - ?, version = version + 1 \
         WHERE item_id = ? AND available >= ?",
    )
    .bind(units)
    .bind(purchases[0].item.id.get())
    .bind(units)
    .execute(connection);
    let taken = answered(taken).await?;
    failpoint!("batch-stock-taken");
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
        let placeholders = vec!["(?, ?, ?, ?)"; chunk.len()].join(", ");
        let statement = format!(
            "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES {placeholders} \
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
    let sold = MovementReason::Sold.as_str();
    let placeholders = vec![format!("(?, ?, '{sold}', ?, ?)"); chunk.len()].join(", ");
    let statement = format!(
        "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) VALUES {placeholders}"
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

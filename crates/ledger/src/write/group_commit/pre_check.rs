//! The look at a batch's orders before they are written: which are decided already, and which go
//! through together. Also the reads after a failure: which items' rows others hold, and which
//! orders a lost COMMIT has written.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use sqlx::{MySqlConnection, QueryBuilder, Row};

use super::batch_orders::{lines_at, orders_of};
use super::sql::powers_of_two;
use crate::rows::order::orders;
use crate::sql::statement::in_list;
use crate::sql::{Database, answered, begin_on};
use crate::write::{Answer, is_guarded, replay_lines};
use shop_domain::{ItemId, LimitGroupId, Order, OrderId, Outcome, Purchase, Refusal, UserId};

/// Finds the orders that should go through together, and answers those that are decided already.
///
/// A refusal follows from committed rows alone. An order that would fit without the chosen ones
/// stays undecided: they may still fail, and then it is chosen next. So does an order of an item
/// that does not exist.
pub(super) async fn choose(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
    candidates: &[usize],
    answers: &mut [Option<Answer>],
) -> sqlx::Result<Vec<usize>> {
    answer_finished(connection, purchases, answers).await?;
    let bought = bought_so_far(connection, purchases).await?;
    let grouped = bought_in_groups(connection, purchases).await?;
    let asked_at = Some(Instant::now());
    let available = available(connection, &items_of(purchases)).await?;
    // What the chosen ones would take, of each stock and of each buyer's limit.
    let mut taken = TakenUnits::default();
    let mut chosen = Vec::with_capacity(candidates.len());
    let mut next = 0;
    for &first in candidates {
        if first < next {
            continue;
        }
        let lines = lines_at(purchases, first);
        next = lines.end;
        if answers[first].is_some() {
            continue;
        }
        // What the lines of this order would take.
        let mut own = TakenUnits::default();
        let mut verdict = Verdict::Fits;
        for purchase in &purchases[lines.clone()] {
            let Some(&available) = available.get(&purchase.item.id) else {
                verdict = Verdict::NotNow;
                break;
            };
            let item = purchase.item.id;
            let units = purchase.quantity.signed();
            let limit = purchase.item.per_buyer_limit;
            let counted = bought.get(&(item, purchase.buyer)).copied().unwrap_or_default();
            let written = counted.bought;
            let unpaid_max = purchase.item.unpaid_max;
            let is_unpaid =
                is_guarded(purchase) && unpaid_max > 0 && counted.expired >= i64::from(unpaid_max);
            let over_limit =
                |counted: i64| is_guarded(purchase) && counted + units > i64::from(limit);
            let group = purchase.counted_group().map(|group| ((group.id, purchase.buyer), group));
            let of = |counts: &HashMap<_, i64>| {
                group.and_then(|(key, _)| counts.get(&key).copied()).unwrap_or_default()
            };
            let over_group = |counted: i64| {
                let limit = group.map(|(_, group)| i64::from(group.per_buyer_limit));
                limit.is_some_and(|limit| counted + units > limit)
            };
            let written_in = of(&grouped) + of(&own.in_group);
            let refusal = if over_limit(written) {
                Some(Refusal::LimitReached { limit })
            } else if is_unpaid {
                Some(Refusal::UnpaidLimitReached { limit: unpaid_max })
            } else if over_group(written_in) {
                let limit = group.map_or(0, |(_, group)| group.per_buyer_limit);
                Some(Refusal::GroupLimitReached { limit })
            } else if units > available {
                Some(Refusal::SoldOut { asked_at })
            } else {
                None
            };
            if let Some(refusal) = refusal {
                let is_line = purchase.line_count.is_some();
                verdict = Verdict::Refused(if is_line { refusal.of_line(item) } else { refusal });
                break;
            }
            let chosen_by = taken.by_buyer.get(&(item, purchase.buyer)).copied();
            let chosen_of = taken.of_item.get(&item).copied().unwrap_or_default();
            if over_limit(written + chosen_by.unwrap_or_default())
                || over_group(written_in + of(&taken.in_group))
                || chosen_of + units > available
            {
                // The next line may be refused for good.
                verdict = Verdict::NotNow;
            }
            own.add(purchase);
        }
        match verdict {
            Verdict::Refused(refusal) => {
                answers[lines].fill(Some(Ok(Outcome::Refused(refusal))));
            }
            Verdict::Fits => {
                purchases[lines.clone()].iter().for_each(|purchase| taken.add(purchase));
                chosen.extend(lines);
            }
            Verdict::NotNow => {}
        }
    }
    let fits = |(item, units): (&ItemId, &i64)| available.get(item).is_some_and(|of| units <= of);
    assert!(
        taken.of_item.iter().all(fits),
        "the chosen orders take at most the units that are left"
    );
    Ok(chosen)
}

/// What committed rows and the orders before it say of an order.
enum Verdict {
    Fits,
    /// Does not fit now, but may when the chosen ones have failed.
    NotNow,
    Refused(Refusal),
}

/// The units of some orders.
#[derive(Default)]
struct TakenUnits {
    of_item: HashMap<ItemId, i64>,
    by_buyer: HashMap<(ItemId, UserId), i64>,
    in_group: HashMap<(LimitGroupId, UserId), i64>,
}

impl TakenUnits {
    fn add(&mut self, purchase: &Purchase) {
        let item = purchase.item.id;
        let buyer = purchase.buyer;
        let units = purchase.quantity.signed();
        *self.of_item.entry(item).or_default() += units;
        *self.by_buyer.entry((item, buyer)).or_default() += units;
        if let Some(group) = purchase.counted_group() {
            *self.in_group.entry((group.id, buyer)).or_default() += units;
        }
    }
}

/// The items of some purchases, in the order of their ids.
pub(super) fn items_of<'a>(purchases: impl IntoIterator<Item = &'a Purchase>) -> Vec<ItemId> {
    let items: BTreeSet<ItemId> = purchases.into_iter().map(|one| one.item.id).collect();
    items.into_iter().collect()
}

/// Answers the keys that are orders already. Keys that were made here cannot be.
async fn answer_finished(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
    answers: &mut [Option<Answer>],
) -> sqlx::Result<()> {
    let asked: Vec<_> = purchases.iter().filter(|p| p.key.is_from_caller()).map(request).collect();
    let found = orders::find_by_keys(connection, &asked).await?;
    if found.is_empty() {
        return Ok(());
    }
    for lines in orders_of(purchases) {
        if answers[lines.start].is_some() {
            continue;
        }
        let own = &purchases[lines.clone()];
        let key = |one: &Purchase| (one.buyer, one.item.id, one.key.as_str().to_owned());
        let orders: Vec<Order> =
            own.iter().filter_map(|one| found.get(&key(one)).cloned()).collect();
        if !orders.is_empty() {
            answers[lines].fill(Some(Ok(replay_lines(own, orders))));
        }
    }
    Ok(())
}

fn request(purchase: &Purchase) -> (UserId, ItemId, &str) {
    (purchase.buyer, purchase.item.id, purchase.key.as_str())
}

/// What the ledger has counted of a buyer and an item.
#[derive(Clone, Copy, Default)]
struct Counted {
    bought: i64,
    /// Holds that expired unpaid.
    expired: i64,
}

/// What is counted of the batch's buyers already, of items that count them.
async fn bought_so_far(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
) -> sqlx::Result<HashMap<(ItemId, UserId), Counted>> {
    let mut bought = HashMap::new();
    let guarded: Vec<&Purchase> = purchases.iter().filter(|one| is_guarded(one)).collect();
    for chunk in powers_of_two(&guarded) {
        let mut select = QueryBuilder::new(
            "SELECT item_id, user_id, bought, expired FROM buyer_limits WHERE (item_id, user_id) IN",
        );
        select.push_tuples(chunk, |mut row, purchase| {
            row.push_bind(purchase.item.id.get()).push_bind(purchase.buyer.get());
        });
        for row in select.build().fetch_all(&mut *connection).await? {
            let buyer = (row.try_get("item_id")?, row.try_get("user_id")?);
            let counted = Counted {
                bought: row.try_get::<i32, _>("bought")?.into(),
                expired: row.try_get::<i32, _>("expired")?.into(),
            };
            bought.insert(buyer, counted);
        }
    }
    Ok(bought)
}

/// Units that the batch's buyers have already, of all items of each group.
async fn bought_in_groups(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
) -> sqlx::Result<HashMap<(LimitGroupId, UserId), i64>> {
    let mut bought = HashMap::new();
    let key = |one: &Purchase| one.counted_group().map(|group| (group.id, one.buyer));
    let counted: Vec<_> = purchases.iter().filter_map(key).collect();
    for chunk in powers_of_two(&counted) {
        let mut select = QueryBuilder::new(
            "SELECT group_id, user_id, bought FROM group_limits WHERE (group_id, user_id) IN",
        );
        select.push_tuples(chunk, |mut row, (group, buyer)| {
            row.push_bind(group.get()).push_bind(buyer.get());
        });
        for row in select.build().fetch_all(&mut *connection).await? {
            let buyer = (row.try_get("group_id")?, row.try_get("user_id")?);
            bought.insert(buyer, i64::from(row.try_get::<i32, _>("bought")?));
        }
    }
    Ok(bought)
}

/// Units left of each item that exists.
async fn available(
    connection: &mut MySqlConnection,
    items: &[ItemId],
) -> sqlx::Result<HashMap<ItemId, i64>> {
    let rows = select_stock(connection, "item_id, available", items, "").await?;
    let read =
        |row: &sqlx::mysql::MySqlRow| Ok((row.try_get("item_id")?, row.try_get("available")?));
    rows.iter().map(read).collect()
}

/// Finds the items whose stock rows other transactions have locked. The connection has no transaction,
/// so the locks that it gets go at once. Engines that ignore SKIP LOCKED find none.
pub(super) async fn locked_by_others(
    connection: &mut MySqlConnection,
    items: &[ItemId],
) -> sqlx::Result<BTreeSet<ItemId>> {
    let rows = select_stock(connection, "item_id", items, "FOR UPDATE SKIP LOCKED").await?;
    let mut locked: BTreeSet<ItemId> = items.iter().copied().collect();
    for row in rows {
        locked.remove(&row.try_get("item_id")?);
    }
    Ok(locked)
}

async fn select_stock(
    connection: &mut MySqlConnection,
    columns: &str,
    items: &[ItemId],
    locking: &str,
) -> sqlx::Result<Vec<sqlx::mysql::MySqlRow>> {
    let Some((places, padded)) = in_list(items) else { return Ok(Vec::new()) };
    // A scan of a small table would lock rows of others.
    let statement = format!(
        "SELECT {columns} FROM stock FORCE INDEX (PRIMARY) WHERE item_id IN ({places}) {locking}"
    );
    let query = padded.fold(sqlx::query(&statement), |query, item| query.bind(item.get()));
    answered(query.fetch_all(connection)).await
}

/// Finds the orders of a batch whose COMMIT was not answered, waiting for a transaction that still
/// holds their rows: with one statement for all.
pub(super) async fn find_written(
    pool: &Database,
    purchases: &[&Purchase],
) -> sqlx::Result<HashMap<OrderId, Order>> {
    let Some((places, padded)) = in_list(purchases) else { return Ok(HashMap::new()) };
    let padded: Vec<&Purchase> = padded.collect();
    let question = |columns: &str, locking: &str| {
        format!(
            "SELECT {columns} FROM orders FORCE INDEX (PRIMARY) WHERE id IN ({places}) \
             AND item_id IN ({places}) {locking}"
        )
    };
    // The lock by a statement of its own: see `orders::lock`.
    let lock = question("id", "FOR UPDATE");
    let read = question(orders::COLUMNS, "");
    let bound = |statement| {
        let query = padded
            .iter()
            .fold(sqlx::query(statement), |query, one| query.bind(one.order_id.to_string()));
        // Where items are in shards, this says which ones to ask.
        padded.iter().fold(query, |query, one| query.bind(one.item.id.get()))
    };
    let look = async {
        let mut connection = pool.after_lost_commit().await?;
        let mut transaction = begin_on(&mut connection).await?;
        bound(&lock).fetch_all(&mut *transaction).await?;
        let rows = bound(&read).fetch_all(&mut *transaction).await?;
        // Nothing was written, and the locks were all that was wanted.
        let _ = transaction.rollback().await;
        Ok(rows)
    };
    let rows = answered(look).await?;
    let order = |row| orders::read(row).map(|order| (order.id, order));
    rows.iter().map(order).collect()
}

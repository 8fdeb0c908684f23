//! Reads the figures of the audit in one consistent snapshot.

mod draw;

use std::collections::{BTreeSet, HashMap};

use futures::TryStreamExt;
use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, MySqlConnection};
use time::OffsetDateTime;

use super::item::items::datetime;
use super::order::orders::WHOLE;
use super::tables::TABLES;
use mysql_connection::limits::{LONG_READ_MAX, ended_by_server};
use mysql_connection::statement::in_list;
use mysql_connection::{Database, begin_on, session, within};
use shop_domain::audit::{Facts, FaultCount};
use shop_domain::{ItemId, OrderId};

/// Recent sales that are read by one statement.
const SALES_TOGETHER_MAX: u32 = 1_000;

/// Reads the facts of one item; `None` when it does not exist. The Redis counter is not read here.
pub async fn facts(pool: &Database, id: ItemId) -> sqlx::Result<Option<Facts>> {
    // One snapshot for all figures, or a sale in progress would seem broken.
    let mut connection = session::for_snapshot(pool).await?;
    let mut transaction = begin_on(&mut connection).await?;
    let facts = read(&mut transaction, id).await?;
    transaction.rollback().await?;
    Ok(facts)
}

/// Lists the ids of all items, in order, also of those that have lost their row and left others.
pub async fn item_ids(pool: &Database) -> sqlx::Result<Vec<ItemId>> {
    let mut ids: BTreeSet<ItemId> = BTreeSet::new();
    for statement in [
        "SELECT id FROM items",
        "SELECT item_id FROM stock",
        "SELECT DISTINCT item_id FROM orders",
        "SELECT DISTINCT item_id FROM stock_movements",
    ] {
        let statement = ended_by_server(statement);
        let found = sqlx::query_scalar::<_, ItemId>(&statement).fetch_all(pool);
        ids.extend(within(LONG_READ_MAX, found).await?);
    }
    Ok(ids.into_iter().collect())
}

/// A sale that is audited while the service runs.
#[derive(Clone, Copy, Debug)]
pub struct RecentSale {
    pub id: ItemId,
    /// Whether it can be bought now and has units left.
    pub is_open_with_stock: bool,
}

from_row!(RecentSale { id, is_open_with_stock });

/// Lists the shop's sales that have begun and have not ended more than a day ago, by id.
pub async fn recent_sales(pool: &Database) -> sqlx::Result<Vec<RecentSale>> {
    let statement = ended_by_server(
        "SELECT id, COALESCE(available, 0) > 0 AND NOT paused AND ends_at > UTC_TIMESTAMP(6) \
         AS is_open_with_stock FROM items LEFT JOIN stock ON item_id = id \
         WHERE id > ? AND kind = 'shop' AND starts_at <= UTC_TIMESTAMP(6) \
         AND ends_at > UTC_TIMESTAMP(6) - INTERVAL 1 DAY ORDER BY id LIMIT ?",
    );
    let mut sales: Vec<RecentSale> = Vec::new();
    loop {
        let last = sales.last().map_or(0, |sale| sale.id.get());
        let page = sqlx::query_as(&statement).bind(last).bind(SALES_TOGETHER_MAX).fetch_all(pool);
        let page: Vec<RecentSale> = page.await?;
        if page.is_empty() {
            return Ok(sales);
        }
        sales.extend(page);
    }
}

async fn read(connection: &mut MySqlConnection, id: ItemId) -> sqlx::Result<Option<Facts>> {
    let statement = ended_by_server(STOCK);
    let row = sqlx::query_as(&statement).bind(id.get()).fetch_optional(&mut *connection).await?;
    let Some((total, available, offered, first, arbiter, limit, group)) = row else {
        return Ok(None);
    };
    let limit: u32 = limit;
    let first: Option<i64> = first;
    let group: Option<i64> = group;
    let groups: Vec<i64> = all_of(connection, GROUPS, id.get()).await?;
    let restocked = count(connection, RESTOCKED, &[id.get()]).await?;

    let statement = ended_by_server(UNITS_ORDERED);
    let (orders, units_sold, units_held) =
        sqlx::query_as(&statement).bind(id.get()).fetch_one(&mut *connection).await?;

    let limits = [id.get(), limit.into()];
    let open = count(connection, OFFERS_OPEN, &[id.get()]).await?;
    let mut counted: Vec<FaultCount> = vec![
        ("I2", "buyers over the limit", count(connection, BUYERS_OVER_LIMIT, &limits).await?),
        ("I6", "orders below a fence accepted before", fences_fallen(connection, id).await?),
        (
            "I13",
            "units offered or open offers without the other",
            open.saturating_sub(offered).abs(),
        ),
        ("I13", "places overtaken", places_overtaken(connection, id).await?),
        ("I20", "lines without the others", orders_halved(connection, id).await?),
        ("I22", "orders paid wrongly", orders_paid_wrongly(connection, id).await?),
    ];
    for (invariant, what, statement) in COUNTED {
        // It asks for nothing but the item.
        let ids = vec![id.get(); statement.matches('?').count()];
        counted.push((invariant, what, count(connection, statement, &ids).await?));
    }
    if group.is_some() || !groups.is_empty() {
        let (over_limit, miscounted) = group_faults(connection, &groups).await?;
        counted.push(("I14", "buyers over the limit", over_limit));
        counted.push(("I14", "miscounted", miscounted));
    }
    if let Some(wrong) = draw::places_wrong(connection, id).await? {
        counted.push(("I21", "places wrong", wrong));
    }
    Ok(Some(Facts {
        item_id: id,
        arbiter,
        total,
        total_written_down: first.map(|first| first + restocked),
        available,
        offered,
        units_sold,
        units_held,
        orders,
        movements_sum: count(connection, MOVEMENTS_SUM, &[id.get()]).await?,
        counted,
        redis_available: None,
        redis_queued: 0,
        redis_buckets: None,
        strategy_rows: strategy_rows(connection, id).await?,
    }))
}

/// The rows of the item in the tables that strategies have.
async fn strategy_rows(
    connection: &mut MySqlConnection,
    item: ItemId,
) -> sqlx::Result<Vec<(&'static str, i64)>> {
    let mut counted = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        counted.push((table.name(), table.count(connection, item).await?));
    }
    Ok(counted)
}

/// Runs a statement that returns one number.
async fn count(
    connection: &mut MySqlConnection,
    statement: &str,
    binds: &[i64],
) -> sqlx::Result<i64> {
    let statement = ended_by_server(statement);
    let mut query = sqlx::query_scalar(&statement);
    for bind in binds {
        query = query.bind(*bind);
    }
    query.fetch_one(connection).await
}

/// Counts the places with an offer that was made while a place in front of them, which is served later or never, was in
/// the line. Friends may be overtaken, because units that are too few for them go to others.
///
/// The rows are read once, from the back. MariaDB would read all rows behind a place again for the window function `MIN`.
async fn places_overtaken(connection: &mut MySqlConnection, id: ItemId) -> sqlx::Result<i64> {
    type Row = (Option<OffsetDateTime>, Option<OffsetDateTime>, bool);
    let statement = ended_by_server(
        "SELECT offered_at, COALESCE(offered_at, closed_at), party IS NOT NULL FROM waiting_list \
         WHERE item_id = ? ORDER BY place DESC",
    );
    let rows = sqlx::query_as::<_, Row>(&statement);
    let mut rows = rows.bind(id.get()).fetch(connection);
    let mut first_behind: Option<OffsetDateTime> = None;
    let mut overtaken = 0;
    while let Some((offered_at, until, is_friend)) = rows.try_next().await? {
        let is_in_line = |at: OffsetDateTime| until.is_none_or(|until| at < until);
        if !is_friend && first_behind.is_some_and(is_in_line) {
            overtaken += 1;
        }
        first_behind = [first_behind, offered_at].into_iter().flatten().min();
    }
    Ok(overtaken)
}

/// Counts the orders whose fence is below that of a write which was accepted before under the same counter. Those of one
/// write should have one fence; if not, the highest comes first. The rows are read once, as in [`places_overtaken`].
async fn fences_fallen(connection: &mut MySqlConnection, id: ItemId) -> sqlx::Result<i64> {
    let statement = ended_by_server(
        "SELECT fence_backend, fence FROM orders \
         WHERE item_id = ? AND fence_sequence > 0 AND fence IS NOT NULL \
         ORDER BY fence_backend, fence_sequence, fence DESC",
    );
    let rows = sqlx::query_as::<_, (Option<String>, u64)>(&statement);
    let mut rows = rows.bind(id.get()).fetch(connection);
    let mut before: Option<(Option<String>, u64)> = None;
    let mut fallen = 0;
    while let Some((backend, fence)) = rows.try_next().await? {
        match &mut before {
            Some((known, highest)) if *known == backend => {
                fallen += i64::from(fence < *highest);
                *highest = fence.max(*highest);
            }
            _ => before = Some((backend, fence)),
        }
    }
    Ok(fallen)
}

/// Compares the live orders of buyers in these groups with the limits and with their counts. Returns how many buyers have
/// too much, and how many are counted wrongly. Of very many buyers without a count, not all are found.
///
/// The orders are read item by item: where items are in shards, those of a group may lie apart from its counts.
async fn group_faults(
    connection: &mut MySqlConnection,
    groups: &[i64],
) -> sqlx::Result<(i64, i64)> {
    let mut over_limit = 0;
    let mut miscounted = 0;
    for group in groups.iter().copied() {
        let limit = all_of::<u32>(connection, GROUP_LIMIT, group).await?.pop();
        let items: Vec<i64> = all_of(connection, GROUP_ITEMS, group).await?;
        let mut behind = Some(i64::MIN);
        while let Some(after) = behind {
            let most = BUYERS_TOGETHER_MAX;
            let counts = of_buyers(connection, GROUP_COUNTS, most, &[group, after]).await?;
            // The last part has the buyers behind the last count, too: nothing is counted for them.
            let is_last = counts.len() < most;
            behind = counts.last().filter(|_| !is_last).map(|(buyer, _)| *buyer);
            let until = behind.unwrap_or(i64::MAX);
            let mut bought: HashMap<i64, i64> = HashMap::new();
            for item in &items {
                // One more than there are counts: of more buyers than counts, one is always seen to have none.
                let binds = [*item, group, after, until];
                for (buyer, units) in of_buyers(connection, GROUP_UNITS, most + 1, &binds).await? {
                    *bought.entry(buyer).or_default() += units;
                }
            }
            let is_over = |units: &&i64| limit.is_some_and(|limit| **units > i64::from(limit));
            over_limit += bought.values().filter(is_over).map(|_| 1).sum::<i64>();
            for (buyer, units) in counts {
                *bought.entry(buyer).or_default() -= units;
            }
            let is_wrong = |difference: &&i64| **difference != 0;
            miscounted += bought.values().filter(is_wrong).map(|_| 1).sum::<i64>();
        }
    }
    Ok((over_limit, miscounted))
}

/// Reads all values of a statement with one number in it.
async fn all_of<T>(
    connection: &mut MySqlConnection,
    statement: &str,
    number: i64,
) -> sqlx::Result<Vec<T>>
where
    (T,): for<'r> FromRow<'r, MySqlRow>,
    T: Send + Unpin,
{
    let statement = ended_by_server(statement);
    sqlx::query_scalar::<_, T>(&statement).bind(number).fetch_all(connection).await
}

/// Reads buyers, at most `limit`, and a number for each.
async fn of_buyers(
    connection: &mut MySqlConnection,
    statement: &str,
    limit: usize,
    binds: &[i64],
) -> sqlx::Result<Vec<(i64, i64)>> {
    let statement = ended_by_server(&format!("{statement} LIMIT {limit}"));
    let query = binds.iter().fold(sqlx::query_as(&statement), |query, bind| query.bind(*bind));
    query.fetch_all(connection).await
}

/// Counts the orders that several payments have paid, or that are not paid although one has. A payment names the first line
/// of its order, and pays all of them.
///
/// On shards the payments are in another database, which no join should ask for each order.
async fn orders_paid_wrongly(connection: &mut MySqlConnection, id: ItemId) -> sqlx::Result<i64> {
    if count(connection, HAS_PAYMENTS, &[]).await? == 0 {
        return Ok(0);
    }
    let mut wrong = 0;
    let mut page = orders_behind(connection, id, WHOLE, None).await?;
    while let Some(last) = page.last() {
        wrong += paid_wrongly(connection, &page).await?;
        page = orders_behind(connection, id, WHOLE, Some(last)).await?;
    }
    Ok(wrong)
}

/// An order, by its place in the index of its item's orders.
struct ByStatus {
    id: OrderId,
    status: String,
    expires_at: OffsetDateTime,
    line_count: Option<u8>,
}

from_row!(ByStatus { id, status, expires_at, line_count });

/// Reads at most [`ORDERS_TOGETHER_MAX`] orders of an item that are `which`, behind `last` if it is given, in the order
/// of their index.
async fn orders_behind(
    connection: &mut MySqlConnection,
    item: ItemId,
    which: &str,
    last: Option<&ByStatus>,
) -> sqlx::Result<Vec<ByStatus>> {
    let behind = match last {
        Some(_) => {
            "AND (status > ? OR (status = ? AND (expires_at > ? OR (expires_at = ? AND id > ?))))"
        }
        None => "",
    };
    let statement = ended_by_server(&format!(
        "SELECT {} FROM orders FORCE INDEX (orders_item_status) \
         WHERE item_id = ? AND {which} {behind} ORDER BY status, expires_at, id LIMIT ?",
        ByStatus::COLUMNS
    ));
    let mut select = sqlx::query_as(&statement).bind(item.get());
    if let Some(ByStatus { id, status, expires_at, .. }) = last {
        let at = datetime(*expires_at);
        select = select.bind(status).bind(status).bind(at).bind(at).bind(id.to_string());
    }
    select.bind(ORDERS_TOGETHER_MAX).fetch_all(connection).await
}

/// Counts the orders among these that several payments have paid, or that are not paid although one has.
async fn paid_wrongly(connection: &mut MySqlConnection, orders: &[ByStatus]) -> sqlx::Result<i64> {
    let ids: Vec<OrderId> = orders.iter().map(|order| order.id).collect();
    let Some((places, padded)) = in_list(&ids) else { return Ok(0) };
    let statement = ended_by_server(&format!("{PAYMENTS} AND order_id IN ({places})"));
    let query = sqlx::query_scalar(&statement);
    let query = padded.fold(query, |query, id| query.bind(id.to_string()));
    let mut payments: HashMap<OrderId, i64> = HashMap::new();
    for order in query.fetch_all(connection).await? {
        *payments.entry(order).or_default() += 1;
    }
    let is_wrong = |order: &&ByStatus| {
        payments.get(&order.id).is_some_and(|count| *count > 1 || order.status != "paid")
    };
    Ok(orders.iter().filter(is_wrong).map(|_| 1).sum::<i64>())
}

/// What the lines of an order have in common: status, buyer, number of lines, and 1 if the units were taken.
type LineFacts = (String, i64, Option<u8>, i64);

/// Counts the lines of orders that are not whole: a line of the order is missing, or has another status, another buyer or
/// another number of lines, or one of the two has its movement alone.
async fn orders_halved(connection: &mut MySqlConnection, id: ItemId) -> sqlx::Result<i64> {
    let mut halved = 0;
    let mut page = orders_behind(connection, id, IS_LINE, None).await?;
    while let Some(last) = page.last() {
        for lines in page.chunks(LINES_TOGETHER_MAX) {
            halved += halved_lines(connection, lines).await?;
        }
        page = orders_behind(connection, id, IS_LINE, Some(last)).await?;
    }
    Ok(halved)
}

/// Counts the lines among these of which the order is not whole.
async fn halved_lines(connection: &mut MySqlConnection, lines: &[ByStatus]) -> sqlx::Result<i64> {
    let wanted = |line: &ByStatus| {
        let id = line.id;
        (0..line.line_count.unwrap_or(1)).map(move |number| id.line(number))
    };
    let ids: Vec<OrderId> = lines.iter().flat_map(wanted).collect();
    let mut found: HashMap<OrderId, LineFacts> = HashMap::new();
    if let Some((places, padded)) = in_list(&ids) {
        let all = ended_by_server(&format!("{LINES} WHERE orders.id IN ({places})"));
        let query = padded.fold(sqlx::query_as(&all), |query, id| query.bind(id.to_string()));
        let rows: Vec<(OrderId, String, i64, Option<u8>, i64)> =
            query.fetch_all(connection).await?;
        let facts = |(id, status, buyer, count, taken)| (id, (status, buyer, count, taken));
        found = rows.into_iter().map(facts).collect();
    }
    let is_whole = |line: &&ByStatus| {
        let is_counted = line.id.line_number() < line.line_count.unwrap_or(1);
        let own = found.get(&line.id).filter(|_| is_counted);
        own.is_some_and(|own| wanted(line).all(|id| found.get(&id) == Some(own)))
    };
    Ok(lines.iter().filter(|line| !is_whole(line)).map(|_| 1).sum::<i64>())
}

const IS_LINE: &str = "line_count IS NOT NULL";

/// Lines whose other lines are read by one statement. An order has few.
const LINES_TOGETHER_MAX: usize = 64;

const LINES: &str = "SELECT orders.id, orders.status, orders.user_id, orders.line_count, \
     taken.order_id IS NOT NULL AS is_taken FROM orders LEFT JOIN stock_movements AS taken \
     ON taken.item_id = orders.item_id AND taken.order_id = orders.id AND taken.reason = 'sold'";

/// What else breaks an invariant: a statement counts it for an item.
const COUNTED: [(&str, &str, &str); 9] = [
    ("I2", "miscounted", BUYERS_MISCOUNTED),
    ("I4", "orders without their movements", ORDERS_UNMOVED),
    ("I4", "movements without an order", MOVEMENTS_ORPHANED),
    ("I5", "wrong", GIVE_BACKS_WRONG),
    ("I6", "above the accepted fence", FENCES_ABOVE),
    ("I6", "not compared", FENCES_NOT_COMPARED),
    ("I13", "offers or orders without the other", OFFERS_UNMATCHED),
    ("I13", "wait in vain", WAITING_IN_VAIN),
    ("I22", "orders at another price", ORDERS_MISPRICED),
];

const STOCK: &str = "SELECT total, available, offered, first_stock, arbiter, per_buyer_limit, limit_group_id \
     FROM stock JOIN items ON items.id = item_id WHERE item_id = ?";

const RESTOCKED: &str =
    "SELECT CAST(COALESCE(SUM(delta - waiting), 0) AS SIGNED) FROM restocks WHERE item_id = ?";

const UNITS_ORDERED: &str = "SELECT COUNT(*) AS orders, \
     CAST(COALESCE(SUM(IF(status = 'paid', quantity, 0)), 0) AS SIGNED) AS sold, \
     CAST(COALESCE(SUM(IF(status = 'pending', quantity, 0)), 0) AS SIGNED) AS held \
     FROM orders WHERE item_id = ?";

const BUYERS_OVER_LIMIT: &str = "SELECT COUNT(*) FROM (SELECT user_id FROM orders \
     WHERE item_id = ? AND status IN ('pending', 'paid') \
     GROUP BY user_id HAVING SUM(quantity) > ?) AS buyers";

/// Buyers whose count differs from their live orders, in either direction.
const BUYERS_MISCOUNTED: &str = "SELECT COUNT(*) FROM ( \
     SELECT user_id, SUM(units) AS difference FROM ( \
       SELECT user_id, CAST(quantity AS SIGNED) AS units FROM orders \
         WHERE item_id = ? AND status IN ('pending', 'paid') \
       UNION ALL \
       SELECT user_id, -bought FROM buyer_limits WHERE item_id = ?) AS both_sides \
     GROUP BY user_id HAVING difference <> 0) AS buyers";

const MOVEMENTS_SUM: &str =
    "SELECT CAST(COALESCE(SUM(delta), 0) AS SIGNED) FROM stock_movements WHERE item_id = ?";

/// Orders whose movements do not add up to what their state holds.
const ORDERS_UNMOVED: &str = "SELECT COUNT(*) FROM ( \
     SELECT orders.id, \
       IF(MAX(status) IN ('pending', 'paid'), -CAST(MAX(quantity) AS SIGNED), 0) AS expected, \
       COALESCE(SUM(delta), 0) AS moved, COUNT(delta) AS movements, MAX(status) AS state \
     FROM orders LEFT JOIN stock_movements AS moves \
       ON moves.item_id = orders.item_id AND moves.order_id = orders.id \
     WHERE orders.item_id = ? GROUP BY orders.id \
     HAVING moved <> expected OR (movements = 0 AND state NOT IN ('queued', 'rejected'))) AS unmoved";

const MOVEMENTS_ORPHANED: &str = "SELECT COUNT(*) FROM stock_movements AS moves \
     LEFT JOIN orders ON orders.id = moves.order_id AND orders.item_id = moves.item_id \
     WHERE moves.item_id = ? AND orders.id IS NULL";

/// Cancelled and expired orders without exactly one movement of their reason and quantity.
const GIVE_BACKS_WRONG: &str = "SELECT COUNT(*) FROM orders \
     LEFT JOIN stock_movements AS moves ON moves.item_id = orders.item_id \
       AND moves.order_id = orders.id AND moves.reason = orders.status \
     WHERE orders.item_id = ? AND status IN ('cancelled', 'expired') \
       AND (moves.delta IS NULL OR moves.delta <> quantity)";

/// Orders whose fence or sequence is above that of their counter.
const FENCES_ABOVE: &str = "SELECT COUNT(*) FROM orders \
     LEFT JOIN fences ON fences.item_id = orders.item_id AND fences.backend = orders.fence_backend \
     WHERE orders.item_id = ? AND fence_sequence > 0 \
       AND (orders.fence > COALESCE(fences.fence, 0) OR fence_sequence > COALESCE(accepted_writes, 0))";

/// Orders with a fence that were written without its comparison.
const FENCES_NOT_COMPARED: &str = "SELECT COUNT(*) FROM orders \
     WHERE item_id = ? AND fence IS NOT NULL AND fence_sequence IS NULL";

const OFFERS_OPEN: &str =
    "SELECT COUNT(*) FROM waiting_list WHERE item_id = ? AND status = 'offered'";

/// Accepted offers whose order is missing, of another buyer or shared; and orders that no offer became.
const OFFERS_UNMATCHED: &str = "SELECT \
     (SELECT COUNT(*) - COUNT(DISTINCT orders.id) FROM waiting_list AS places \
       LEFT JOIN orders ON orders.id = places.order_id AND orders.item_id = places.item_id \
         AND orders.user_id = places.user_id AND orders.strategy = 'waiting-list' \
       WHERE places.item_id = ? AND places.status = 'accepted') + \
     (SELECT COUNT(*) FROM orders WHERE item_id = ? AND strategy = 'waiting-list' \
       AND NOT EXISTS (SELECT 1 FROM waiting_list AS places FORCE INDEX (waiting_list_live) \
         WHERE places.item_id = ? AND places.user_id = orders.user_id AND places.order_id = orders.id \
         AND places.status = 'accepted'))";

const WAITING_IN_VAIN: &str = "SELECT COUNT(*) FROM waiting_list \
     JOIN stock ON stock.item_id = waiting_list.item_id \
     JOIN items ON items.id = waiting_list.item_id \
     WHERE waiting_list.item_id = ? AND status = 'waiting' AND available >= party_size AND NOT paused \
       AND offer_seconds > 0 AND ends_at > UTC_TIMESTAMP(6)";

/// The groups that the item is or was in.
const GROUPS: &str = "SELECT group_id FROM limit_group_items WHERE item_id = ?";

const GROUP_LIMIT: &str = "SELECT per_buyer_limit FROM limit_groups WHERE id = ?";

/// The items that are or were in a group.
const GROUP_ITEMS: &str = "SELECT item_id FROM limit_group_items WHERE group_id = ?";

/// Buyers of a group whose counts are read by one statement. Each such statement has one beside it for each item.
const BUYERS_TOGETHER_MAX: usize = 65_536;

/// The units of buyers in a group, as the limits count them.
const GROUP_COUNTS: &str = "SELECT user_id, CAST(bought AS SIGNED) FROM group_limits \
     WHERE group_id = ? AND user_id > ? ORDER BY user_id";

/// The live units of buyers, as the orders of one item have them.
const GROUP_UNITS: &str = "SELECT user_id, CAST(SUM(quantity) AS SIGNED) FROM orders \
     WHERE item_id = ? AND limit_group_id = ? AND status IN ('pending', 'paid') \
       AND user_id > ? AND user_id <= ? GROUP BY user_id";

/// Orders whose price is not that of their units: the price of an item never changes. As a decimal it does not
/// overflow, whatever the row says.
const ORDERS_MISPRICED: &str = "SELECT COUNT(*) FROM orders JOIN items ON items.id = orders.item_id \
     WHERE orders.item_id = ? AND amount_cents <> CAST(price_cents AS DECIMAL(20)) * quantity";

const HAS_PAYMENTS: &str = "SELECT COUNT(*) FROM \
     (SELECT 1 FROM payments WHERE status = 'accepted' LIMIT 1) AS accepted";

/// Orders that are read by one statement, and whose payments are.
const ORDERS_TOGETHER_MAX: u32 = 1_024;

/// The orders of payments that have paid. One of no money is not given back with its order. On shards the payments are read
/// after the orders, and a payment may have come meanwhile: so those of the last minute are left out.
const PAYMENTS: &str = "SELECT order_id FROM payments WHERE status = 'accepted' AND amount_cents > 0 \
     AND changed_at < UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE";

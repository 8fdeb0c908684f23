//! The statements that read ledgers: the rows of all items of a range, in one consistent snapshot.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use sqlx::FromRow;
use sqlx::mysql::{MySqlConnection, MySqlRow};

use crate::{
    Draw, Fence, Group, Ledger, Mispriced, Movement, Order, OrderLine, Place, Restock, Stock,
};

/// Reads the ledgers of the items from `first` to `last`; with `with_groups` also the limits that they
/// share with others.
pub(super) async fn snapshot(
    connection: &mut MySqlConnection,
    first: i64,
    last: i64,
    with_groups: bool,
) -> Result<HashMap<i64, Ledger>, sqlx::Error> {
    // A vtgate reads several shards in one transaction only then. Other servers do not know the name, and change nothing.
    match sqlx::raw_sql("SET transaction_mode = 'multi'").execute(&mut *connection).await {
        Ok(_) | Err(sqlx::Error::Database(_)) => {}
        Err(error) => return Err(error),
    }
    for statement in [
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ] {
        sqlx::raw_sql(statement).execute(&mut *connection).await?;
    }
    let ledgers = read(connection, &(first..=last), with_groups).await;
    sqlx::raw_sql("ROLLBACK").execute(connection).await?;
    ledgers
}

async fn read(
    connection: &mut MySqlConnection,
    range: &RangeInclusive<i64>,
    with_groups: bool,
) -> Result<HashMap<i64, Ledger>, sqlx::Error> {
    let mut ledgers: HashMap<i64, Ledger> = HashMap::new();
    let statement = "SELECT CAST(id AS SIGNED) FROM items WHERE id BETWEEN ? AND ?";
    let items: Vec<(i64,)> = rows(connection, range, statement).await?;
    for (item,) in &items {
        of(&mut ledgers, *item).item_exists = true;
    }
    let statement = "SELECT CAST(item_id AS SIGNED), CAST(total AS SIGNED), CAST(available AS SIGNED), \
         CAST(offered AS SIGNED) FROM stock WHERE item_id BETWEEN ? AND ?";
    for (item, total, available, offered) in rows(connection, range, statement).await? {
        let ledger = of(&mut ledgers, item);
        ledger.stock = Some(Stock { total, available });
        ledger.line.offered = offered;
    }
    let statement = "SELECT CAST(item_id AS SIGNED), CAST(place AS SIGNED), CAST(user_id AS SIGNED), \
         CAST(status AS CHAR), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', joined_at), \
         TIMESTAMPDIFF(MICROSECOND, '1970-01-01', offered_at), \
         TIMESTAMPDIFF(MICROSECOND, '1970-01-01', closed_at), CAST(order_id AS CHAR), CAST(party AS CHAR) \
         FROM waiting_list WHERE item_id BETWEEN ? AND ? ORDER BY place";
    for (item, number, buyer, status, joined_at, offered_at, closed_at, order_id, party) in
        rows(connection, range, statement).await?
    {
        let place =
            Place { number, buyer, status, joined_at, offered_at, closed_at, order_id, party };
        of(&mut ledgers, item).line.places.push(place);
    }
    let statement = "SELECT CAST(item_id AS SIGNED), \
         CAST(IF(line_count IS NULL, id, CONCAT(LEFT(id, 34), '00')) AS CHAR), CAST(user_id AS SIGNED), \
         CAST(quantity AS SIGNED), CAST(status AS CHAR), CAST(request_key AS CHAR), \
         CAST(fence AS UNSIGNED), CAST(fence_backend AS CHAR), CAST(fence_sequence AS UNSIGNED) \
         FROM orders WHERE item_id BETWEEN ? AND ? ORDER BY orders.id";
    for (item, id, buyer, quantity, status, key, number, backend, sequence) in
        rows(connection, range, statement).await?
    {
        let number: Option<u64> = number;
        let fence = number.map(|number| Fence { number, backend, sequence });
        of(&mut ledgers, item).orders.push(Order { id, buyer, quantity, status, key, fence });
    }
    // In this order of the tables, so that no server begins with the orders of all items because its statistics are old.
    let statement = "SELECT STRAIGHT_JOIN CAST(own.item_id AS SIGNED), CAST(CONCAT(LEFT(own.id, 34), '00') AS CHAR), \
         CAST(other.id AS CHAR), CAST(other.item_id AS SIGNED), CAST(other.user_id AS SIGNED), \
         CAST(other.status AS CHAR), CAST(other.line_count AS SIGNED), moves.order_id IS NOT NULL \
         FROM orders AS own JOIN orders AS other ON other.id BETWEEN CONCAT(LEFT(own.id, 34), '00') \
           AND CONCAT(LEFT(own.id, 34), 'ff') \
         LEFT JOIN stock_movements AS moves ON moves.item_id = other.item_id \
           AND moves.order_id = other.id AND moves.reason = 'sold' \
         WHERE own.item_id BETWEEN ? AND ? AND own.line_count IS NOT NULL ORDER BY other.id";
    for (own, order, id, item, buyer, status, count, is_sold) in
        rows(connection, range, statement).await?
    {
        let line = OrderLine { order, id, item, buyer, status, count, is_sold };
        of(&mut ledgers, own).lines.push(line);
    }
    // A movement without an order has the id that it names.
    let statement = "SELECT CAST(moves.item_id AS SIGNED), \
         CAST(IF(orders.line_count IS NULL, moves.order_id, CONCAT(LEFT(moves.order_id, 34), '00')) AS CHAR), \
         CAST(moves.reason AS CHAR), CAST(moves.delta AS SIGNED) \
         FROM stock_movements AS moves LEFT JOIN orders ON orders.id = moves.order_id \
           AND orders.item_id = moves.item_id \
         WHERE moves.item_id BETWEEN ? AND ? ORDER BY moves.item_id, moves.order_id, moves.reason";
    for (item, order, reason, units) in rows(connection, range, statement).await? {
        of(&mut ledgers, item).movements.push(Movement { order, reason, units });
    }
    let statement = "SELECT CAST(item_id AS SIGNED), CAST(id AS CHAR), CAST(delta AS SIGNED) \
         FROM restocks WHERE item_id BETWEEN ? AND ? ORDER BY restocks.id";
    for (item, id, units) in rows(connection, range, statement).await? {
        of(&mut ledgers, item).restocks.push(Restock { id, units });
    }
    // As a decimal the price does not overflow, whatever the row says.
    let statement = "SELECT CAST(orders.item_id AS SIGNED), CAST(orders.id AS CHAR), \
         CAST(amount_cents AS SIGNED), CAST(CAST(price_cents AS DECIMAL(20)) * quantity AS CHAR) \
         FROM orders JOIN items ON items.id = orders.item_id WHERE orders.item_id BETWEEN ? AND ? \
           AND amount_cents <> CAST(price_cents AS DECIMAL(20)) * quantity ORDER BY orders.id";
    for (item, id, amount, price) in rows(connection, range, statement).await? {
        of(&mut ledgers, item).mispriced.push(Mispriced { id, amount, price });
    }
    if with_groups {
        for (item,) in items {
            of(&mut ledgers, item).group = group(connection, item).await?;
            of(&mut ledgers, item).draw = draw(connection, item).await?;
        }
    }
    Ok(ledgers)
}

fn of(ledgers: &mut HashMap<i64, Ledger>, item: i64) -> &mut Ledger {
    ledgers.entry(item).or_default()
}

/// Reads the rows of a range of items. The range stands in each part of the statement, because a server may read a
/// whole table for a condition on a UNION.
async fn rows<T>(
    connection: &mut MySqlConnection,
    range: &RangeInclusive<i64>,
    statement: &str,
) -> Result<Vec<T>, sqlx::Error>
where
    T: for<'row> FromRow<'row, MySqlRow> + Send + Unpin,
{
    let ranges = statement.matches("BETWEEN ? AND ?");
    let query = ranges
        .fold(sqlx::query_as(statement), |query, _| query.bind(*range.start()).bind(*range.end()));
    query.fetch_all(connection).await
}

/// The limit that the item shares now, and the buyers who are above it.
async fn group(connection: &mut MySqlConnection, item: i64) -> Result<Option<Group>, sqlx::Error> {
    let found: Option<(i64, i64)> = sqlx::query_as(
        "SELECT CAST(limit_groups.id AS SIGNED), CAST(limit_groups.per_buyer_limit AS SIGNED) \
         FROM items JOIN limit_groups ON limit_groups.id = limit_group_id WHERE items.id = ?",
    )
    .bind(item)
    .fetch_optional(&mut *connection)
    .await?;
    let Some((id, limit)) = found else { return Ok(None) };
    let over = sqlx::query_as(
        "SELECT CAST(user_id AS SIGNED), CAST(SUM(quantity) AS SIGNED) AS units FROM orders \
         WHERE item_id IN (SELECT item_id FROM limit_group_items WHERE group_id = ?) \
           AND limit_group_id = ? AND status IN ('pending', 'paid') \
         GROUP BY user_id HAVING units > ? ORDER BY user_id",
    )
    .bind(id)
    .bind(id)
    .bind(limit)
    .fetch_all(connection)
    .await?;
    Ok(Some(Group { limit, over }))
}

/// The draw of an item, if it is over and has a proof: one of an earlier build has none.
async fn draw(connection: &mut MySqlConnection, item: i64) -> Result<Option<Draw>, sqlx::Error> {
    let statement = "SELECT CAST(CONCAT(rules, head, 'beacon ', beacon_signature, '\n') AS CHAR) \
         FROM draws WHERE item_id = ? AND drawn_at IS NOT NULL AND shop_key IS NOT NULL";
    let found: Option<Option<String>> =
        sqlx::query_scalar(statement).bind(item).fetch_optional(&mut *connection).await?;
    let Some(beginning) = found else { return Ok(None) };
    let mut draw = Draw { proof: beginning.unwrap_or_default(), ..Draw::default() };
    let statement = "SELECT CAST(user_id AS SIGNED), CAST(entry AS CHAR), CAST(party AS CHAR), \
         CAST(COALESCE(place, 0) AS UNSIGNED) FROM draw_entries WHERE item_id = ? ORDER BY entry";
    let entries: Vec<(i64, String, String, u64)> =
        sqlx::query_as(statement).bind(item).fetch_all(&mut *connection).await?;
    for (buyer, entry, party, place) in entries {
        draw.proof.push_str(&format!("{entry} {party} {place}\n"));
        draw.entries.push((place, buyer));
    }
    draw.entries.sort_unstable();
    let statement = "SELECT CAST(id AS CHAR), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', created_at) \
         FROM orders WHERE item_id = ?";
    let orders: Vec<(String, i64)> =
        sqlx::query_as(statement).bind(item).fetch_all(connection).await?;
    draw.ordered_at = orders.into_iter().collect();
    Ok(Some(draw))
}

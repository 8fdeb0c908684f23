//! Reads what is wrong with the places of a draw.

use futures::TryStreamExt;
use sqlx::MySqlConnection;
use time::OffsetDateTime;

use super::count;
use mysql_connection::limits::ended_by_server;
use shop_domain::ItemId;

/// Counts what is wrong with the places of a draw; `None` unless the item is drawn.
pub(super) async fn places_wrong(
    connection: &mut MySqlConnection,
    id: ItemId,
) -> sqlx::Result<Option<i64>> {
    if count(connection, IS_DRAWN, &[id.get()]).await? == 0 {
        return Ok(None);
    }
    let places = count(connection, DRAW_PLACES_WRONG, &[id.get()]).await?;
    let parties = count(connection, PARTIES_WRONG, &[id.get(); 2]).await?;
    let passed = places_passed(connection, id).await?;
    Ok(Some(places + parties + passed))
}

/// Counts the entries that were owed a unit when a buyer bought without an offer: they were never offered one, or the
/// offer was ended for them before, by a pause. Friends are owed as many units as they are, or none.
async fn places_passed(connection: &mut MySqlConnection, id: ItemId) -> sqlx::Result<i64> {
    type Time = Option<OffsetDateTime>;
    let statement = ended_by_server(LAST_BOUGHT);
    let last = sqlx::query_as(&statement).bind(id.get()).fetch_one(&mut *connection).await?;
    let (of_one, of_two, of_three, of_four): (Time, Time, Time, Time) = last;
    if of_one.is_none() {
        return Ok(0);
    }
    let statement = ended_by_server(PLACES_OWED);
    let rows = sqlx::query_as::<_, (i64, Time, Time)>(&statement);
    let mut rows = rows.bind(id.get()).bind(id.get()).fetch(connection);
    let mut passed = 0;
    while let Some((members, offered_at, closed_at)) = rows.try_next().await? {
        let bought = match members {
            1 => of_one,
            2 => of_two,
            3 => of_three,
            _ => of_four,
        };
        let is_owed = |at: OffsetDateTime| {
            offered_at.is_none() || closed_at.is_some_and(|closed| closed < at)
        };
        passed += i64::from(bought.is_some_and(is_owed));
    }
    Ok(passed)
}

const IS_DRAWN: &str = "SELECT COUNT(*) FROM draws WHERE item_id = ? AND drawn_at IS NOT NULL";

/// Entries whose place is not that of their buyers among all entries in the line. A buyer may have joined again later.
/// They are summed and not filtered, because a vtgate would carry a filter into the numbering.
const DRAW_PLACES_WRONG: &str = "SELECT \
     CAST(COALESCE(SUM(place IS NULL OR first_place IS NULL OR place <> standing), 0) AS SIGNED) FROM ( \
     SELECT drawn.place, first_place, ROW_NUMBER() OVER (ORDER BY first_place) AS standing FROM ( \
       SELECT draw_entries.user_id, draw_entries.place, MIN(waiting_list.place) AS first_place \
         FROM draw_entries LEFT JOIN waiting_list FORCE INDEX (waiting_list_live) \
           ON waiting_list.item_id = draw_entries.item_id AND waiting_list.user_id = draw_entries.user_id \
         WHERE draw_entries.item_id = ? GROUP BY draw_entries.user_id, draw_entries.place) AS drawn) AS line";

/// Parties of which a unit was offered to one member while another one was in the line and got none with it; and
/// parties of more entries than was announced.
const PARTIES_WRONG: &str = "SELECT \
     (SELECT COUNT(*) FROM (SELECT party FROM waiting_list WHERE item_id = ? AND party IS NOT NULL \
       GROUP BY party \
       HAVING MIN(offered_at) < MAX(COALESCE(offered_at, closed_at, '9999-12-31'))) AS split) + \
     (SELECT COUNT(*) FROM (SELECT party FROM draw_entries JOIN draws ON draws.item_id = draw_entries.item_id \
       WHERE draws.item_id = ? GROUP BY party HAVING COUNT(*) > MAX(party_max)) AS large)";

/// The time of the last order without an offer: of at least one unit, of two, of three, and of four.
const LAST_BOUGHT: &str = "SELECT MAX(created_at), MAX(IF(quantity > 1, created_at, NULL)), \
     MAX(IF(quantity > 2, created_at, NULL)), MAX(IF(quantity > 3, created_at, NULL)) FROM orders \
     WHERE item_id = ? AND strategy <> 'waiting-list' AND status NOT IN ('queued', 'rejected')";

/// Entries that were never offered a unit, or whose offer was ended, with the size of their party. The first place of a
/// buyer is that of the entry. The tables are read in this order and by this index, however old the statistics are:
/// otherwise a server may read all places again for each entry. The filter names both tables, because a vtgate would carry
/// a filter of one into the counting.
const PLACES_OWED: &str = "SELECT STRAIGHT_JOIN members, offered_at, closed_at FROM ( \
     SELECT item_id, user_id, status, offered_at, closed_at, \
         IF(party IS NULL, 1, COUNT(*) OVER (PARTITION BY party)) AS members, \
         ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY place) AS standing \
       FROM waiting_list WHERE item_id = ?) AS line \
     JOIN draw_entries FORCE INDEX (PRIMARY) \
       ON draw_entries.item_id = line.item_id AND draw_entries.user_id = line.user_id \
     WHERE draw_entries.item_id = ? AND IF(draw_entries.user_id = line.user_id AND standing = 1, \
       status = 'ended' OR (status = 'waiting' AND offered_at IS NULL), FALSE)";

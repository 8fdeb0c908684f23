//! The history of one item's units, read from the ledger: how long a returned unit lay idle while
//! a buyer waited, and whether more units were promised at a time than there are.

use mysql_connection::Database;

/// The history of an item.
#[derive(Debug)]
pub struct Timeline {
    /// Units that came back, and those that were offered.
    pub returned: usize,
    pub offered: usize,
    /// The longest time from the return of a unit to its offer, in seconds.
    pub idle_seconds_max: f64,
    /// The longest time from the end of an offer, or of a hold, to the return of its unit.
    pub late_seconds_max: f64,
    /// Places that were served before a buyer who had joined earlier, and by how many seconds that
    /// buyer had joined earlier at most.
    pub overtaken: usize,
    pub overtaken_seconds_max: f64,
}

/// A time in which nobody could offer anything, in microseconds since 1970.
pub type Outage = (i64, i64);

/// One place: joined, offered, closed, end of the offer.
type Row = (i64, Option<i64>, Option<i64>, Option<i64>, String);

/// Reads the history of an item that had no unit when the first buyer joined, and in whose line
/// a buyer waited until `until`. Outages do not count as idle.
pub async fn read(pool: &Database, item: i64, until: i64, outages: &[Outage]) -> Timeline {
    let micros = |column: &str| format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column})");
    let statement = format!(
        "SELECT {}, {}, {}, {}, CAST(status AS CHAR) FROM waiting_list WHERE item_id = ? ORDER BY place",
        micros("joined_at"),
        micros("offered_at"),
        micros("closed_at"),
        micros("offer_expires_at"),
    );
    let places: Vec<Row> =
        sqlx::query_as(&statement).bind(item).fetch_all(pool).await.expect("the places");
    let statement = format!(
        "SELECT {}, delta, {} FROM stock_movements AS moves JOIN orders ON orders.id = moves.order_id \
         WHERE moves.item_id = ? AND reason IN ('cancelled', 'expired') ORDER BY moves.created_at",
        micros("moves.created_at"),
        "IF(reason = 'expired', TIMESTAMPDIFF(MICROSECOND, '1970-01-01', orders.expires_at), NULL)",
    );
    let given_back: Vec<(i64, i64, Option<i64>)> =
        sqlx::query_as(&statement).bind(item).fetch_all(pool).await.expect("the movements");

    let (mut returns, mut lates) = (Vec::new(), Vec::new());
    for (at, units, ended) in given_back {
        returns.extend(std::iter::repeat_n(at, usize::try_from(units).expect("positive")));
        lates.extend(ended.map(|ended| (ended, at)));
    }
    // A restock has the time at which its request began. None here is so large that a long line gets it in parts.
    let statement = format!(
        "SELECT {}, delta FROM restocks WHERE item_id = ? ORDER BY created_at",
        micros("created_at")
    );
    let restocks: Vec<(i64, i64)> =
        sqlx::query_as(&statement).bind(item).fetch_all(pool).await.expect("the restocks");
    for (at, units) in restocks {
        returns.extend(std::iter::repeat_n(at, usize::try_from(units).expect("positive")));
    }
    for (_, offered, closed, expires, status) in &places {
        if let (Some(_), Some(closed)) = (offered, closed)
            && ["lapsed", "left"].contains(&status.as_str())
        {
            returns.push(*closed);
            lates.extend(expires.filter(|_| status == "lapsed").map(|expires| (expires, *closed)));
        }
    }
    let mut offers: Vec<i64> = places.iter().filter_map(|place| place.1).collect();
    returns.sort_unstable();
    offers.sort_unstable();
    let during = |from: i64, to: i64| {
        let overlap = |(start, end): &Outage| (to.min(*end) - from.max(*start)).max(0);
        to - from - outages.iter().map(overlap).sum::<i64>()
    };
    // The oldest returned unit is offered first: then the longest wait is the shortest possible.
    let idle = returns.iter().enumerate().filter(|(_, returned)| **returned <= until);
    let idle = idle.map(|(at, returned)| during(*returned, *offers.get(at).unwrap_or(&until)));
    let late = lates.iter().filter(|(_, at)| *at <= until).map(|(due, at)| during(*due, *at));
    let (overtaken, by) = overtaken(&places);
    let seconds = |micros: Option<i64>| {
        std::time::Duration::from_micros(micros.unwrap_or(0).max(0).unsigned_abs()).as_secs_f64()
    };
    Timeline {
        returned: returns.len(),
        offered: offers.len(),
        idle_seconds_max: seconds(idle.max()),
        late_seconds_max: seconds(late.max()),
        overtaken,
        overtaken_seconds_max: seconds(Some(by)),
    }
}

/// Places that were offered a unit while a buyer who had joined earlier still waited.
fn overtaken(places: &[Row]) -> (usize, i64) {
    let mut by_joining: Vec<&Row> = places.iter().collect();
    by_joining.sort_by_key(|place| place.0);
    let (mut count, mut by) = (0, 0);
    // The place that joined last among those still waiting at each offer would be enough; quadratic
    // is fine for some thousand.
    for (at, behind) in by_joining.iter().enumerate() {
        let Some(offered) = behind.1 else { continue };
        for ahead in &by_joining[..at] {
            let left_line = ahead.1.or(ahead.2).unwrap_or(i64::MAX);
            if left_line > offered {
                count += 1;
                by = by.max(behind.0 - ahead.0);
            }
        }
    }
    (count, by)
}

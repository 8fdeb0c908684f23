//! P15: what an order costs on a ledger with millions of older orders, beside one on an empty ledger.
//!
//! Each ledger has an instance of its own. The older orders are of other items and of the buyers
//! who will buy, in the order in which a sale writes them.

use std::time::Duration;

use sqlx::Connection;
use sqlx::mysql::MySqlConnection;
use tokio::time::{Instant, sleep};

use crate::statements::send;
use crate::subject::Subject;
use crate::tokens::FIRST_BUYER;
use ledger_audit::writer_of;
use loadtest::failure::{CannotJudge, OrCannotJudge};

/// Orders of an older item.
const ORDERS_OF_ITEM: u32 = 50_000;
/// Paid orders, in this many places of a hundred; the others are expired.
const PAID_PERCENT: u32 = 90;
/// A prime: buyers by the place of the order times this are scattered, and none has two orders of one item.
const SCATTER: u32 = 514_229;

/// Pages that may still be unwritten, and old versions of rows that may still be there, when a load begins.
const PENDING_MAX: u64 = 10_000;
/// How long the server may take for them.
const SETTLE_MAX: Duration = Duration::from_secs(180);
const SETTLE_POLL: Duration = Duration::from_millis(500);

/// Writes this number of older orders, of a share of `buyers`.
pub async fn fill(subject: &mut Subject, orders: u32, buyers: u32) -> Result<(), CannotJudge> {
    subject.stock_up(orders.div_ceil(ORDERS_OF_ITEM)).await?;
    eprintln!("writing {orders} older orders ({} build) ...", subject.build.word());
    let mut connection = writer_of(&subject.database_url).await?;
    let mut left = orders;
    for (number, item) in subject.items.iter().enumerate() {
        let count = left.min(ORDERS_OF_ITEM);
        send(&mut connection, &statements(*item, number, count, buyers)).await?;
        left -= count;
    }
    settle(&mut connection).await?;
    connection.close().await.or_cannot_judge("the database of older orders")
}

/// Waits until the server has written its pages and removed old versions of rows, because this work belongs to
/// the older orders and not to the load that comes next.
async fn settle(connection: &mut MySqlConnection) -> Result<(), CannotJudge> {
    let begin = Instant::now();
    while begin.elapsed() < SETTLE_MAX {
        let pending: Vec<(String, String)> = sqlx::query_as(
            "SHOW GLOBAL STATUS WHERE Variable_name IN \
             ('Innodb_buffer_pool_pages_dirty', 'Innodb_history_list_length')",
        )
        .fetch_all(&mut *connection)
        .await
        .or_cannot_judge("the state of the server")?;
        let count = |value: &str| value.parse().unwrap_or(0_u64);
        if pending.iter().all(|(_, value)| count(value) <= PENDING_MAX) {
            return Ok(());
        }
        sleep(SETTLE_POLL).await;
    }
    eprintln!("the server is still writing after {} s", SETTLE_MAX.as_secs());
    Ok(())
}

/// The statements that write the orders of an item, with their limits, movements and stock. Item number 0 was
/// sold first.
fn statements(item: i64, number: usize, count: u32, buyers: u32) -> String {
    let thousands = count.div_ceil(1_000);
    // An id is a UUIDv7: 48 bits of time in milliseconds, then 74 random bits. Buckets are those of the service.
    format!(
        "BEGIN;\
         INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
           request_key, created_at, expires_at, paid_at, buyer_bucket) \
         WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 999) \
         SELECT CONCAT(LEFT(millis, 8), '-', RIGHT(millis, 4), '-7', LEFT(digits, 3), '-a', \
             SUBSTRING(digits, 4, 3), '-', SUBSTRING(digits, 7, 12)), \
           {item}, {FIRST_BUYER} + (place * {SCATTER} + {item} * {SCATTER} DIV 7) % {buyers}, 1, 100, \
           IF(RAND() * 100 < {PAID_PERCENT}, 'paid', 'expired'), 'mysql-batch', \
           UUID(), made_at, made_at + INTERVAL 15 MINUTE, made_at, 1 + {item} DIV 16 MOD 512 \
         FROM (SELECT place, SHA2(RAND(), 256) AS digits, \
             LPAD(LOWER(HEX(1700000000000 + {number} * 3600000 + place)), 12, '0') AS millis, \
             TIMESTAMP('2023-11-14') + INTERVAL {number} HOUR + INTERVAL place SECOND AS made_at \
           FROM (SELECT thousands.n * 1000 + ones.n AS place FROM n AS thousands JOIN n AS ones \
             WHERE thousands.n < {thousands}) AS places WHERE place < {count}) AS drawn \
         ORDER BY place;\
         INSERT INTO buyer_limits (item_id, user_id, bought, allowed) \
           SELECT item_id, user_id, SUM(IF(status = 'paid', quantity, 0)), COUNT(*) FROM orders \
           WHERE item_id = {item} GROUP BY item_id, user_id;\
         INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) \
           SELECT item_id, id, 'sold', -quantity, created_at FROM orders WHERE item_id = {item} \
           UNION ALL SELECT item_id, id, 'expired', quantity, expires_at FROM orders \
           WHERE item_id = {item} AND status = 'expired';\
         UPDATE stock SET available = available - (SELECT COUNT(*) FROM orders \
           WHERE item_id = {item} AND status = 'paid') WHERE item_id = {item};\
         COMMIT"
    )
}

//! Payment, cancellation, expiry and late payment of whole orders.

use super::*;

pub(super) async fn statuses(shop: &Shop, order: &str) -> Vec<String> {
    let read = "SELECT status FROM orders WHERE id LIKE CONCAT(LEFT(?, 34), '%') ORDER BY id";
    shop.read_all(sqlx::query_scalar(read).bind(order)).await
}

/// Waits until the order has expired, which has this number of lines.
pub(super) async fn until_expired(shop: &Shop, order: &str, lines: usize) {
    until(BOUND, || statuses(shop, order), |found| *found == vec!["expired"; lines]).await;
}

#[tokio::test]
async fn all_lines_are_paid_and_cancelled_together() {
    let (shop, instance, items) = selling(3, |config| config.events.enabled = true).await;
    let cart = [(items[0], 1), (items[1], 2), (items[2], 1)];
    let buyer = instance.buyer(1);
    let first = order_id(&reserve(&buyer, &cart).await);
    let paid = buyer.step(&first, "payment").await;
    assert_eq!((paid.status, paid.json["status"].as_str()), (200, Some("paid")), "{}", paid.text);
    assert_eq!(paid.json["lines"].as_array().map(Vec::len), Some(3));
    assert_eq!(statuses(&shop, &first).await, ["paid"; 3]);
    assert_eq!(buyer.step(&first, "payment").await.json, paid.json);
    buyer.step(&first, "cancellation").await.expect_problem(409, "order_state_conflict");
    let second = order_id(&reserve(&buyer, &cart).await);
    assert_eq!(buyer.step(&second, "cancellation").await.json["status"], "cancelled");
    assert_eq!(statuses(&shop, &second).await, ["cancelled"; 3]);
    assert_eq!(left(&instance, &items).await, [9, 8, 9]);
    // Nobody else changes it, and a line alone is no order.
    let line = format!("{}01", &second[..34]);
    assert_problem(&buyer.step(&line, "payment").await, (404, "order_not_found"), "a line");
    instance.buyer(2).step(&first, "payment").await.expect_problem(404, "order_not_found");
    // An event has the whole order.
    let payloads = "SELECT payload FROM outbox UNION ALL SELECT payload FROM event_log";
    let payloads: Vec<String> = shop.read_all(sqlx::query_scalar(payloads)).await;
    let of_order = |order: &str, status: &str| {
        let changes = payloads.iter().flat_map(|payload| {
            let payload: Value = serde_json::from_str(payload).expect("JSON");
            payload["orders"].as_array().cloned().unwrap_or_default()
        });
        let mut changes = changes.filter(|one| one["id"] == order && one["status"] == status);
        let only = changes.next().unwrap_or_else(|| panic!("no event: {payloads:?}"));
        assert!(changes.next().is_none(), "one event: {payloads:?}");
        assert_eq!(only["lines"], paid.json["lines"]);
        assert_eq!(only["amount_cents"], paid.json["amount_cents"]);
    };
    for (order, status) in
        [(&first, "pending"), (&first, "paid"), (&second, "pending"), (&second, "cancelled")]
    {
        of_order(order, status);
    }
    assert_all_clean(&instance, &items).await;
}

/// How often a transaction of a shop was seen that waits for a lock.
#[derive(Default)]
pub(super) struct LockWaits {
    pub(super) seen: i64,
    /// How often it had changed a row before.
    pub(super) after_changes: i64,
}

/// Does something, and counts the lock waits meanwhile.
pub(super) async fn beside_lock_waits<T>(
    shop: &Shop,
    act: impl Future<Output = T>,
) -> (T, LockWaits) {
    let look = "SELECT COUNT(*), CAST(COALESCE(SUM(waiting.trx_rows_modified > 0), 0) AS SIGNED) \
         FROM information_schema.INNODB_TRX AS waiting \
         JOIN information_schema.PROCESSLIST AS sessions ON sessions.ID = waiting.trx_mysql_thread_id \
         WHERE sessions.DB = DATABASE() AND waiting.trx_state = 'LOCK WAIT'";
    let is_done = AtomicBool::new(false);
    let act = async {
        let done = act.await;
        is_done.store(true, Ordering::Relaxed);
        done
    };
    let watch = async {
        let mut waits = LockWaits::default();
        while !is_done.load(Ordering::Relaxed) {
            let (seen, after_changes): (i64, i64) =
                sqlx::query_as(look).fetch_one(&shop.pool).await.expect("the lock waits");
            waits.seen += seen;
            waits.after_changes += after_changes;
            // The server shows the same rows to whoever reads them more often than each 100 ms.
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        waits
    };
    tokio::join!(act, watch)
}

/// A cart is cancelled while another transaction has the order of another buyer: the lines are locked by their keys,
/// also where the table is so short that a scan would cost less. A step that waited may end
/// well at a later try, so the waits are counted.
#[tokio::test]
async fn a_step_waits_for_no_other_order() {
    let (shop, instance, items) = selling(5, |_| {}).await;
    let other = order_id(&reserve(&instance.buyer(2), &[(items[0], 1)]).await);
    let buyer = instance.buyer(1);
    let first = order_id(&reserve(&buyer, &one_of_each(&items)).await);
    let mut holder = patient_transaction(&shop.pool).await;
    let lock = sqlx::query("SELECT status FROM orders WHERE id = ? FOR UPDATE").bind(&other);
    lock.fetch_one(&mut *holder).await.expect("locked");
    let (cancelled, waits) = beside_lock_waits(&shop, buyer.step(&first, "cancellation")).await;
    holder.rollback().await.expect("it was locked until now");
    assert_eq!(cancelled.json["status"], "cancelled", "{}", cancelled.text);
    assert_eq!(waits.seen, 0, "the step waits for the other order");
}

#[tokio::test]
async fn a_whole_order_expires_and_is_paid_late_or_not_at_all() {
    let (shop, instance, items) = selling(3, |_| {}).await;
    let cart = [(items[0], 2), (items[1], 2), (items[2], 1)];
    let buyer = instance.buyer(1);
    let order = order_id(&reserve(&buyer, &cart).await);
    shop.let_holds_pass(301).await;
    until_expired(&shop, &order, 3).await;
    assert_eq!(left(&instance, &items).await, [10, 10, 10]);
    let late = buyer.step(&order, "payment").await;
    assert_eq!((late.status, late.json["status"].as_str()), (200, Some("paid")), "{}", late.text);
    assert_eq!(left(&instance, &items).await, [8, 8, 9]);
    let order = order_id(&reserve(&buyer, &cart).await);
    shop.let_holds_pass(301).await;
    until_expired(&shop, &order, 3).await;
    // Others buy what is left of one item.
    for other in 2..10 {
        assert_eq!(instance.buyer(other).buy("mysql-atomic", items[1]).await.status, 201);
    }
    buyer.step(&order, "payment").await.expect_problem(409, "sold_out");
    assert_eq!(statuses(&shop, &order).await, ["expired"; 3]);
    assert_eq!(left(&instance, &items).await, [8, 0, 9]);
    let late = "SELECT COUNT(*) FROM stock_movements WHERE reason = 'late_payment'";
    assert_eq!(shop.number(late).await, 3);
    assert_all_clean(&instance, &items).await;
}

/// The instance that ends a reservation remembers of none of its items any more that it is sold out.
#[tokio::test]
async fn all_items_of_an_expired_order_are_sold_again() {
    // Nobody looks again by itself for as long as this test runs.
    let (shop, instance) = Shop::open_with(|config| config.purchase.sold_out_ms = 3_600_000).await;
    let items = instance.make_items(2, &json!({ "stock": 1 })).await;
    order_id(&reserve(&instance.buyer(1), &[(items[0], 1), (items[1], 1)]).await);
    for item in &items {
        instance.buyer(2).buy("mysql-atomic", *item).await.expect_problem(409, "sold_out");
    }
    shop.let_holds_pass(301).await;
    for item in &items {
        instance.buyer(3).until_sold("mysql-atomic", *item).await;
    }
    assert_all_clean(&instance, &items).await;
}

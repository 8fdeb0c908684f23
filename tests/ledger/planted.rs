//! Faults in rows: the audit of the load test reads each with its own SQL, and the audit of the service with another.
//!
//! What the order of time shows (I16 to I19) is in the tests of `ledger-audit`, places of a draw (I21) in `ledger::draw::pause`.

use ledger_audit::{Answer, Evidence, Outcome, Reader, judge};

use crate::support::prelude::*;

/// Units on sale, and buyers who get one each. The next buyer is refused.
const STOCK: i64 = 3;

/// Statements that make a fault, and the invariants that the audit of the load test and that of the service have to find
/// broken; they may find more of them.
type Planted = (&'static [&'static str], &'static str, &'static str);

/// Of each statement, `:item` is the item. The last fault needs a table without its key.
const ALL: &[Planted] = &[
    (&["UPDATE stock SET available = available + 1 WHERE item_id = :item"], "I1 I3", "I1 I3"),
    // A restock that was done twice.
    (
        &["UPDATE stock SET total = total + 1, available = available + 1 WHERE item_id = :item"],
        "I1",
        "I1",
    ),
    (&["UPDATE orders SET quantity = 2 WHERE item_id = :item LIMIT 1"], "I2 I8 I14", "I1 I2 I14"),
    (&["DELETE FROM stock_movements WHERE item_id = :item LIMIT 1"], "I3 I4", "I3 I4"),
    (&["UPDATE stock_movements SET order_id = UUID() WHERE item_id = :item LIMIT 1"], "I4", "I4"),
    (&["UPDATE orders SET status = 'cancelled' WHERE item_id = :item LIMIT 1"], "I5", "I5"),
    // The order after it is later than all, and hides nothing.
    (&["UPDATE orders SET fence = 1 WHERE item_id = :item AND user_id = 2"], "I6", "I6"),
    (&["UPDATE fences SET fence = 1 WHERE item_id = :item"], "", "I6"),
    // As a statement writes that knows no sequence of fences.
    (
        &["UPDATE orders SET fence_sequence = DEFAULT(fence_sequence) WHERE item_id = :item"],
        "I6",
        "I6",
    ),
    (&["DELETE FROM orders WHERE item_id = :item LIMIT 1"], "I4 I8", "I1 I4"),
    (&["UPDATE orders SET user_id = 99 WHERE item_id = :item LIMIT 1"], "I8 I9", "I2"),
    (
        &["INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
             request_key, created_at, expires_at) SELECT UUID(), item_id, 4, 1, 250, 'pending', \
             'lock-redis', 'k-4', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR \
             FROM stock WHERE item_id = :item"],
        "I11",
        "I4",
    ),
    (
        &[
            "DELETE stock_movements FROM stock_movements JOIN orders ON orders.id = order_id \
             WHERE orders.item_id = :item AND orders.user_id = 3",
            "DELETE FROM orders WHERE item_id = :item AND user_id = 3",
            "UPDATE stock SET available = available + 1 WHERE item_id = :item",
        ],
        "I8 I12",
        "I2",
    ),
    (&["UPDATE stock SET offered = 1 WHERE item_id = :item"], "I13", "I13"),
    (&["UPDATE orders SET line_count = 2 WHERE item_id = :item LIMIT 1"], "I20", "I20"),
    // Behind more lines than one statement reads.
    (
        &[
            "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
             request_key, created_at, expires_at, line_count) WITH RECURSIVE copies (n) AS \
             (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < 900) \
             SELECT CONCAT(LEFT(id, 24), LPAD(LOWER(HEX(n)), 10, '0'), '00'), item_id, user_id, \
             quantity, amount_cents, status, strategy, CONCAT(n, '-', request_key), created_at, \
             expires_at, 1 FROM orders JOIN copies WHERE item_id = :item",
            "UPDATE orders SET line_count = 2 WHERE item_id = :item AND line_count = 1 \
             ORDER BY status DESC, expires_at DESC, id DESC LIMIT 1",
        ],
        "",
        "I20",
    ),
    // Behind more buyers of a group than one statement reads.
    (
        &[
            "INSERT INTO group_limits (group_id, user_id, bought, allowed) WITH RECURSIVE \
             numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 299) \
             SELECT group_id, 1000 + 300 * high.n + low.n, 0, 1 FROM limit_group_items \
             JOIN numbers AS low JOIN numbers AS high WHERE item_id = :item",
            "UPDATE group_limits JOIN limit_group_items \
             ON limit_group_items.group_id = group_limits.group_id SET bought = 1 \
             WHERE item_id = :item AND user_id = 90999",
        ],
        "",
        "I14",
    ),
    (&["UPDATE orders SET amount_cents = 1 WHERE item_id = :item LIMIT 1"], "I22", "I22"),
    // The load test reads no payments: what it loads has no provider of them.
    (
        &[
            "UPDATE orders SET status = 'paid', paid_at = created_at WHERE item_id = :item",
            "INSERT INTO payments \
             (id, order_id, amount_cents, status, next_try_at, created_at, changed_at) \
             SELECT CONCAT(n, id), id, 250, 'accepted', created_at, created_at, \
             created_at - INTERVAL 1 HOUR FROM orders JOIN (SELECT 1 AS n UNION SELECT 2) AS twice \
             WHERE item_id = :item AND user_id = 1",
        ],
        "",
        "I22",
    ),
    (
        &["INSERT INTO payments \
             (id, order_id, amount_cents, status, next_try_at, created_at, changed_at) \
             SELECT id, id, 250, 'accepted', created_at, created_at, created_at - INTERVAL 1 HOUR \
             FROM orders WHERE item_id = :item AND user_id = 1"],
        "",
        "I22",
    ),
    // Behind more orders than one statement reads, many of which end at the same time.
    (
        &[
            "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
             request_key, created_at, expires_at) WITH RECURSIVE copies (n) AS \
             (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < 900) SELECT UUID(), item_id, \
             user_id, quantity, amount_cents, status, strategy, CONCAT(n, '-', request_key), \
             created_at, expires_at FROM orders JOIN copies WHERE item_id = :item",
            "INSERT INTO payments \
             (id, order_id, amount_cents, status, next_try_at, created_at, changed_at) \
             SELECT id, id, 250, 'accepted', created_at, created_at, created_at - INTERVAL 1 HOUR \
             FROM orders WHERE item_id = :item \
             ORDER BY status DESC, expires_at DESC, id DESC LIMIT 1",
        ],
        "",
        "I22",
    ),
    (
        &[
            "ALTER TABLE orders DROP INDEX orders_item_request",
            "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
             request_key, created_at, expires_at) SELECT UUID(), item_id, user_id, quantity, \
             amount_cents, status, strategy, request_key, created_at, expires_at \
             FROM orders WHERE item_id = :item LIMIT 1",
        ],
        "I10",
        "I4",
    ),
];

/// An item and the answers of its buyers.
struct Sale {
    item: i64,
    answers: Vec<Answer>,
}

/// Sells an item of a group of its own; one buyer comes too late.
async fn sold_out(instance: &Instance) -> Sale {
    let group = instance.make_group(1).await;
    let item = json!({ "stock": STOCK, "per_buyer_limit": 1, "limit_group_id": group });
    let item = instance.make_item(item).await;
    let mut answers = Vec::new();
    for buyer in 1..=STOCK + 1 {
        let key = format!("k-{buyer}");
        let answer = instance.buyer(buyer).buy_with_key("lock-redis", item, &key).await;
        let is_sold = buyer <= STOCK;
        assert_eq!(answer.status, if is_sold { 201 } else { 409 }, "{}", answer.text);
        answers.push(Answer {
            request: u32::try_from(buyer).expect("small"),
            last: true,
            buyer,
            key: Some(key),
            status: answer.status,
            code: if is_sold { "sold" } else { answer.code() }.to_owned(),
            outcome: if is_sold { Outcome::Accepted } else { Outcome::Refused },
            order_id: answer.json["id"].as_str().map(str::to_owned),
            order_quantity: answer.json["quantity"].as_i64(),
            ..Answer::default()
        });
    }
    Sale { item, answers }
}

/// What the load test's audit finds broken.
async fn by_load_test(reader: &mut Reader, sale: &Sale) -> Vec<&'static str> {
    let after = reader.ledger(sale.item).await.expect("read");
    judge(&Evidence::of(STOCK, &after, &sale.answers)).expect("judged").broken()
}

#[tokio::test]
async fn both_audits_read_each_fault() {
    let (shop, instance) = Shop::open().await;
    let mut reader = Reader::connect(shop.config.database_url.reveal()).await.expect("connected");
    for &(statements, load_test, service) in ALL {
        let sale = sold_out(&instance).await;
        assert_eq!(by_load_test(&mut reader, &sale).await, [""; 0]);
        assert_eq!(instance.broken(sale.item).await, [""; 0]);
        for statement in statements {
            let statement = statement.replace(":item", &sale.item.to_string());
            let done = shop.change(sqlx::query(&statement)).await;
            assert!(done > 0 || statement.starts_with("ALTER"), "{statement}");
        }
        let broken = by_load_test(&mut reader, &sale).await;
        for invariant in load_test.split_whitespace() {
            assert!(broken.contains(&invariant), "{statements:?}: {broken:?}");
        }
        let broken = instance.broken(sale.item).await;
        for invariant in service.split_whitespace() {
            assert!(broken.iter().any(|one| one == invariant), "{statements:?}: {broken:?}");
        }
    }
}

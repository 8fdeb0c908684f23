//! Orders of ended sales leave the ledger for a file, and their sums stay: all kinds of orders, kills of the archiver,
//! and sums that were changed by hand.

mod drawn;
mod lines;
mod service;

use std::io::Read;
use std::path::{Path, PathBuf};

use ledger_audit::{Answer, Evidence, Outcome, Reader};
use reqwest::Method;
use seckill::config::Secret;
use seckill::failpoint::ARCHIVE_POINTS;
use serde_json::{Value, json};

use crate::http::{assert_problem, order_id};
use crate::process::program::{program, told};
use crate::support::payment_provider::TestProvider;
use crate::support::{Client, Instance, Shop, assert_clean, eventually, unique, when};

/// How long ago the sales of these tests end.
const ENDED: &str = "UPDATE items SET starts_at = UTC_TIMESTAMP(6) - INTERVAL 50 DAY, \
     ends_at = UTC_TIMESTAMP(6) - INTERVAL 40 DAY WHERE id = ?";

/// Orders of a sale may be given back for a year.
const RETURNABLE: &str = "UPDATE items SET return_seconds = 31536000 WHERE id = ?";

/// A folder for files, which goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(unique("archive")))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `seckill archive` for an item; a crash point may end it.
async fn archive(shop: &Shop, dir: &Path, item: i64, point: Option<&str>) -> (i32, String) {
    let mut command = program(shop, &["archive", "--item", &item.to_string()]);
    command
        .env("SECKILL_RETENTION_AFTER_DAYS", "30")
        .env("SECKILL_RETENTION_DIR", dir)
        .env("SECKILL_RETENTION_CHUNK_ORDERS_MAX", "2")
        .env("SECKILL_RETENTION_PAUSE_MS", "0")
        .envs(point.map(|point| ("FAILPOINT", point)));
    told(&command.output().await.expect("the program runs"))
}

async fn set(shop: &Shop, statement: &str, item: i64) {
    sqlx::query(statement).bind(item).execute(&shop.pool).await.expect("changed");
}

async fn count(shop: &Shop, table: &str, item: i64) -> i64 {
    let statement = format!("SELECT COUNT(*) FROM {table} WHERE item_id = ?");
    sqlx::query_scalar(&statement).bind(item).fetch_one(&shop.pool).await.expect("counted")
}

/// Asserts that both audits find the item clean: the service's own, and the one that shares no code with it, by the
/// ledger alone.
async fn assert_both_clean(shop: &Shop, instance: &Instance, item: i64, stock: i64) {
    assert_clean(instance, item).await;
    assert_eq!(outside(shop, item, stock).await, Vec::<&str>::new());
}

/// What the outside audit finds broken of I1 to I6, I13 and I14.
async fn outside(shop: &Shop, item: i64, stock: i64) -> Vec<&'static str> {
    let urls = shop.config.ledgers().expect("numbered");
    let url = urls.last().expect("a ledger").database_url.reveal();
    let mut reader = Reader::connect(url).await.expect("a reader");
    let after = reader.ledger(item).await.expect("the ledger");
    let refused = Answer {
        buyer: 999,
        status: 409,
        code: "sale_ended".to_owned(),
        outcome: Outcome::Refused,
        last: true,
        ..Answer::default()
    };
    let evidence = Evidence {
        stock,
        per_buyer_limit: 1,
        quantity: 1,
        arbiter_on: true,
        keyed: false,
        before: &ledger_audit::Ledger::default(),
        after: &after,
        answers: &[refused],
        in_time: None,
    };
    let mut broken = ledger_audit::judge(&evidence).expect("judged").broken();
    // Nobody has recorded these purchases.
    broken.retain(|invariant| !["I8", "I9", "I10", "I11", "I12"].contains(invariant));
    broken
}

async fn step(instance: &Instance, buyer: i64, order: &str, word: &str) {
    let path = format!("/api/orders/{order}/{word}");
    let answer = instance.buyer(buyer).post(&path, &json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

async fn until_status(instance: &Instance, buyer: i64, order: &str, expected: &str) {
    eventually("an order's status", || async {
        let seen = instance.buyer(buyer).get(&format!("/api/orders/{order}")).await;
        when(seen.json["status"] == expected, seen.text)
    })
    .await;
}

/// The lines of the only file in a folder.
fn lines(dir: &Path) -> Vec<Value> {
    let files: Vec<_> =
        std::fs::read_dir(dir).expect("a folder").map(|it| it.expect("it").path()).collect();
    assert_eq!(files.len(), 1, "one file: {files:?}");
    lines_of(&files[0])
}

fn lines_of(file: &Path) -> Vec<Value> {
    let mut text = String::new();
    let file = std::fs::File::open(file).expect("a file");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A sale with every kind of order; answers its orders: of buyer 1 first.
async fn sell(shop: &Shop, instance: &Instance, provider: &TestProvider) -> (i64, Vec<String>) {
    let item = instance.make_item(json!({ "stock": 8, "hold_seconds": 900, "kind": "shop" })).await;
    let mut orders = Vec::new();
    for buyer in 1..=8 {
        let bought = instance.buyer(buyer).buy_with_key("mysql-atomic", item, "k").await;
        orders.push(order_id(&bought));
    }
    let pay = async |message: &str, payment: &str, order: &str| {
        let said = provider.succeeded(message, payment, order, 250).send(instance).await;
        assert_eq!(said.status, 200, "{}", said.text);
    };
    // Paid, and paid with the money back.
    pay("m1", "p1", &orders[0]).await;
    pay("m2", "p2", &orders[1]).await;
    let back = provider.refunded("m3", "p2", &orders[1], 250).send(instance).await;
    assert_eq!(back.json["result"], "refunded", "{}", back.text);
    // Cancelled, and its unit bought by a buyer who waited; another one waits in vain.
    for buyer in [11, 12] {
        let place = format!("/api/items/{item}/waiting");
        assert_eq!(instance.buyer(buyer).post(&place, &json!({})).await.status, 200);
    }
    step(instance, 3, &orders[2], "cancellation").await;
    let accept =
        instance.buyer(11).request(Method::POST, &format!("/api/items/{item}/waiting/purchase"));
    let waited = Client::send(accept.header("idempotency-key", "k")).await;
    let waited = order_id(&waited);
    pay("m4", "p4", &waited).await;
    orders.push(waited);
    let leave = instance.buyer(12).request(Method::DELETE, &format!("/api/items/{item}/waiting"));
    assert_eq!(Client::send(leave).await.status, 204);
    // Expired, and paid too late but in time for a unit.
    shop.let_holds_pass(1_800).await;
    for (buyer, order) in (4..=8).zip(&orders[3..8]) {
        until_status(instance, buyer, order, "expired").await;
    }
    pay("m5", "p5", &orders[7]).await;
    (item, orders)
}

async fn shop_of(provider: &TestProvider, ledgers: usize) -> Shop {
    Shop::with_shards(ledgers, |config| {
        config.events.enabled = true;
        config.events.poll_ms = 20;
        config.payment.provider = "webhook".to_owned();
        config.payment.checkout_url = "https://pay.example/{order}".to_owned();
        config.payment.secret = Secret::new(provider.secret());
        config.payment.refund_url = provider.refund_url();
        config.job.expire_period_ms = 20;
        config.waiting_list.sweep_ms = 20;
    })
    .await
}

#[tokio::test]
async fn orders_of_every_kind_leave_and_both_audits_hold_at_every_step() {
    let (provider, folder) = (TestProvider::start().await, Folder::new());
    let shop = shop_of(&provider, 1).await;
    let instance = shop.start().await;
    let (item, orders) = sell(&shop, &instance, &provider).await;
    assert_both_clean(&shop, &instance, item, 8).await;
    let before = assert_clean(&instance, item).await;
    let (code, text) = archive(&shop, &folder.0, item, None).await;
    assert_eq!((code, text.contains("has not ended")), (1, true), "{text}");
    set(&shop, ENDED, item).await;
    // What is open keeps it: an order, and money that has to go back.
    let open = "UPDATE orders SET status = 'pending' WHERE item_id = ? AND user_id = 4";
    set(&shop, open, item).await;
    let (_, text) = archive(&shop, &folder.0, item, None).await;
    assert!(text.contains("not clean") || text.contains("an order of it is open"), "{text}");
    let closed = "UPDATE orders SET status = 'expired' WHERE item_id = ? AND user_id = 4";
    set(&shop, closed, item).await;
    let owed = "UPDATE payments SET status = 'refund_requested' WHERE order_id IN \
         (SELECT id FROM orders WHERE item_id = ? AND user_id = 2)";
    set(&shop, owed, item).await;
    let (code, text) = archive(&shop, &folder.0, item, None).await;
    assert_eq!((code, text.contains("has to go back")), (1, true), "{text}");
    set(&shop, &owed.replace("refund_requested", "refunded"), item).await;
    set(&shop, RETURNABLE, item).await;
    let (code, text) = archive(&shop, &folder.0, item, None).await;
    assert_eq!((code, text.contains("may give orders of it back")), (1, true), "{text}");
    set(&shop, "UPDATE items SET return_seconds = 0 WHERE id = ?", item).await;

    eventually("the events to be delivered", || async {
        let rows: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM outbox").fetch_one(&shop.pool).await.ok()?;
        (rows == 0).then_some(())
    })
    .await;
    // Killed at each of its steps, twice in the middle of the chunks; the next one goes on.
    let all = i64::try_from(orders.len()).expect("a few");
    let last = ["archive-chunk-half:3", "archive-chunk-removed:2"];
    for point in ARCHIVE_POINTS.iter().chain(&last) {
        let (code, text) = archive(&shop, &folder.0, item, Some(point)).await;
        assert_eq!(code, -1, "{point} did not kill it: {text}");
        assert_both_clean(&shop, &instance, item, 8).await;
        println!("{point}: {} orders are left of {all}", count(&shop, "orders", item).await);
        if *point == "archive-begun" {
            // The file is not written yet: a payment that comes now must not change an order.
            let late = provider.succeeded("m6", "p6", &orders[3], 250).send(&instance).await;
            let told = (&late.json["result"], &late.json["reason"]);
            assert_eq!(told, (&json!("refund_wanted"), &json!("sold_out")), "{}", late.text);
            // Nor is a paid one given back any more.
            set(&shop, RETURNABLE, item).await;
            let path = format!("/api/orders/{}/return", orders[0]);
            let back = instance.buyer(1).post(&path, &json!({})).await;
            assert_problem(&back, (409, "order_not_returnable"), "an item that is being archived");
        }
    }
    assert!(count(&shop, "orders", item).await > 0, "killed between two chunks");
    let (code, text) = archive(&shop, &folder.0, item, None).await;
    assert_eq!(code, 0, "{text}");
    for table in ["orders", "stock_movements", "buyer_limits", "waiting_list"] {
        assert_eq!(count(&shop, table, item).await, 0, "{table}");
    }
    assert_both_clean(&shop, &instance, item, 8).await;
    let after = assert_clean(&instance, item).await;
    for field in ["total", "available", "offered", "sold", "held", "orders"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_in_file(&folder.0, &orders);
    afterwards(&instance, &provider, item, &orders).await;
    tampered(&shop, &instance, item).await;
    // Again: nothing is left to do.
    assert_eq!(archive(&shop, &folder.0, item, None).await.0, 0);
}

/// The file has each row that has left.
fn assert_in_file(dir: &Path, orders: &[String]) {
    let lines = lines(dir);
    let of = |table: &'static str| {
        lines.iter().filter(move |line| line["table"] == table).map(|line| &line["row"])
    };
    let mut written: Vec<&str> =
        of("orders").map(|row| row["id"].as_str().expect("an id")).collect();
    let mut sold: Vec<&str> = orders.iter().map(String::as_str).collect();
    written.sort_unstable();
    sold.sort_unstable();
    assert_eq!(written, sold);
    // 9 sold, 1 cancelled, 5 expired, 1 paid late.
    assert_eq!(of("stock_movements").count(), 16);
    assert_eq!(of("waiting_list").count(), 2);
}

/// How an archived sale looks to buyers, operators and the provider.
async fn afterwards(instance: &Instance, provider: &TestProvider, item: i64, orders: &[String]) {
    let buyer = instance.buyer(1);
    assert_eq!(buyer.get("/api/orders").await.json["orders"], json!([]));
    let gone = buyer.get(&format!("/api/orders/{}", orders[0])).await;
    assert_problem(&gone, (404, "order_not_found"), "an archived order");
    let again = buyer.buy_with_key("mysql-atomic", item, "k").await;
    assert_problem(&again, (409, "sale_ended"), "the same key");
    for edit in [json!({ "ends_at": "2036-01-01T00:00:00Z" }), json!({ "stock_delta": 1 })] {
        let edited = instance.admin().patch(&format!("/api/admin/items/{item}"), &edit).await;
        assert_problem(&edited, (409, "item_archived"), "an edit");
    }
    // The provider says it once more, in a message of its own: the money has paid an order.
    let known = provider.succeeded("m9", "p1", &orders[0], 250).send(instance).await;
    assert_eq!(known.json["result"], "unchanged", "{}", known.text);
    let path = format!("/api/admin/export?format=jsonl&table=sales&item={item}");
    let sale = instance.admin().get(&path).await.text;
    let sale: Value = serde_json::from_str(sale.lines().next().expect("a line")).expect("JSON");
    assert_eq!(
        (&sale["orders"], &sale["sold"], &sale["adds_up"]),
        (&json!(9), &json!(4), &json!(true))
    );
    assert_eq!(sale["paid_cents"], 1_000);
}

/// A change of any sum by hand turns an audit red.
async fn tampered(shop: &Shop, instance: &Instance, item: i64) {
    let cases = [
        ("archived_orders SET quantity = quantity", "AND status = 'paid'", "I1"),
        ("archived_orders SET quantity = quantity", "AND status = 'expired'", "I4"),
        ("archived_orders SET orders = orders", "AND status = 'cancelled'", "I4"),
        ("archived_orders SET amount_cents = amount_cents", "AND status = 'paid'", "I4"),
        ("archived_movements SET delta = delta", "AND reason = 'sold'", "I3"),
        ("archived_movements SET movements = movements", "AND reason = 'sold'", "I4"),
    ];
    for (column, which, invariant) in cases {
        for change in ["+", "-"] {
            set(shop, &format!("UPDATE {column} {change} 1 WHERE item_id = ? {which}"), item).await;
            let audit = instance.audit(item).await;
            let findings = audit["findings"].as_array().expect("findings");
            let finding = findings.iter().find(|it| it["invariant"] == invariant).expect("it");
            assert_eq!(finding["holds"], change == "-", "{column} {change} {which}: {audit}");
            if column.contains("quantity") || column.contains("delta") {
                let is_broken = outside(shop, item, 8).await.contains(&invariant);
                assert_eq!(is_broken, change == "+", "outside: {column} {change} {which}");
            }
        }
    }
    assert_clean(instance, item).await;
}

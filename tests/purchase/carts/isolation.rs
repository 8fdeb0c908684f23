//! What readers see while carts are written beside them, judged by `adya`, a checker of isolation after Jepsen's Elle.
//!
//! A history has one list for each item: a cart appends its number to the list of each of its items, and a reader sees
//! all lists in one transaction. Rows have no order, so the orders of an item stand in the list as the reads show it:
//! of two reads one has everything that the other has. `SECKILL_TEST_ROUNDS=100` makes the history longer.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use adya::{History, Opts, Report, Valid, Workload};
use futures::future::{join, join_all};
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use sqlx::{Connection, Executor, MySqlConnection};

use super::{assert_all_clean, reserve};
use crate::http::order_id;
use crate::support::{Instance, Shop, patient, rounds};

/// Items, of which each cart wants three.
const ITEMS: usize = 6;
/// Carts of a round, and those that are sent at once.
const CARTS: i64 = 120;
const AT_ONCE: usize = 12;
/// Readers beside them.
const READERS: usize = 3;

/// What one transaction has read.
#[derive(Default)]
struct Seen {
    /// The changes of each item: orders that were sold or cancelled. A change is an order's id and the reason.
    changes: BTreeMap<i64, BTreeSet<String>>,
    /// Items whose stock is not what their changes leave of it.
    unequal: Vec<i64>,
}

/// What happened, in the order in which it was known.
#[derive(Default)]
struct Log {
    /// The changes of carts, by their items.
    written: RefCell<Vec<(String, Vec<i64>)>>,
    seen: RefCell<Vec<Seen>>,
}

/// Carts are sold and cancelled on two instances; no reader sees half of a change, in the ledger or in an export.
#[tokio::test]
async fn no_half_cart_is_seen() {
    let (shop, instance) = Shop::open_with(patient).await;
    let beside = shop.start().await;
    for _ in 0..rounds(1) {
        let items = items(&instance).await;
        let log = Log::default();
        let is_over = Cell::new(false);
        let write = async {
            write_carts([&instance, &beside], &items, &log).await;
            is_over.set(true);
        };
        let readers = (0..READERS).map(|_| read_until(&shop, &items, &log, &is_over));
        let exports = export_until(&instance, &items, &is_over);
        join(write, join(join_all(readers), exports)).await;
        let report = judge(&log, "serializable");
        assert_eq!(report.valid, Valid::True, "{:?}", report.anomalies);
        let reads = log.seen.borrow().len();
        assert!(reads > READERS, "the readers read beside the carts");
        println!("{} changes, {reads} reads", log.written.borrow().len());
        assert_all_clean(&instance, &items).await;
    }
}

/// A cart whose lines are committed one after the other is found by the same reads.
#[tokio::test]
async fn half_a_cart_is_found() {
    let (shop, instance) = Shop::open().await;
    let items = items(&instance).await;
    let log = Log::default();
    let cart = order_id(&reserve(&instance.buyer(1), &[(items[0], 1), (items[1], 1)]).await);
    let change = "UPDATE stock_movements SET item_id = ? WHERE order_id = ? AND item_id = ?";
    // The second line is not committed yet: it stands elsewhere while the reader looks.
    let line = format!("{}01", &cart[..34]);
    let hidden = items[ITEMS - 1] + 1;
    let hidden_rows =
        shop.change(sqlx::query(change).bind(hidden).bind(&line).bind(items[1])).await;
    assert_eq!(hidden_rows, 1, "the second line of {cart}");
    let seen = read(&mut connect(&shop).await, &items).await;
    log.seen.borrow_mut().push(seen);
    shop.change(sqlx::query(change).bind(items[1]).bind(&line).bind(hidden)).await;
    let seen = read(&mut connect(&shop).await, &items).await;
    log.seen.borrow_mut().push(seen);
    log.written.borrow_mut().push((format!("{cart} sold"), items[..2].to_vec()));
    let report = judge(&log, "serializable");
    assert_eq!(report.valid, Valid::False);
    assert!(report.anomaly_types.iter().any(|kind| kind == "G-single-item"), "{report:?}");
}

/// A reader whose statements see what was committed last, as the sessions of purchases do, is found by the same
/// checker: so lists, exports and audits read a snapshot.
#[tokio::test]
async fn a_reader_without_a_snapshot_is_found() {
    let (shop, instance) = Shop::open().await;
    let items = items(&instance).await;
    let log = Log::default();
    let mut connection = connect(&shop).await;
    let begin = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION";
    connection.execute(sqlx::raw_sql(begin)).await.expect("a transaction");
    let mut seen = Seen::default();
    read_item(&mut connection, items[0], &mut seen).await;
    let cart = order_id(&reserve(&instance.buyer(1), &[(items[0], 1), (items[1], 1)]).await);
    read_item(&mut connection, items[1], &mut seen).await;
    log.written.borrow_mut().push((format!("{cart} sold"), items[..2].to_vec()));
    log.seen.borrow_mut().push(seen);
    let seen = read(&mut connect(&shop).await, &items).await;
    log.seen.borrow_mut().push(seen);
    let report = judge(&log, "serializable");
    assert_eq!(report.valid, Valid::False);
    assert!(report.anomaly_types.iter().any(|kind| kind == "G-single-item"), "{report:?}");
}

async fn items(instance: &Instance) -> Vec<i64> {
    let mut items = Vec::new();
    for _ in 0..ITEMS {
        let item = json!({ "stock": CARTS, "per_buyer_limit": 4 });
        items.push(instance.make_item(item).await);
    }
    items
}

/// Carts of three items, some of which are cancelled at once.
async fn write_carts(instances: [&Instance; 2], items: &[i64], log: &Log) {
    let carts = (0..CARTS).map(|number| async move {
        let first = usize::try_from(number).expect("small");
        let instance = instances[first % 2];
        let wanted: Vec<i64> = [0, 1, 3].map(|step| items[(first + step) % ITEMS]).to_vec();
        let buyer = instance.buyer(number + 1);
        let lines: Vec<(i64, u32)> = wanted.iter().map(|item| (*item, 1)).collect();
        let answer = reserve(&buyer, &lines).await;
        let order = order_id(&answer);
        log.written.borrow_mut().push((format!("{order} sold"), wanted.clone()));
        if number % 4 == 0 {
            buyer.step(&order, "cancellation").await.expect_status(200);
            log.written.borrow_mut().push((format!("{order} cancelled"), wanted));
        }
    });
    stream::iter(carts).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

async fn read_until(shop: &Shop, items: &[i64], log: &Log, is_over: &Cell<bool>) {
    let mut connection = connect(shop).await;
    loop {
        let is_last = is_over.get();
        let seen = read(&mut connection, items).await;
        assert!(seen.unequal.is_empty(), "stock and movements are not of one moment");
        log.seen.borrow_mut().push(seen);
        if is_last {
            return;
        }
    }
}

async fn connect(shop: &Shop) -> MySqlConnection {
    let options = sqlx::MySqlPool::connect_options(&shop.pool);
    MySqlConnection::connect_with(&options).await.expect("a session")
}

/// Reads each item by statements of its own, in one transaction as the audit and the export do.
async fn read(connection: &mut MySqlConnection, items: &[i64]) -> Seen {
    let begin = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
                 START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
    connection.execute(sqlx::raw_sql(begin)).await.expect("a transaction");
    let mut seen = Seen::default();
    for item in items {
        read_item(connection, *item, &mut seen).await;
    }
    connection.execute(sqlx::raw_sql("COMMIT")).await.expect("it ends");
    seen
}

async fn read_item(connection: &mut MySqlConnection, item: i64, seen: &mut Seen) {
    let stock = "SELECT total, available FROM stock WHERE item_id = ?";
    let (total, available): (i64, i64) =
        sqlx::query_as(stock).bind(item).fetch_one(&mut *connection).await.expect("the stock");
    let moved = "SELECT CONCAT(LEFT(order_id, 34), '00 ', reason), delta FROM stock_movements \
                 WHERE item_id = ?";
    let moved: Vec<(String, i64)> =
        sqlx::query_as(moved).bind(item).fetch_all(&mut *connection).await.expect("movements");
    let units: i64 = moved.iter().map(|(_, delta)| delta).sum();
    if total + units != available {
        seen.unequal.push(item);
    }
    seen.changes.insert(item, moved.into_iter().map(|(change, _)| change).collect());
}

/// Reads orders by the export: each order of several items has all its lines in it.
async fn export_until(instance: &Instance, items: &[i64], is_over: &Cell<bool>) {
    loop {
        let is_last = is_over.get();
        let answer = instance
            .admin()
            .get("/api/admin/export?format=jsonl&table=orders")
            .await
            .expect_status(200);
        let mut lines: BTreeMap<String, usize> = BTreeMap::new();
        for line in answer.text.lines() {
            let record: Value = serde_json::from_str(line).expect("JSON");
            let is_ours = record["item_id"].as_i64().is_some_and(|item| items.contains(&item));
            if record["record"] == "order" && is_ours {
                let id = record["id"].as_str().expect("an id");
                *lines.entry(id[..34].to_owned()).or_default() += 1;
            }
        }
        assert!(lines.values().all(|count| *count == 3), "half a cart is exported: {lines:?}");
        if is_last {
            assert!(!lines.is_empty(), "the export has no order: {}", answer.text);
            return;
        }
    }
}

/// Gives the history to the checker.
fn judge(log: &Log, model: &str) -> Report {
    let order = orders_of_lists(&log.seen.borrow());
    let mut operations = Vec::new();
    let mut process = 0;
    let mut happen = |operations: &mut Vec<String>, value: Value| {
        process += 1;
        let invoked = json!({ "type": "invoke", "process": process, "value": value });
        let done = json!({ "type": "ok", "process": process, "value": value });
        operations.extend([invoked.to_string(), done.to_string()]);
    };
    let numbers = Rc::new(RefCell::new(BTreeMap::new()));
    let number = |change: &String| {
        let mut numbers = numbers.borrow_mut();
        let next = numbers.len();
        *numbers.entry(change.clone()).or_insert(next)
    };
    for (change, items) in log.written.borrow().iter() {
        let appends: Vec<Value> =
            items.iter().map(|item| json!(["append", item, number(change)])).collect();
        happen(&mut operations, json!(appends));
    }
    for seen in log.seen.borrow().iter() {
        let reads = seen.changes.iter().map(|(item, changes)| {
            let listed = order[item].iter().filter(|change| changes.contains(*change));
            json!(["r", item, listed.map(&number).collect::<Vec<usize>>()])
        });
        happen(&mut operations, json!(reads.collect::<Vec<Value>>()));
    }
    let history = History::from_json(&operations.join("\n")).expect("a history");
    let options = Opts { models: vec![model.to_owned()], ..Opts::default() };
    adya::check(&history, Workload::ListAppend, &options)
}

/// For each item the order of its changes, as the reads show it. Two reads that have each something that the other
/// lacks are an anomaly by themselves.
fn orders_of_lists(reads: &[Seen]) -> BTreeMap<i64, Vec<String>> {
    let items: BTreeSet<i64> = reads.iter().flat_map(|seen| seen.changes.keys().copied()).collect();
    let order_of = |item: i64| {
        let mut sets: Vec<&BTreeSet<String>> =
            reads.iter().filter_map(|seen| seen.changes.get(&item)).collect();
        sets.sort_by_key(|set| set.len());
        let mut order: Vec<String> = Vec::new();
        let mut known: BTreeSet<&String> = BTreeSet::new();
        for set in sets {
            assert!(known.iter().all(|change| set.contains(*change)), "two reads of item {item}");
            order.extend(set.iter().filter(|change| !known.contains(change)).cloned());
            known.extend(set);
        }
        order
    };
    items.into_iter().map(|item| (item, order_of(item))).collect()
}

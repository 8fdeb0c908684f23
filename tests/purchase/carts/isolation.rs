//! What readers see while carts are written beside them, judged by `adya`, a checker of isolation after Jepsen's Elle.
//!
//! A history has one list for each item: a cart appends its number to the list of each of its items, and a reader sees
//! all lists in one transaction. Rows have no order, so the orders of an item stand in the list as the reads show it:
//! of two reads one has everything that the other has. `SECKILL_TEST_ROUNDS=100` makes the history longer.

mod failovers;

use std::cell::{Cell, RefCell};

use adya::history::{Id, Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{History, Opts, Report, Valid, Workload};
use futures::future::join;
use futures::stream::{self, StreamExt};
use mysql_connection::begin_snapshot;
use sqlx::MySqlConnection;

use super::*;
use crate::support::rounds;

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
    /// The changes of each item: orders that were sold or cancelled.
    changes: BTreeMap<i64, BTreeSet<Id>>,
    /// Items whose stock is not what their changes leave of it.
    unequal: Vec<i64>,
}

/// What happened, in the order in which it was known.
#[derive(Default)]
struct Log {
    /// The names of changes: an order's id and the reason.
    names: RefCell<Interner>,
    /// The changes of carts that buyers were told of, with their items.
    written: RefCell<Vec<(Id, Vec<i64>)>>,
    seen: RefCell<Vec<Seen>>,
}

impl Log {
    fn change(&self, name: String) -> Id {
        self.names.borrow_mut().intern(Scalar::Str(name))
    }

    fn wrote(&self, order: &str, reason: &str, items: &[i64]) {
        let change = self.change(format!("{order} {reason}"));
        self.written.borrow_mut().push((change, items.to_vec()));
    }
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
        assert_serializable(&log);
        println!("{} changes, {} reads", log.written.borrow().len(), log.seen.borrow().len());
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
    let seen = read(&shop, &items, &log).await.expect("a read");
    log.seen.borrow_mut().push(seen);
    shop.change(sqlx::query(change).bind(items[1]).bind(&line).bind(hidden)).await;
    let seen = read(&shop, &items, &log).await.expect("a read");
    log.seen.borrow_mut().push(seen);
    log.wrote(&cart, "sold", &items[..2]);
    assert_half(&log);
}

/// A reader whose statements see what was committed last, as the sessions of purchases do, is found by the same
/// checker: so lists, exports and audits read a snapshot.
#[tokio::test]
async fn a_reader_without_a_snapshot_is_found() {
    let (shop, instance) = Shop::open().await;
    let items = items(&instance).await;
    let log = Log::default();
    let mut transaction = shop.pool.begin().await.expect("a transaction");
    let mut seen = Seen::default();
    read_item(&mut transaction, items[0], &log, &mut seen).await.expect("a read");
    let cart = order_id(&reserve(&instance.buyer(1), &[(items[0], 1), (items[1], 1)]).await);
    read_item(&mut transaction, items[1], &log, &mut seen).await.expect("a read");
    log.wrote(&cart, "sold", &items[..2]);
    log.seen.borrow_mut().push(seen);
    let seen = read(&shop, &items, &log).await.expect("a read");
    log.seen.borrow_mut().push(seen);
    assert_half(&log);
}

/// A cart that a failover loses before a reader sees it is missing in the last read. The checker takes it for one that
/// came after that read.
#[test]
fn a_lost_cart_is_found() {
    let log = log_of(&["a", "b"], &[&["b"]]);
    assert_eq!(judge(&log).valid, Valid::True);
    assert_eq!(differences(&log), [r#""a sold" of item 1"#, r#""a sold" of item 2"#]);
}

/// A cart that a failover loses after a reader has seen it is missing in a later read, which has another cart.
#[test]
#[should_panic(expected = "two reads of item 1")]
fn a_lost_cart_that_was_seen_is_found() {
    judge(&log_of(&["a", "b"], &[&["a"], &["b"]]));
}

/// A log of carts of two items, and of reads that have seen some of them.
fn log_of(carts: &[&str], reads: &[&[&str]]) -> Log {
    let log = Log::default();
    for cart in carts {
        log.wrote(cart, "sold", &[1, 2]);
    }
    for read in reads {
        let seen = read.iter().map(|cart| log.change(format!("{cart} sold")));
        let seen: BTreeSet<Id> = seen.collect();
        let changes = BTreeMap::from([(1, seen.clone()), (2, seen)]);
        log.seen.borrow_mut().push(Seen { changes, ..Seen::default() });
    }
    log
}

/// Asserts that a read has one line of a cart and not the other.
fn assert_half(log: &Log) {
    let report = judge(log);
    assert_eq!(report.valid, Valid::False);
    assert!(report.anomaly_types.iter().any(|kind| kind == "G-single-item"), "{report:?}");
}

/// Asserts that the reads are those of a serializable history, and that the last one has what buyers were told.
fn assert_serializable(log: &Log) {
    let report = judge(log);
    assert_eq!(report.valid, Valid::True, "{:?}", report.anomalies);
    assert_eq!(differences(log), Vec::<String>::new(), "told and not there, or there and not told");
    assert!(log.seen.borrow().len() > READERS, "the readers read beside the carts");
}

async fn items(instance: &Instance) -> Vec<i64> {
    let item = json!({ "stock": 1_000_000, "per_buyer_limit": 100_000, "hold_seconds": 86_400 });
    instance.make_items(ITEMS, &item).await
}

/// The three items of the cart with this number.
fn cart(items: &[i64], number: usize) -> [i64; 3] {
    [0, 1, 3].map(|step| items[(number + step) % ITEMS])
}

/// Sells carts, and cancels some of them at once.
async fn write_carts(instances: [&Instance; 2], items: &[i64], log: &Log) {
    let carts = (0..CARTS).map(|number| async move {
        let index = usize::try_from(number).expect("small");
        let wanted = cart(items, index);
        let buyer = instances[index % 2].buyer(number + 1);
        let answer = reserve(&buyer, &wanted.map(|item| (item, 1_u32))).await;
        let order = order_id(&answer);
        log.wrote(&order, "sold", &wanted);
        if number % 4 == 0 {
            // On a busy machine an item may be asked for too much.
            let cancel = || buyer.step(&order, "cancellation");
            let is_decided = |answer: &Answer| answer.json["retryable"] != true;
            until("a cancellation", cancel, is_decided).await.expect_status(200);
            log.wrote(&order, "cancelled", &wanted);
        }
    });
    stream::iter(carts).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

/// Reads all lists at the present writer until it is over, and once more. A read that fails is not in the log.
async fn read_until(shop: &Shop, items: &[i64], log: &Log, is_over: &Cell<bool>) {
    loop {
        let is_last = is_over.get();
        let seen = eventually(RECOVERY_MAX, || read(shop, items, log)).await;
        assert!(seen.unequal.is_empty(), "stock and movements are not of one moment");
        log.seen.borrow_mut().push(seen);
        if is_last {
            return;
        }
    }
}

/// Reads each item by statements of its own, in a snapshot as that of the export.
async fn read(shop: &Shop, items: &[i64], log: &Log) -> sqlx::Result<Seen> {
    let mut snapshot = begin_snapshot(&shop.pool).await?;
    let mut seen = Seen::default();
    for item in items {
        read_item(&mut snapshot, *item, log, &mut seen).await?;
    }
    Ok(seen)
}

async fn read_item(
    connection: &mut MySqlConnection,
    item: i64,
    log: &Log,
    seen: &mut Seen,
) -> sqlx::Result<()> {
    let stock = "SELECT total, available FROM stock WHERE item_id = ?";
    let (total, available): (i64, i64) =
        sqlx::query_as(stock).bind(item).fetch_one(&mut *connection).await?;
    let moved = "SELECT CONCAT(LEFT(order_id, 34), '00 ', reason), delta FROM stock_movements \
                 WHERE item_id = ?";
    let moved: Vec<(String, i64)> =
        sqlx::query_as(moved).bind(item).fetch_all(&mut *connection).await?;
    let units: i64 = moved.iter().map(|(_, delta)| delta).sum();
    if total + units != available {
        seen.unequal.push(item);
    }
    seen.changes.insert(item, moved.into_iter().map(|(name, _)| log.change(name)).collect());
    Ok(())
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
fn judge(log: &Log) -> Report {
    let reads = log.seen.borrow();
    let orders = orders_of_lists(&reads);
    let mut names = log.names.borrow().clone();
    let mut key = |item: &i64| names.intern(Scalar::Int(*item));
    let mut transactions: Vec<Vec<Mop>> = Vec::new();
    for (change, items) in log.written.borrow().iter() {
        let appends = items.iter().map(|item| Mop::Append { key: key(item), value: *change });
        transactions.push(appends.collect());
    }
    for seen in reads.iter() {
        let lists = seen.changes.iter().map(|(item, changes)| {
            // Each list is a beginning of the longest one.
            let list = orders[item][..changes.len()].to_vec();
            Mop::Read { key: key(item), value: ReadValue::List(list) }
        });
        transactions.push(lists.collect());
    }
    let mut operations = Vec::new();
    for (process, value) in (0..).zip(transactions) {
        for kind in [OpType::Invoke, OpType::Ok] {
            let index = operations.len() as u64;
            let value = value.clone();
            operations.push(Op { index, kind, process: Some(process), value, time: None });
        }
    }
    let history = History::from_ops(operations, names);
    let options = Opts { models: vec!["serializable".to_owned()], ..Opts::default() };
    adya::check(&history, Workload::ListAppend, &options)
}

/// For each item the order of its changes, as the reads show it. Two reads that have each something that the other
/// lacks are an anomaly by themselves.
fn orders_of_lists(reads: &[Seen]) -> BTreeMap<i64, Vec<Id>> {
    let items: BTreeSet<i64> = reads.iter().flat_map(|seen| seen.changes.keys().copied()).collect();
    let order_of = |item: i64| {
        let mut sets: Vec<&BTreeSet<Id>> =
            reads.iter().filter_map(|seen| seen.changes.get(&item)).collect();
        sets.sort_by_key(|set| set.len());
        let mut order: Vec<Id> = Vec::new();
        let mut known = &BTreeSet::new();
        for set in sets {
            assert!(known.is_subset(set), "two reads of item {item}");
            order.extend(set.difference(known));
            known = set;
        }
        order
    };
    items.into_iter().map(|item| (item, order_of(item))).collect()
}

/// The changes that a buyer was told of and the last read has not, or that it has and no buyer was told of: the checker
/// finds neither.
fn differences(log: &Log) -> Vec<String> {
    let written = log.written.borrow();
    let told =
        written.iter().flat_map(|(change, items)| items.iter().map(move |item| (*item, *change)));
    let reads = log.seen.borrow();
    let last = &reads.last().expect("a read").changes;
    let there = last.iter().flat_map(|(item, all)| all.iter().map(move |change| (*item, *change)));
    let told: BTreeSet<(i64, Id)> = told.collect();
    let there: BTreeSet<(i64, Id)> = there.collect();
    let names = log.names.borrow();
    let differ = told.symmetric_difference(&there);
    differ.map(|(item, change)| format!("{} of item {item}", names.get(*change))).collect()
}

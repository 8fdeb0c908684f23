//! Writes the test vectors of the checkers, `crates/verify/vectors-log.json`: logs, honest ones and planted frauds, with the
//! faults that each checker must find.
//!
//! `SECKILL_WRITE_VECTORS=1 cargo test -p sale-log` writes the file; without it the file is compared.

use serde_json::{Value, json};

use crate::tests::entry_of;
use crate::{Frontier, Hash, Head, Salt, SigningKey, Sums, leaf, path};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../verify/vectors-log.json");
/// The opening of the sale in microseconds.
const START: i64 = 1_800_000_000_000_000;
const SECOND: i64 = 1_000_000;

fn key(n: u8) -> SigningKey {
    SigningKey::of_secret(&[n; 32]).expect("a key")
}

/// A sale of three units, at most two for each buyer. Each batch is the second of its head, and its lines, of which `@7` is
/// the seventh second.
#[derive(Clone)]
struct Shop {
    batches: Vec<(i64, Vec<String>)>,
    key: u8,
}

/// What a shop publishes.
struct Published {
    log: Vec<String>,
    heads: Vec<Value>,
    receipts: Vec<Value>,
}

fn order(n: u32) -> String {
    format!("0190b3f0-0000-7000-8000-0000000000{n:02}")
}

fn sold(at: i64, order_number: u32, buyer: u32, units: u32) -> String {
    format!("sold @{at} {} {buyer} {units}", order(order_number))
}

fn returned(at: i64, order_number: u32, buyer: u32, units: u32) -> String {
    format!("returned @{at} {} {buyer} {units}", order(order_number))
}

fn refused(at: i64, buyer: u32) -> String {
    format!("refused @{at} {} {buyer} 1 sold_out", "0e".repeat(16))
}

impl Shop {
    fn honest() -> Self {
        Self {
            batches: vec![
                (0, vec!["opened @0 3 2 60".to_owned()]),
                (2, vec![sold(1, 1, 41, 1), sold(1, 2, 42, 1)]),
                (4, vec![sold(3, 3, 41, 1)]),
                (11, vec![refused(10, 44), refused(10, 45)]),
                (
                    41,
                    vec![
                        "stock @20 1".to_owned(),
                        "offers @20 1".to_owned(),
                        "offers @21 -1".to_owned(),
                        sold(21, 4, 43, 1),
                        returned(40, 2, 42, 1),
                    ],
                ),
                (43, vec!["stock @41 1".to_owned(), sold(42, 5, 44, 1), sold(42, 2, 42, 1)]),
                (45, vec![returned(44, 2, 42, 1), format!("entered @44 {}", "0f".repeat(16))]),
                (99, vec!["ended @99".to_owned()]),
            ],
            key: 1,
        }
    }

    /// An honest shop in which the batch `number` is another one.
    fn with(number: usize, batch: Vec<String>) -> Self {
        let mut shop = Self::honest();
        shop.batches[number].1 = batch;
        shop
    }

    fn publish(&self) -> Published {
        let (salt, key) = (Salt::of_secret(&[9; 32]), key(self.key));
        let (mut tree, mut sums) = (Frontier::default(), Sums::default());
        let mut log = vec!["sale-log 1".to_owned(), "item 7".to_owned()];
        log.push(format!("key {}", key.public_key()));
        let (mut heads, mut receipts) = (Vec::new(), Vec::new());
        for (at, lines) in &self.batches {
            let before = tree.clone();
            let lines: Vec<String> = lines.iter().map(|line| at_time(line)).collect();
            let entries: Vec<String> =
                lines.iter().map(|line| entry_of(&salt, line).expect("an entry")).collect();
            let leaves: Vec<Hash> = entries.iter().map(|entry| leaf(entry.as_bytes())).collect();
            leaves.iter().for_each(|leaf| tree.push(*leaf));
            entries.iter().for_each(|entry| sums.add(entry));
            let (size, root, time) = (tree.size(), tree.root(), START + at * SECOND);
            let head = Head { item: 7, size, root, time, sums };
            let signature = key.sign(&head);
            let Sums { units, orders, refusals } = sums;
            let (root, public) = (hex::encode(root), key.public_key());
            log.extend(entries.iter().cloned());
            log.push(format!(
                "head {size} {root} {time} {units} {orders} {refusals} {public} {signature}"
            ));
            let head = json!({
                "size": size, "root": root, "time": time, "units": units, "orders": orders,
                "refusals": refusals, "key": public, "signature": signature,
            });
            for (index, (line, entry)) in lines.iter().zip(&entries).enumerate() {
                let path = path(&before, &leaves, index).expect("a path");
                let path: Vec<String> = path.iter().map(hex::encode).collect();
                let mut receipt = json!({
                    "item": 7, "position": before.size() + index as u64, "entry": entry,
                    "path": path, "head": head,
                });
                if let Some(order) = line.split(' ').nth(2).filter(|_| line.starts_with("sold")) {
                    receipt["order"] = json!(order);
                    receipt["nonce"] = json!(salt.nonce(order));
                }
                receipts.push(receipt);
            }
            heads.push(head);
        }
        Published { log, heads, receipts }
    }

    fn case(&self, name: &str, faults: &[&str]) -> Value {
        json!({ "name": name, "log": self.publish().log, "faults": faults })
    }
}

/// A line with its time in microseconds.
fn at_time(line: &str) -> String {
    let words = line.split(' ').map(|word| match word.strip_prefix('@') {
        Some(second) => (START + second.parse::<i64>().expect("a number") * SECOND).to_string(),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A case with more that is known.
fn known(mut case: Value, what: &str, value: Value) -> Value {
    case[what] = value;
    case
}

fn cases() -> Vec<Value> {
    let shop = Shop::honest();
    let honest = shop.publish();
    let answers: Vec<Value> = honest
        .receipts
        .iter()
        .filter(|receipt| {
            let entry = receipt["entry"].as_str().expect("text");
            ["sold", "refused", "entered"].iter().any(|kind| entry.starts_with(kind))
        })
        .cloned()
        .collect();
    let first = answers[0].clone();
    let changed = |name: &str, change: &dyn Fn(&mut Vec<String>), faults: &[&str]| {
        let mut log = shop.publish().log;
        change(&mut log);
        json!({ "name": name, "log": log, "faults": faults })
    };
    let receipt = |name: &str, change: &dyn Fn(&mut Value), faults: &[&str]| {
        let mut receipt = first.clone();
        change(&mut receipt);
        known(shop.case(name, faults), "receipts", json!([receipt]))
    };
    let fewer = Shop::with(1, vec![sold(1, 2, 42, 1)]);
    let mut regrown = Shop::honest();
    regrown.batches.truncate(3);
    regrown.batches.push((12, vec![sold(11, 8, 48, 1), returned(12, 8, 48, 1)]));
    let mut short = Shop::honest();
    short.batches.truncate(5);
    let other_key = Shop { key: 2, ..Shop::honest() };
    let more = Shop::with(2, vec![sold(3, 3, 41, 1), sold(3, 8, 48, 1)]);
    let above = Shop::with(2, vec![sold(3, 3, 41, 2)]);
    let mut two_orders = Shop::honest();
    two_orders.batches[4].1[3] = sold(21, 4, 41, 1);
    let mut late_available = Shop::honest();
    late_available.batches[2].1.clear();
    late_available.batches.insert(4, (31, vec![sold(30, 3, 41, 1)]));
    let mut held_back = Shop::honest();
    held_back.batches[2].1.clear();
    held_back.batches[5].1.insert(0, sold(3, 3, 41, 1));
    held_back.batches.iter_mut().skip(5).for_each(|batch| batch.0 += 100);
    let future = Shop::with(2, vec![sold(30, 3, 41, 1)]);
    let again = Shop::with(2, vec![sold(3, 1, 41, 1)]);
    let unsold = Shop::with(2, vec![sold(3, 3, 41, 1), returned(9, 9, 49, 1)]);
    let other_units = Shop::with(2, vec![sold(3, 3, 41, 1), returned(9, 1, 41, 2)]);
    let mut unopened = Shop::honest();
    unopened.batches.remove(0);
    let mut in_time = Shop::honest();
    in_time.batches[4].1[4] = returned(6, 2, 42, 1);
    let all = json!(answers);
    vec![
        known(
            known(shop.case("honest, with every receipt", &[]), "receipts", all),
            "earlier",
            json!(honest.heads),
        ),
        known(shop.case("honest, with published keys", &[]), "keys", json!([key(1).public_key()])),
        in_time.case("units come back within the tolerance of a refusal", &[]),
        known(
            fewer.case("an order left out", &["missing", "sold_out"]),
            "receipts",
            json!([first]),
        ),
        known(
            fewer.case("an order left out, and a saved head", &["cut", "sold_out"]),
            "earlier",
            json!([honest.heads[2]]),
        ),
        changed(
            "an order left out of the signed log",
            &|log| drop(log.remove(5)),
            &["root", "sums", "sold_out"],
        ),
        more.case("an order added above the stock", &["oversold"]),
        changed(
            "an order added to the signed log",
            &|log| {
                let words = log[5].split(' ').skip(1).take(2);
                log.insert(6, format!("entered {}", words.collect::<Vec<_>>().join(" ")));
            },
            &["root"],
        ),
        late_available.case("a late \"still available\"", &["sold_out"]),
        held_back.case("an order that was kept back", &["late"]),
        future.case("an order from the future", &["late", "sold_out"]),
        above.case("a limit broken by one order", &["limit", "oversold"]),
        two_orders.case("a limit broken by several orders", &["limit"]),
        known(
            regrown.case("a log that was cut and regrown", &["cut"]),
            "earlier",
            json!([honest.heads[3]]),
        ),
        known(
            regrown.case("a log that was cut and regrown, and a receipt", &["missing"]),
            "receipts",
            json!([answers[3]]),
        ),
        known(short.case("a log that was cut", &["cut"]), "earlier", json!([honest.heads[6]])),
        known(
            short.case("a log that ends before a receipt", &["missing"]),
            "receipts",
            json!([answers[6]]),
        ),
        changed("entries without a head", &|log| drop(log.pop()), &["root"]),
        changed("no head at all", &|log| log.truncate(4), &["root"]),
        changed("a head of other entries", &|log| log.swap(4, 7), &["root", "sums", "late"]),
        changed(
            "a signature of another head",
            &|log| {
                let signature = log[4].rsplit(' ').next().expect("a word").to_owned();
                let place = log[7].len() - signature.len();
                log[7].replace_range(place.., &signature);
            },
            &["signature"],
        ),
        changed("a key that is not in the log", &|log| drop(log.remove(2)), &["signature"]),
        known(
            other_key.case("a key that was not published", &["key"]),
            "keys",
            json!([key(1).public_key()]),
        ),
        again.case("an order that is sold twice", &["orders"]),
        unsold.case("an order that comes back unsold", &["orders"]),
        other_units.case("an order that comes back with other units", &["orders"]),
        unopened.case(
            "a log that does not begin with the stock",
            &["orders", "limit", "oversold", "late"],
        ),
        changed("a line that is none of a log", &|log| log[5].push(' '), &["unreadable"]),
        changed(
            "a number that is too long",
            &|log| log.push("ended 9999999999999999".to_owned()),
            &["unreadable"],
        ),
        changed("another text", &|log| log[0].push('1'), &["unreadable"]),
        receipt(
            "a receipt with another entry",
            &|receipt| {
                receipt["entry"] =
                    json!(receipt["entry"].as_str().expect("text").replace(" 1", " 2"));
            },
            &["missing", "receipt"],
        ),
        receipt(
            "a receipt at another place",
            &|receipt| receipt["position"] = json!(2),
            &["missing", "receipt"],
        ),
        receipt(
            "a receipt of another order",
            &|receipt| receipt["order"] = json!(order(9)),
            &["receipt"],
        ),
        receipt(
            "a receipt without its nonce",
            &|receipt| receipt["nonce"] = Value::Null,
            &["receipt"],
        ),
        receipt(
            "a receipt with a longer path",
            &|receipt| {
                receipt["path"].as_array_mut().expect("a list").push(json!("00".repeat(32)));
            },
            &["receipt"],
        ),
        receipt(
            "a receipt of another item",
            &|receipt| receipt["item"] = json!(8),
            &["missing", "signature"],
        ),
        receipt(
            "a receipt with a head of its own",
            &|receipt| receipt["head"]["units"] = json!(9),
            &["signature"],
        ),
    ]
}

#[test]
fn the_vectors_are_those_of_the_checkers() {
    let lines: Vec<String> = cases().iter().map(ToString::to_string).collect();
    let text = format!("[\n{}\n]\n", lines.join(",\n"));
    if std::env::var_os("SECKILL_WRITE_VECTORS").is_some() {
        std::fs::write(FILE, &text).expect("written");
    }
    let stored = std::fs::read_to_string(FILE).expect("the file of vectors");
    let read = |text| serde_json::from_str::<Value>(text).expect("JSON");
    let is_same = read(&stored) == read(&text);
    assert!(is_same, "SECKILL_WRITE_VECTORS=1 cargo test -p sale-log writes {FILE}");
}

/// Writes a log of a million orders, and their receipts, into the folder `SECKILL_VECTORS_DIR`.
#[test]
#[ignore = "a measurement"]
fn a_million() {
    use std::io::Write;

    let dir = std::env::var("SECKILL_VECTORS_DIR").expect("a folder");
    let sale = |n: u32| format!("sold @1 0190b3f0-0000-7000-8000-{n:012} {n} 1");
    let mut batches = vec![(0, vec!["opened @0 1000000 1 60".to_owned()])];
    batches.extend(
        (0..1_000).map(|batch| (2, (batch * 1_000..(batch + 1) * 1_000).map(sale).collect())),
    );
    let published = Shop { batches, key: 1 }.publish();
    std::fs::write(format!("{dir}/log.txt"), published.log.join("\n") + "\n").expect("written");
    let file = std::fs::File::create(format!("{dir}/receipts.ndjson")).expect("a file");
    let mut file = std::io::BufWriter::new(file);
    for receipt in published.receipts.iter().skip(1) {
        writeln!(file, "{receipt}").expect("written");
    }
}

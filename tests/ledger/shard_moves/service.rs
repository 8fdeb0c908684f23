//! Items that move while two instances of the service sell them by every kind of gate, with the mover killed
//! at its steps: nothing is sold twice, nothing is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use futures::stream;
use ledger_audit::{State, homes_of, judge_homes};
use reqwest::Method;
use seckill::account::Role;
use seckill::failpoint::MOVE_POINTS;
use serde_json::{Value, json};
use shop_domain::ItemId;

use super::{Pair, buyers, killed};
use crate::support::{Client, Instance, assert_clean, eventually, purchase_path, rounds, when};

/// Items that sell and move at the same time.
const TOGETHER: usize = 4;
/// Units of each item, and buyers who want one.
const STOCK: i64 = 60;
const BUYERS: i64 = 80;
/// The pause between two buyers of one item: its sale lasts as long as its moves.
const BUYER_EVERY: Duration = Duration::from_millis(40);
/// How long a buyer tries.
const PRESS_MAX: Duration = Duration::from_secs(60);
/// Strategies, in turn.
const STRATEGIES: [&str; 9] = [
    "mysql-batch",
    "mysql-atomic",
    "redis-lua",
    "lock-redis",
    "redis-stream",
    "mysql-version",
    "mysql-for-update",
    "mysql-unit-rows",
    "redis-bucket",
];
/// The points of a move that is not given up.
const POINTS: usize = MOVE_POINTS.len() - 2;

/// What the run has counted.
#[derive(Default)]
struct Counts {
    attempts: AtomicU64,
    paused: AtomicU64,
    longest_wait_ms: AtomicU64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_move_while_two_instances_sell_them_and_the_mover_is_killed() {
    let pair = Arc::new(Pair::new().await);
    let instances = Arc::new([pair.home.start().await, pair.home.start().await]);
    let counts = Arc::new(Counts::default());
    // One item for each point at least.
    let items = rounds(u32::try_from(POINTS).expect("small"));
    let work = (0..items).map(|number| {
        let (pair, instances, counts) =
            (Arc::clone(&pair), Arc::clone(&instances), Arc::clone(&counts));
        async move { one_item(&pair, &instances, &counts, number).await }
    });
    let pauses: Vec<u64> = stream::iter(work).buffer_unordered(TOGETHER).collect().await;
    let urls = [&pair.home, &pair.second].map(|shop| shop.config.database_url.reveal().to_owned());
    let homes = judge_homes(&homes_of(&urls).await.expect("both ledgers are read"));
    assert_eq!(homes.state, State::Holds, "{:?}", homes.examples);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut sorted = pauses.clone();
    sorted.sort_unstable();
    println!(
        "{items} items moved there and back; {} attempts, {} of them during a pause; pauses of moves that were not \
         killed: median {} ms, longest {} ms; the longest wait of a buyer, killed movers included: {} ms",
        count(&counts.attempts),
        count(&counts.paused),
        sorted[sorted.len() / 2],
        sorted[sorted.len() - 1],
        count(&counts.longest_wait_ms),
    );
}

/// Sells an item while it moves there, with a kill, and back. Answers the pause of the second move in
/// milliseconds.
async fn one_item(
    pair: &Arc<Pair>,
    instances: &Arc<[Instance; 2]>,
    counts: &Arc<Counts>,
    number: u32,
) -> u64 {
    let turn = usize::try_from(number).expect("small");
    let strategy = STRATEGIES[turn % STRATEGIES.len()];
    let point = MOVE_POINTS[turn % POINTS];
    let id = instances[0].make_item(json!({ "stock": STOCK, "hold_seconds": 600 })).await;
    let item = ItemId::new(id).expect("positive");
    let (first, _) = buyers::route(&pair.home.pool, id).await;
    let presses = (1..=BUYERS).map(|buyer| {
        let (instances, counts) = (Arc::clone(instances), Arc::clone(counts));
        let path = purchase_path(strategy, id);
        tokio::spawn(async move {
            tokio::time::sleep(BUYER_EVERY * u32::try_from(buyer).expect("small")).await;
            let instance = &instances[usize::try_from(buyer % 2).expect("small")];
            let client = Client::new(instance.addr, Some(instance.token(buyer, Role::Buyer)));
            let (order, code) = send(&client, &path, &format!("{id}-{buyer}"), &counts).await;
            let order = order?;
            if code == 202 && !is_sold(&client, &order).await {
                return None;
            }
            // Some pay, some cancel, wherever the order is by then.
            let step = match buyer % 3 {
                0 => Some(("payment", "paid")),
                1 => Some(("cancellation", "cancelled")),
                _ => None,
            };
            let mut status = "pending";
            if let Some((step, after)) = step {
                let path = format!("/api/orders/{order}/{step}");
                let (_, code) = send(&client, &path, "", &counts).await;
                assert_eq!(code, 200, "{step} of {order}");
                status = after;
            }
            Some((order, status))
        })
    });
    let presses: Vec<_> = presses.collect();
    eventually("the first sales", || async {
        let sold: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM orders WHERE item_id = ?")
            .bind(id)
            .fetch_one(pair.pool(first))
            .await
            .ok()?;
        (sold >= 5).then_some(())
    })
    .await;
    let (there, back) = ((1 - first).to_string(), first.to_string());
    let (text_id, limit) = (id.to_string(), "20000");
    let there = ["shard", "move", &text_id, &there, "--pause-ms-max", limit];
    let (code, text) = killed::run(pair, &there, Some(point)).await;
    assert_eq!(code, -1, "{point} did not kill it: {text}");
    let (code, text) = killed::run(pair, &there, None).await;
    assert_eq!(code, 0, "{strategy}, {point}: {text}");
    let back = ["shard", "move", &text_id, &back, "--pause-ms-max", limit];
    let (code, text) = killed::run(pair, &back, None).await;
    assert_eq!(code, 0, "{strategy}, back: {text}");
    let pause = text.split_once("paused for ").and_then(|(_, rest)| rest.split_once(" ms"));
    let pause = pause.and_then(|(ms, _)| ms.parse().ok()).expect("the pause is said");

    let ended = join_all(presses).await.into_iter().filter_map(|press| press.expect("no panic"));
    let accepted: BTreeMap<String, &str> = ended.collect();
    assert_clean(&instances[0], id).await;
    pair.assert_lives_in(first, item).await;
    let ledger: Vec<(String, String)> =
        sqlx::query_as("SELECT id, status FROM orders WHERE item_id = ? AND status <> 'rejected'")
            .bind(id)
            .fetch_all(pair.pool(first))
            .await
            .expect("the ledger is read");
    let found: BTreeMap<&str, &str> =
        ledger.iter().map(|(order, status)| (order.as_str(), status.as_str())).collect();
    let expected: BTreeMap<&str, &str> =
        accepted.iter().map(|(order, status)| (order.as_str(), *status)).collect();
    assert_eq!(found, expected, "{strategy}, {point}: lost, sold twice, or another state");
    pause
}

/// Waits until a queued order is decided.
async fn is_sold(client: &Client, order: &str) -> bool {
    let path = format!("/api/orders/{order}");
    let status = eventually("a queued order to be decided", || async {
        let answer = client.get(&path).await;
        let status = answer.json["status"].as_str().unwrap_or("unread").to_owned();
        let is_decided = answer.status == 200 && status != "queued";
        when(is_decided, status)
    })
    .await;
    status != "rejected"
}

/// Sends a request again until it is answered for good; answers the order and the last status code.
async fn send(client: &Client, path: &str, key: &str, counts: &Counts) -> (Option<String>, u16) {
    let began = Instant::now();
    loop {
        counts.attempts.fetch_add(1, Ordering::Relaxed);
        let mut request = client.request(Method::POST, path);
        if !key.is_empty() {
            request = request.header("idempotency-key", key);
        }
        let response = request.send().await.expect("the instance answers");
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap_or_default();
        if body["code"] == "item_moving" {
            counts.paused.fetch_add(1, Ordering::Relaxed);
        }
        if body["retryable"] != true {
            let waited = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            counts.longest_wait_ms.fetch_max(waited, Ordering::Relaxed);
            return (body["id"].as_str().map(str::to_owned), status);
        }
        assert!(began.elapsed() < PRESS_MAX, "{path}: {status} {body}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

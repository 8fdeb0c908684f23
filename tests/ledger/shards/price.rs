//! What an order costs with two ledgers, beside one: processor time of the database servers and of this
//! process, which is the service and its clients. Run by hand: `cargo test price_of -- --ignored --nocapture`.

use std::time::Instant;

use futures::future::join_all;
use seckill::config::Secret;
use serde_json::json;

use super::second_server;
use crate::support::{Client, Shop, unique};

/// Items of the sale, half of them in each ledger.
const ITEMS: usize = 16;
/// Clients of each ledger, each with a connection of its own. The price of an order depends on the size of its
/// batch, and with it on the crowd of its ledger.
const CLIENTS: usize = 64;
/// Orders of each client.
const ORDERS: usize = 100;
/// Clock ticks of the kernel in a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// The processor time of a process so far, in seconds.
fn processor_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |index: usize| fields[index].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

/// Sells, and answers orders a second and microseconds of an order: databases, this process.
async fn sell(ledgers: usize) -> [f64; 3] {
    let (first, second) = tokio::join!(second_server(), second_server());
    let (home, other) = (unique("seckill_home"), unique("seckill_other"));
    let shop = Shop::with(|config| {
        config.database_url = Secret::new(first.url_of(&home));
        if ledgers == 2 {
            config.shards.urls = Secret::new(format!("1={}", second.url_of(&other)));
        }
        config.limits.user_per_second = 0;
    })
    .await;
    let instance = shop.start().await;
    let mut items = Vec::new();
    for index in 0..ITEMS {
        let body =
            json!({ "stock": 1_000_000, "per_buyer_limit": 1_000_000, "shard": index % ledgers });
        items.push(instance.make_item(body).await);
    }
    let buyers: Vec<Client> =
        (1..).take(CLIENTS * ledgers).map(|buyer| instance.buyer(buyer)).collect();
    // Connections and statements are made before the clock runs.
    join_all(buyers.iter().map(|buyer| buyer.buy("mysql-batch", items[0]))).await;
    let pids = [first.pid(), second.pid(), std::process::id()];
    let (before, begin) = (pids.map(processor_seconds), Instant::now());
    let work = buyers.iter().enumerate().map(async |(number, buyer)| {
        for order in 0..ORDERS {
            let answer = buyer.buy("mysql-batch", items[(number + order) % ITEMS]).await;
            assert_eq!(answer.status, 201, "{}", answer.text);
        }
    });
    join_all(work).await;
    let orders = f64::from(u32::try_from(CLIENTS * ledgers * ORDERS).expect("small"));
    let seconds = begin.elapsed().as_secs_f64();
    let spent: Vec<f64> = pids
        .map(processor_seconds)
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect();
    instance.stop().await;
    [orders / seconds, (spent[0] + spent[1]) / orders * 1e6, spent[2] / orders * 1e6]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: run it by hand on a quiet machine"]
async fn price_of_an_order_with_two_ledgers() {
    for round in 0..3 {
        for ledgers in [1, 2] {
            let [rate, databases, process] = sell(ledgers).await;
            println!(
                "round {round}, ledgers {ledgers}: {rate:.0} orders/s; processor time of an order: databases \
                 {databases:.0} us, service and clients {process:.0} us"
            );
        }
    }
}

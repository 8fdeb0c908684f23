//! What an order costs Redis: commands, and time of its processor. The figures are printed; with
//! `SECKILL_TEST_REDIS=cluster` they are those of three primaries with a replica each.

use std::sync::atomic::AtomicU64;

use dev_servers::RedisServer;
use futures::StreamExt;

use crate::support::prelude::*;
use crate::support::{self, rounds};

/// Buyers at once.
const AT_ONCE: usize = 32;
/// How long the servers are watched without an order: what they spend then is not the orders'.
const IDLE: Duration = Duration::from_secs(1);
/// Orders of one measurement, times `SECKILL_TEST_ROUNDS`.
const ORDERS: i64 = 64;
/// The strategies, and how many commands an order may cost at most. Under WATCH buyers disturb each
/// other, and try again.
const SUBJECTS: [(&str, f64); 5] = [
    ("redis-lua", 3.0),
    ("redis-watch", 60.0),
    ("redis-bucket", 3.0),
    ("redis-stream", 8.0),
    ("lock-redis", 12.0),
];

/// The servers of the wanted shape: those that take writes first.
struct Servers {
    primaries: Vec<&'static RedisServer>,
    replicas: Vec<&'static RedisServer>,
}

/// Commands of one shop that a server was sent, and those that its scripts called.
#[derive(Clone, Default)]
struct Counts {
    sent: Arc<AtomicU64>,
    called: Arc<AtomicU64>,
}

async fn servers() -> Servers {
    let all: Vec<&'static RedisServer> = match std::env::var("SECKILL_TEST_REDIS").as_deref() {
        Ok("cluster") => support::cluster().await.nodes.iter().collect(),
        Ok("sentinel") => support::sentinels().await.servers.iter().collect(),
        Ok("tls") => vec![support::tls_redis().await],
        _ => vec![support::servers().await.redis],
    };
    let (mut primaries, mut replicas) = (Vec::new(), Vec::new());
    for server in all {
        let role: Vec<redis::Value> = server.run(&["ROLE"]).await.expect("ROLE");
        let is_primary =
            matches!(role.first(), Some(redis::Value::BulkString(word)) if word == b"master");
        if is_primary { primaries.push(server) } else { replicas.push(server) }
    }
    Servers { primaries, replicas }
}

/// Counts the commands with this prefix in their keys from now on.
async fn count(server: &RedisServer, prefix: String) -> (Counts, tokio::task::JoinHandle<()>) {
    let client = redis::Client::open(server.url()).expect("a URL");
    let monitor = client.get_async_monitor().await.expect("MONITOR");
    let counts = Counts::default();
    let counted = counts.clone();
    let task = tokio::spawn(async move {
        let mut lines = monitor.into_on_message::<String>();
        while let Some(line) = lines.next().await {
            if !line.contains(&prefix) {
                continue;
            }
            let is_of_script = line.split(']').next().is_some_and(|from| from.ends_with("lua"));
            let counter = if is_of_script { &counted.called } else { &counted.sent };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    (counts, task)
}

/// Processor time of servers so far, in microseconds.
async fn processor_us(servers: &[&RedisServer]) -> Vec<f64> {
    let mut all = Vec::new();
    for server in servers {
        let info: String = server.run(&["INFO", "cpu"]).await.expect("INFO");
        let seconds = |name: &str| -> f64 {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|text| text.trim().parse().ok()).expect("a figure")
        };
        all.push((seconds("used_cpu_user:") + seconds("used_cpu_sys:")) * 1e6);
    }
    all
}

/// Processor time that each server spends meanwhile, in microseconds: first the primaries, and their
/// number.
async fn spent(servers: &Servers, meanwhile: impl Future<Output = ()>) -> (Vec<f64>, usize) {
    let all: Vec<&RedisServer> =
        servers.primaries.iter().chain(&servers.replicas).copied().collect();
    let before = processor_us(&all).await;
    meanwhile.await;
    let after = processor_us(&all).await;
    let spent = after.iter().zip(&before).map(|(after, before)| after - before);
    (spent.collect(), servers.primaries.len())
}

/// Sells a unit to each of these buyers.
async fn sell(instance: &Instance, strategy: &str, item: i64, buyers: std::ops::Range<i64>) {
    let presses = buyers.map(async |id| instance.buyer(id).buy_for_good(strategy, item).await);
    let mut answers = futures::stream::iter(presses).buffer_unordered(AT_ONCE);
    while let Some(answer) = answers.next().await {
        assert_eq!(answer.status, 201, "{strategy}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_costs_redis_a_handful_of_commands() {
    let orders = ORDERS * i64::from(rounds(1));
    let (servers, shop) = (servers().await, Shop::new().await);
    let instance = shop.start().await;
    let per_order = |sum: f64| sum / orders as f64;
    for (strategy, commands_max) in SUBJECTS {
        let item = instance.make_item(json!({ "stock": 3 * orders + 8 })).await;
        // The counter is loaded, the queue is opened, the scripts are known.
        sell(&instance, strategy, item, 1..9).await;
        let (idle, _) = spent(&servers, tokio::time::sleep(IDLE)).await;
        let begin = tokio::time::Instant::now();
        let selling = sell(&instance, strategy, item, 1_000..1_000 + orders);
        let (busy, primaries) = spent(&servers, selling).await;
        let lasted = begin.elapsed().div_duration_f64(IDLE);
        let us: Vec<f64> =
            busy.iter().zip(&idle).map(|(busy, idle)| busy - idle * lasted).collect();
        let (us, replicas_us) = us.split_at(primaries);
        let mut counters = Vec::new();
        for server in &servers.primaries {
            counters.push(count(server, shop.config.redis.prefix.clone()).await);
        }
        sell(&instance, strategy, item, 100_000..100_000 + orders).await;
        let (mut sent, mut called) = (Vec::new(), 0);
        for (counts, task) in counters {
            task.abort();
            sent.push(counts.sent.load(Ordering::Relaxed));
            called += counts.called.load(Ordering::Relaxed);
        }
        let (all, busiest) = (sent.iter().sum::<u64>(), sent.iter().max().copied().unwrap_or(0));
        let commands = per_order(all as f64);
        println!(
            "{strategy}: {commands:.2} commands an order ({:.2} more within scripts), \
             {:.0} us of the primaries ({:.0} us of the busiest), {:.0} us of the replicas; \
             the busiest primary gets {:.0} % of the commands",
            per_order(called as f64),
            per_order(us.iter().sum()),
            per_order(us.iter().copied().fold(0.0, f64::max)),
            per_order(replicas_us.iter().sum()),
            100.0 * busiest as f64 / (all as f64).max(1.0),
        );
        assert!(commands <= commands_max, "{strategy}: {commands} commands an order");
        assert_clean(&instance, item).await;
    }
}

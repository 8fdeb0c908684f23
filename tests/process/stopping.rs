//! Stopping under load: what was accepted is done, streams end, and a second signal does not wait.
//!
//! `SECKILL_TEST_ROUNDS=100` stops it a hundred times.

use crate::process::program::signal;
use crate::support::prelude::*;

/// Rounds of an ordinary run.
const ROUNDS: u32 = 2;
/// Buyers of a round; half of them find nothing left.
const BUYERS: i64 = 80;
/// The drain's ten seconds, and time for a busy machine to start and end a process.
const STOP_MAX: Duration = Duration::from_secs(20);
const STRATEGIES: [&str; 4] = ["lock-redis", "mysql-atomic", "mysql-batch", "redis-lua"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_accepted_is_lost_however_often_it_is_stopped() {
    let rounds = std::env::var("SECKILL_TEST_ROUNDS").ok().and_then(|text| text.parse().ok());
    let shop = Arc::new(Shop::new().await);
    let maker = shop.start().await;
    for (round, strategy) in (0..rounds.unwrap_or(ROUNDS)).zip(STRATEGIES.iter().cycle()) {
        stop_once(&shop, &maker, strategy, round).await;
    }
}

/// The threads of a process whose name begins so.
fn threads(pid: u32, name_of: &str) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    };
    threads.filter_map(name).filter(|name| name.starts_with(name_of)).count()
}

async fn stop_once(shop: &Shop, maker: &Instance, strategy: &str, round: u32) {
    let item = maker.make_item(json!({ "stock": BUYERS / 2 })).await;
    let addr = free_addr();
    // Every second round the connections have threads of their own.
    let runtimes = [0, 2][round as usize % 2];
    let setting = ("SECKILL_HTTP_RUNTIMES", &*runtimes.to_string());
    let mut service = serve(shop, &addr, &[setting]).await;
    let pid = service.id().expect("running");
    assert_eq!(threads(pid, "connections-"), runtimes);
    assert_eq!(threads(pid, "batches"), runtimes.min(1), "batches have one beside them");
    let addr = addr.parse().expect("an address");
    // Two streams that would never end by themselves.
    let watcher = Client::new(addr, Some(maker.token(1, Role::Buyer)));
    let streams = ["/api/orders/events".to_owned(), format!("/api/items/{item}/events")];
    let streams = join_all(streams.iter().map(|path| watcher.request(Method::GET, path).send()));
    let streams: Vec<_> = streams.await.into_iter().map(|open| open.expect("a stream")).collect();
    let path = purchase_path(strategy, item);
    let presses = (1..=BUYERS).map(|id| {
        let client = Client::new(addr, Some(maker.token(id, Role::Buyer)));
        let request = client.request(Method::POST, &path).header("idempotency-key", "once");
        tokio::spawn(async move {
            let response = request.send().await.ok()?;
            let status = response.status().as_u16();
            let order: Value = response.json().await.ok()?;
            (status == 201).then(|| order["id"].as_str().expect("an id").to_owned())
        })
    });
    let presses: Vec<_> = presses.collect();
    // Another moment each round: before the first sale, in the middle, near the end.
    let sold_before = i64::from(round % 4) * BUYERS / 10;
    until("some sales", || maker.audit(item), |it| it["held"].as_i64() >= Some(sold_before)).await;
    signal(service.id().expect("running"), "TERM").await;
    let ended = tokio::time::timeout(STOP_MAX, service.wait()).await;
    let code = ended.expect("it stops in time").expect("ended").code();
    assert_eq!(code, Some(0), "{strategy}, round {round}: not everything was finished");
    for stream in streams {
        // Its end, not a broken connection.
        stream.bytes().await.expect("a stream that is ended properly");
    }
    let accepted: Vec<String> =
        join_all(presses).await.into_iter().filter_map(|press| press.expect("no panic")).collect();
    let statement = sqlx::query_scalar("SELECT id FROM orders WHERE item_id = ?").bind(item);
    let ledger: Vec<String> = shop.read_all(statement).await;
    let lost = accepted.iter().filter(|id| !ledger.contains(id)).count();
    assert_eq!(lost, 0, "{strategy}, round {round}: {} accepted", accepted.len());
    // Who was cut off asks again with the same key, and has at most the one order.
    let answers = join_all(
        (1..=BUYERS)
            .map(async |id| maker.buyer(id).buy_with_key(strategy, item, "once").await.status),
    );
    let sold = answers.await.into_iter().filter(|status| *status == 201).count();
    assert_eq!(sold as i64, BUYERS / 2, "{strategy}, round {round}");
    assert_clean(maker, item).await;
}

/// The exit code is 1, after which systemd starts the service again: 2 is a mistake in the settings.
#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let (shop, maker, item) = Shop::selling(json!({})).await;
    let addr = free_addr();
    let mut service = program(&shop, &["serve"])
        .env("SECKILL_HTTP_ADDR", &addr)
        // Without the second signal it would outlast this test: a row is waited for in four tries of five seconds.
        .env("SECKILL_LIFECYCLE_DRAIN_MS", "600000")
        .env("SECKILL_PURCHASE_DEADLINE_MS", "600000")
        .env("SECKILL_MYSQL_LOCK_WAIT_TIMEOUT_SECONDS", "5")
        .spawn()
        .expect("started");
    let client = Client::new(addr.parse().expect("an address"), Some(maker.token(1, Role::Buyer)));
    client.until_answered().await;
    let holder = hold_stock_row(&shop.pool, item).await;
    let request = client.request(Method::POST, &purchase_path("mysql-atomic", item));
    let press = tokio::spawn(request.header("idempotency-key", "once").send());
    until_metric(&client, "seckill_purchases_in_flight 1").await;
    let pid = service.id().expect("running");
    signal(pid, "TERM").await;
    eventually("the listener to close", || async {
        client.request(Method::GET, "/healthz").send().await.is_err().then_some(())
    })
    .await;
    assert!(service.try_wait().expect("asked").is_none(), "it waits for the purchase");
    signal(pid, "TERM").await;
    let ended = tokio::time::timeout(STOP_MAX, service.wait()).await;
    let code = ended.expect("it stops at once").expect("ended").code();
    assert_eq!(code, Some(1), "what was cut off is told by the exit code");
    assert!(press.await.expect("no panic").is_err(), "nobody was told that it was sold");
    holder.rollback().await.expect("the row is free");
    let told = maker.buyer(1).buy_until_sold("mysql-atomic", item, "once").await;
    assert!(told.json["id"].is_string());
    assert_eq!(maker.audit(item).await["orders"], 1);
}

//! How durable a 202 is, as the card says. Rows of the fault matrix show it: `redis-killed-...`,
//! `redis-emptied-reconciled`, `power-cut-redis-...` and `queue-consumer-killed`.

use dev_servers::{RedisOptions, RedisServer};

use super::*;

/// A shop with a Redis of its own, which writes a log.
async fn shop_with_redis(line: &str) -> (Shop, RedisServer) {
    let mut options = RedisOptions::temporary();
    options.extra_lines.push(line.to_owned());
    let server = RedisServer::start(options).await.expect("Redis starts");
    let mut shop = shop().await;
    shop.config.redis_url = Secret::new(server.url());
    (shop, server)
}

#[tokio::test]
async fn the_card_says_what_202_promises_here() {
    let (shop, server) = shop_with_redis("appendfsync everysec").await;
    let instance = shop.start().await;
    let set = async |name: &str, value: &str| {
        let () = shop.redis(&["CONFIG", "SET", name, value]).await;
    };
    let promise = async || {
        let cards = instance.stranger().get("/api/strategies").await.json;
        let cards = cards.as_array().expect("a list").clone();
        let (queued, durable): (Vec<_>, Vec<_>) =
            cards.into_iter().partition(|card| card["durable_before_reply"] == false);
        assert!(durable.iter().all(|card| card["promise"].is_null()));
        assert_eq!(queued.len(), 1);
        queued[0]["promise"].as_str().expect("a sentence").to_owned()
    };
    // A promise is remembered for a moment.
    let says = async |words: &str| {
        until(BOUND, || async { promise().await }, |said| said.contains(words)).await
    };
    says("appendfsync everysec").await;
    set("appendfsync", "always").await;
    says("appendfsync always").await;
    set("appendonly", "no").await;
    says("memory only").await;
    server.stop().await;
    says("does not tell").await;
}

#[tokio::test]
async fn strangers_who_read_the_list_do_not_make_redis_work() {
    const READERS: usize = 200;
    let (shop, server) = shop_with_redis("appendfsync everysec").await;
    let instance = shop.start().await;
    let asked = async || -> usize {
        let info: String = shop.redis(&["INFO", "commandstats"]).await;
        let calls = info.lines().filter_map(|line| line.strip_prefix("cmdstat_config|get:calls="));
        calls.filter_map(|rest| rest.split(',').next()?.parse::<usize>().ok()).sum()
    };
    let (before, begun) = (asked().await, std::time::Instant::now());
    let readers =
        (0..READERS).map(|_| async { instance.stranger().get("/api/strategies").await.status });
    assert!(join_all(readers).await.into_iter().all(|status| status == 200));
    let questions = asked().await - before;
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("a short test");
    assert!(
        (1..=2 + seconds).contains(&questions),
        "{questions} questions for {READERS} readers in {seconds} s"
    );
    server.stop().await;
}

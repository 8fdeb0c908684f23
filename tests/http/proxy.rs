//! The proxy of `docker-compose.yml`: what a client says of its own address does not get past it, and
//! the purchases of one item go to one instance.

use loadtest::haproxy::{self, Haproxy};

use super::throttling::sign_in;
use crate::house::docs::read;
use crate::support::prelude::*;

/// How many sign-ins one address may ask for at once.
const BURST: usize = 3;
/// Connections of HAProxy at most: a test machine may not have files for twenty thousand.
const CONNECTIONS_MAX: u32 = 100;

#[test]
fn the_proxy_tells_the_address_itself_and_is_the_only_one_believed() {
    let proxy = read("deploy/haproxy.cfg");
    let rules: Vec<&str> = proxy.lines().map(str::trim).collect();
    let set =
        rules.iter().position(|rule| *rule == "http-request set-header X-Forwarded-For %[src]");
    let passed = rules.iter().position(|rule| rule.starts_with("default_backend"));
    assert!(set.is_some() && set < passed, "a forged X-Forwarded-For passes the proxy");
    let compose = read("docker-compose.yml");
    let value = |name: &str| {
        let line = compose.lines().find_map(|line| line.trim().strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} is missing")).trim().to_owned()
    };
    assert_eq!(value("SECKILL_HTTP_TRUSTED_PROXIES:"), value("ipv4_address:"));
}

/// Starts HAProxy before `instances`, and answers a client of it once it has found them.
async fn in_front_of(program: &Path, instances: &[&Instance]) -> (Haproxy, Client) {
    let addresses: Vec<SocketAddr> = instances.iter().map(|instance| instance.addr).collect();
    let folder = TestFolder::new("haproxy");
    let proxy = Haproxy::start(program, &addresses, CONNECTIONS_MAX, &folder).await;
    let proxy = proxy.expect("HAProxy finds the instances");
    let client = Client::new(proxy.instance.address, None);
    (proxy, client)
}

/// Runs where HAProxy is installed; elsewhere the test above has read the configuration.
#[tokio::test]
async fn a_forged_address_does_not_get_past_the_proxy() {
    let Some(program) = haproxy::program() else { return };
    let (_shop, instance) = Shop::open_with(|config| {
        config.limits.loopback_exempt = false;
        config.limits.address_per_second = 1;
        config.limits.address_burst = 3;
        config.http.trusted_proxies = "127.0.0.1".to_owned();
        // The proxy's health checks have a name of their own.
        config.http.hosts = "*".to_owned();
    })
    .await;
    let (_proxy, client) = in_front_of(&program, &[&instance]).await;
    let started = tokio::time::Instant::now();
    let mut passed = 0;
    for number in 0..10 * BURST {
        let forged = format!("198.51.100.{number}");
        let answer = sign_in(&client, &forged, "no name", "long enough").await;
        passed += usize::from(answer.status != 429);
    }
    // One a second comes in beside the burst.
    let most = BURST + usize::try_from(started.elapsed().as_secs()).expect("few") + 1;
    assert!(passed <= most, "{passed} sign-ins of one address passed, {most} may");
}

/// The orders that an instance has made.
async fn sold(instance: &Instance) -> usize {
    let metrics = instance.stranger().get("/metrics").await;
    let name = r#"seckill_purchases_total{strategy="mysql-batch",outcome="sold"}"#;
    let line = metrics.text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |count| count.trim().parse().expect("a number"))
}

/// One instance sells an item while it is there, and one instance knows a run of the lab. Runs where HAProxy is installed.
#[tokio::test]
async fn an_item_and_the_lab_are_at_one_instance_behind_the_proxy() {
    const BUYERS: i64 = 6;
    let Some(program) = haproxy::program() else { return };
    // The proxy's health checks have a name of their own.
    let shop = Shop::with(|config| config.http.hosts = "*".to_owned()).await;
    let (first, second) = tokio::join!(shop.start(), shop.start());
    let (_proxy, client) = in_front_of(&program, &[&first, &second]).await;
    let mut homes = [0, 0];
    let mut item_of_first = None;
    // The items are spread by a hash: 24 of them are not all at one instance.
    for _ in 0..24 {
        let item = first.make_item(json!({ "stock": 100 })).await;
        let before = (sold(&first).await, sold(&second).await);
        for id in 1..=BUYERS {
            let buyer = client.with_token(first.buyer(id).token().expect("a token"));
            assert_eq!(buyer.buy("mysql-batch", item).await.status, 201);
        }
        let after = (sold(&first).await - before.0, sold(&second).await - before.1);
        let all = usize::try_from(BUYERS).expect("few");
        assert!(after == (all, 0) || after == (0, all), "an item was sold by both: {after:?}");
        homes[usize::from(after.0 == 0)] += 1;
        item_of_first = item_of_first.or((after.0 == all).then_some(item));
    }
    assert!(homes[0] > 0 && homes[1] > 0, "one instance has all items: {homes:?}");
    let operator = client.with_token(first.admin().token().expect("a token"));
    let plan =
        json!({ "strategies": ["mysql-atomic"], "stock": 5, "buyers": 10, "concurrency": 5 });
    let begun = operator.post("/api/lab/runs", &plan).await.expect_status(202);
    let path = format!("/api/lab/runs/{}", begun.json["id"].as_str().expect("an id"));
    // Other requests that come one after the other go to both instances in turn.
    for _ in 0..8 {
        operator.get(&path).await.expect_status(200);
    }
    operator.until(&path, |seen| seen.json["state"] == "done").await;
    // The instance goes: its items are sold by the other one.
    let item = item_of_first.expect("the first has items");
    first.stop().await;
    let buyer = client.with_token(second.buyer(BUYERS + 1).token().expect("a token"));
    until(BOUND, || buyer.buy("mysql-batch", item), |answer| answer.status == 201).await;
}

//! The service's injected clock jumps; the machine's clock is never touched.

use seckill::app::App;
use seckill::config::Config;
use settings::Secret;
use time::Duration;

use crate::prelude::*;
use crate::testbed::SECRET;

const STRANGERS: i64 = 9_000_000;

/// The clock of an instance in this process jumps an hour, ahead and back, while others sell.
pub async fn jumps(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    let strategies = plan.strategies.clone();
    run_trial(testbed, plan, async |testbed, trial| {
        let mut config = Config::defaults();
        config.secret = Secret::new(SECRET);
        config.database_url = Secret::new(testbed.ledger_url());
        config.redis_url = Secret::new(testbed.redis.url());
        config.redis.prefix = "faults:".to_owned();
        config.lock.zookeeper_hosts = testbed.zookeeper.hosts();
        config.lock.etcd_endpoints = testbed.etcd.url();
        config.http.addr = "127.0.0.1:0".parse().map_err(|_| "an address".to_owned())?;
        let app = App::build(config).await?;
        let addr = app.addr().ok_or("an address of TCP")?;
        let (clock, lifecycle) = (app.clock(), app.lifecycle());
        let serving = tokio::spawn(app.serve());
        let mut codes = Vec::new();
        let mut buyer = STRANGERS;
        for strategy in strategies.iter().filter(|name| **name != "lock-redlock") {
            let item = make_item(testbed, &trial.services[0], &json!({ "stock": 3 })).await?;
            let path = format!("/api/seckill/{strategy}/{item}");
            for by in [Duration::days(2), Duration::days(-2), Duration::hours(-1), Duration::HOUR] {
                clock.shift(by);
                buyer += 1;
                codes.push(buy(testbed, addr, &path, buyer).await?);
                trial.injections += 1;
            }
        }
        lifecycle.stop();
        let _ = serving.await;
        let said = |code: &str| codes.iter().filter(|told| *told == code).count();
        let (ended, early) = (said("sale_ended"), said("sale_not_started"));
        let sold = said("sold");
        let each = codes.len() / 4;
        let proof =
            format!("{ended} times ended, {early} times not started, {sold} sold: {codes:?}");
        proven((ended, early, sold) == (each, each, each * 2), proof)
    })
    .await
}

async fn buy(testbed: &Testbed, addr: SocketAddr, path: &str, buyer: i64) -> Run<String> {
    let token = testbed.token(buyer, Role::Buyer);
    let reply = ask_with(addr, "POST", path, Some(&token), (&[], Bytes::new())).await?;
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    Ok(match reply.status {
        201 | 202 => "sold".to_owned(),
        status => body["code"].as_str().map_or_else(|| status.to_string(), str::to_owned),
    })
}

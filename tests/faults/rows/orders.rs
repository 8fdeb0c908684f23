//! What happens to orders after they were placed: paid, cancelled and expired, all at once.

use std::time::{Duration, Instant};

use futures::future::join_all;
use hyper::body::Bytes;
use rand::RngExt;
use seckill::account::Role;
use serde_json::{Value, json};

use super::{FAULT, bit};
use crate::service::Service;
use crate::shop::{Plan, Shop, Wanted, make_item, sell_through};
use crate::stage::Stage;
use crate::{Run, Tried};

/// Orders that are stepped at once.
const AT_ONCE: usize = 8;
/// Units of an item that is sold behind the queue's back.
const BEHIND: i64 = 12;
/// A buyer whose orders are not the crowd's.
const STRANGERS: i64 = 5_000_000;

/// Payment, cancellation and expiry meet at the same orders, from two instances.
pub async fn races(stage: &mut Stage, seed: u64) -> Tried {
    let strategies = &["mysql-atomic", "mysql-batch", "lock-redis", "redis-lua", "redis-bucket"];
    let mut plan = Plan::new(seed, Wanted::These(strategies), &stage.setup());
    plan.item = json!({ "hold_seconds": 1 });
    sell_through(stage, plan, async |_, shop| {
        let begin = Instant::now();
        let mut sums = [0_u32; 3];
        while begin.elapsed() < FAULT * 2 {
            let orders = some_orders(shop).await;
            let services = &shop.services;
            let raced = orders.iter().map(|(id, token)| async move {
                let (paid, cancelled) = tokio::join!(
                    step(&services[0], id, token, "payment"),
                    step(&services[1], id, token, "cancellation"),
                );
                (paid == 200, cancelled == 200)
            });
            for (paid, cancelled) in join_all(raced).await {
                sums[0] += u32::from(paid);
                sums[1] += u32::from(cancelled);
                sums[2] += u32::from(paid && cancelled);
            }
        }
        shop.injections += 1;
        shop.mended();
        let expired = shop.metric("seckill_orders_expired_total", "").await;
        let [paid, cancelled, both] = sums;
        if both > 0 {
            return Err(format!("{both} orders were both paid and cancelled"));
        }
        bit(
            paid > 0 && cancelled > 0 && expired > 0.0,
            format!("{paid} paid, {cancelled} cancelled, {expired} expired, none twice"),
        )
    })
    .await
}

/// Cancels or pays a few orders of the crowd on the first instance, which may die of it.
pub async fn stepped(shop: &mut Shop) {
    let orders = some_orders(shop).await;
    let pays = shop.dice.random_range(0..3) == 0;
    let word = if pays { "payment" } else { "cancellation" };
    let service = &shop.services[0];
    join_all(orders.iter().map(|(id, token)| step(service, id, token, word))).await;
}

/// Ids of orders of the crowd, with their owners' tokens; asked of the second instance.
async fn some_orders(shop: &mut Shop) -> Vec<(String, String)> {
    let goods: Vec<_> = shop.crowd.goods.iter().filter(|good| !good.control).cloned().collect();
    let mut asked = Vec::new();
    for number in 0..AT_ONCE {
        let good = &goods[number % goods.len()];
        let sold = usize::try_from(good.sold()).unwrap_or(1).clamp(1, good.tokens.len());
        let token = good.tokens[shop.dice.random_range(0..sold)].1.clone();
        asked.push(token);
    }
    let service = &shop.services[1];
    let orders = asked.into_iter().map(|token| async move {
        let reply = service.get("/api/orders", Some(&token)).await.ok()?;
        let list: Value = serde_json::from_slice(&reply.body).ok()?;
        let id = list["orders"][0]["id"].as_str()?.to_owned();
        Some((id, token))
    });
    join_all(orders).await.into_iter().flatten().collect()
}

async fn step(service: &Service, id: &str, token: &str, word: &str) -> u16 {
    let path = format!("/api/orders/{id}/{word}");
    let reply = service.ask("POST", &path, Some(token), Bytes::from_static(b"{}")).await;
    reply.map_or(0, |reply| reply.status)
}

/// Queues orders on the first instance whose units were sold behind the queue's back, so that the
/// ledger refuses them; it may die of it.
pub async fn rejected(stage: &Stage, shop: &mut Shop) -> Run<()> {
    let item = make_item(stage, &shop.services[1], false, &json!({ "stock": BEHIND })).await?;
    let first = STRANGERS + shop.dice.random_range(0..1_000_000);
    let buy = async |service: &Service, strategy: &str, buyer: i64| {
        let path = format!("/api/seckill/{strategy}/{item}");
        let token = stage.token(buyer, Role::Buyer);
        let reply = service.ask("POST", &path, Some(&token), Bytes::new()).await;
        reply.map_or(0, |reply| reply.status)
    };
    // The counter is loaded, then the rest is sold without it.
    buy(&shop.services[1], "redis-stream", first).await;
    let behind = (1..BEHIND).map(|number| buy(&shop.services[1], "mysql-batch", first + number));
    join_all(behind).await;
    let queued =
        (0..BEHIND).map(|number| buy(&shop.services[0], "redis-stream", first + BEHIND + number));
    join_all(queued).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(())
}

//! What happens to orders after they were placed: paid, cancelled and expired, all at once.

use crate::prelude::*;

/// Orders that are stepped at once.
const AT_ONCE: usize = 8;
/// How long they are stepped at most.
const RACES_MAX: Duration = Duration::from_secs(20);
/// Units of an item that is sold behind the queue's back.
const BEHIND: i64 = 12;
/// A buyer whose orders are not the workload's.
const STRANGERS: i64 = 5_000_000;

/// Payment, cancellation and expiry meet at the same orders, from two instances.
pub async fn races(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let strategies = &["mysql-atomic", "mysql-batch", "lock-redis", "redis-lua", "redis-bucket"];
    let mut plan = Plan::new(seed, Wanted::These(strategies), &testbed.setup());
    plan.item = json!({ "hold_seconds": 1 });
    run_trial(testbed, plan, async |_, trial| {
        let begin = Instant::now();
        let mut sums = [0_u32; 3];
        // On a busy machine most orders have expired before they are stepped: it goes on until each kind has won.
        let has_raced = |sums: &[u32; 3]| sums[0] > 0 && sums[1] > 0;
        while begin.elapsed() < FAULT * 2 || !has_raced(&sums) && begin.elapsed() < RACES_MAX {
            let orders = some_orders(trial).await;
            let services = &trial.services;
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
        trial.fault_ended();
        let expired = trial.metric("seckill_orders_expired_total", "").await;
        let [paid, cancelled, both] = sums;
        if both > 0 {
            return Err(format!("{both} orders were both paid and cancelled"));
        }
        let proof = format!("{paid} paid, {cancelled} cancelled, {expired} expired, none twice");
        proven(paid > 0 && cancelled > 0 && expired > 0.0, proof)
    })
    .await
}

/// Cancels or pays a few orders of the workload on the first instance, which may die of it.
pub async fn stepped(trial: &mut Trial) {
    let orders = some_orders(trial).await;
    let pays = trial.random.random_range(0..3) == 0;
    let word = if pays { "payment" } else { "cancellation" };
    let service = &trial.services[0];
    join_all(orders.iter().map(|(id, token)| step(service, id, token, word))).await;
}

/// Ids of orders of the workload, with their owners' tokens; asked of the second instance.
async fn some_orders(trial: &mut Trial) -> Vec<(String, String)> {
    let items: Vec<_> = trial.workload.items.iter().filter(|item| !item.control).cloned().collect();
    let mut asked = Vec::new();
    for number in 0..AT_ONCE {
        let item = &items[number % items.len()];
        let sold = usize::try_from(item.sold()).unwrap_or(1).clamp(1, item.tokens.len());
        let token = item.tokens[trial.random.random_range(0..sold)].1.clone();
        asked.push(token);
    }
    let service = &trial.services[1];
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
    service.ask("POST", &path, token, "{}").await.0
}

/// Queues orders on the first instance whose units were sold behind the queue's back, so that the
/// ledger refuses them; it may die of it.
pub async fn rejected(testbed: &Testbed, trial: &mut Trial) -> Run<()> {
    let item = make_item(testbed, &trial.services[1], &json!({ "stock": BEHIND })).await?;
    let first = STRANGERS + trial.random.random_range(0..1_000_000);
    let buy = async |service: &Service, strategy: &str, buyer: i64| {
        let path = format!("/api/seckill/{strategy}/{item}");
        let token = testbed.token(buyer, Role::Buyer);
        service.ask("POST", &path, &token, "").await.0
    };
    // The counter is loaded, then the rest is sold without it.
    buy(&trial.services[1], "redis-stream", first).await;
    let behind = (1..BEHIND).map(|number| buy(&trial.services[1], "mysql-batch", first + number));
    join_all(behind).await;
    let queued =
        (0..BEHIND).map(|number| buy(&trial.services[0], "redis-stream", first + BEHIND + number));
    join_all(queued).await;
    sleep(Duration::from_millis(100)).await;
    Ok(())
}

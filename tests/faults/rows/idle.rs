//! Items that are sold for a moment and then idle, until the ledger closes the connections of their
//! sale.

use std::time::Duration;

use futures::future::join_all;
use hyper::body::Bytes;
use serde_json::json;
use sqlx::Executor;
use tokio::time::sleep;
use web::token::Role;

use super::proven;
use crate::testbed::Testbed;
use crate::trial::{Plan, Trial, Wanted, make_item, run_trial};
use crate::{Run, Said, TrialResult};

/// Items that are sold once each, as many as batches have connections, and one more.
const ITEMS: usize = 9;
/// Buyers who come to each item when it has idled.
const BUYERS: i64 = 8;
/// The first buyer of these items.
const FIRST_BUYER: i64 = 60_000_000;
/// Seconds without a statement after which a session is closed here.
const IDLE_SECONDS: u64 = 2;
/// How long the items idle: none of their connections is younger then, in whole seconds.
const IDLE: Duration = Duration::from_secs(IDLE_SECONDS + 2);
/// Units of the item that sells all the time, enough for the pause.
const STOCK: i64 = 1_500;

/// `lock-redis` idles until the ledger has closed its sessions, as it does after `wait_timeout`; then
/// many buyers come at once.
pub async fn lock_redis(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut plan = Plan::new(seed, Wanted::These(&["mysql-atomic"]), &testbed.setup());
    plan.stock = STOCK;
    run_trial(testbed, plan, async |testbed, trial| {
        let mut items = Vec::new();
        for _ in 0..ITEMS {
            items.push(make_item(testbed, &trial.services[0], false, &json!({})).await?);
        }
        for item in &items {
            let status = buy(testbed, trial, *item, 0).await;
            if status != 201 {
                return Err(format!("the first sale of an item was answered {status}"));
            }
        }
        sleep(IDLE).await;
        let closed = close_idle_sessions(testbed).await?;
        trial.injections += 1;
        trial.fault_ended();
        let (testbed, trial) = (&*testbed, &*trial);
        let buyers = items.iter().flat_map(|item| (1..=BUYERS).map(move |id| (*item, id)));
        let statuses = join_all(buyers.map(|(item, id)| buy(testbed, trial, item, id))).await;
        let refused = statuses.iter().filter(|status| **status != 201).count();
        let is_blamed = trial.metric("seckill_breaker_open", "mysql").await > 0.0;
        if refused > 0 || is_blamed {
            let all = statuses.len();
            return Err(format!("{refused} of {all} were not sold; breaker open: {is_blamed}"));
        }
        proven(closed > 0, format!("{closed} idle sessions closed; {} sold then", statuses.len()))
    })
    .await
}

/// Closes the services' sessions that have idled; returns their number.
async fn close_idle_sessions(testbed: &Testbed) -> Run<usize> {
    let mut operator = testbed.operator().await?;
    let idle = "SELECT CAST(ID AS UNSIGNED) FROM information_schema.PROCESSLIST \
         WHERE DB = DATABASE() AND COMMAND = 'Sleep' AND TIME >= ? AND ID <> CONNECTION_ID()";
    let idle = sqlx::query_scalar(idle).bind(IDLE_SECONDS).fetch_all(&mut operator).await;
    let idle: Vec<u64> = idle.said()?;
    for id in &idle {
        // It may have ended by itself.
        let _ = operator.execute(sqlx::raw_sql(&format!("KILL {id}"))).await;
    }
    Ok(idle.len())
}

/// A buyer's purchase; 0 when there was no answer.
async fn buy(testbed: &Testbed, trial: &Trial, item: i64, buyer: i64) -> u16 {
    // One buyer has one lock, so each buys one item.
    let token = testbed.token(FIRST_BUYER + item * 100 + buyer, Role::Buyer);
    let path = format!("/api/seckill/lock-redis/{item}");
    let reply = trial.services[0].ask("POST", &path, Some(&token), Bytes::new()).await;
    reply.map_or(0, |reply| reply.status)
}

//! A ledger that is one of several: away, while the others sell.

use std::time::{Duration, Instant};

use dev_servers::MysqlOptions;
use hyper::body::Bytes;
use seckill::account::Role;
use serde_json::json;
use sqlx::Executor;
use tokio::time::sleep;

use super::redis::process_state;
use super::{FAULT, proven};
use crate::testbed::Testbed;
use crate::trial::{Plan, Trial, Wanted, make_item, run_trial};
use crate::{Run, TrialResult};

/// The first buyer of the item that sells meanwhile.
const FIRST_BUYER: i64 = 50_000_000;

/// The items of the trial live in a second ledger, which is frozen (even seeds) or killed.
pub async fn away(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut ledger = testbed.ledger(MysqlOptions::temporary()).await?;
    let url = ledger.url_of(Testbed::DATABASE);
    // The ids of a new ledger's items come from the home ledger, so no counter in Redis is an older one's.
    let setup = testbed.setup().with("SECKILL_SHARDS_URLS", format!("1={url}"));
    testbed.ledger_elsewhere = Some(url);
    let plan = Plan { item: json!({ "shard": 1 }), ..Plan::new(seed, Wanted::Safe, &setup) };
    let server = &mut ledger;
    let outcome = run_trial(testbed, plan, async |testbed, trial| {
        let beside = make_item(testbed, &trial.services[0], false, &json!({ "shard": 0 })).await?;
        let mut buyer = FIRST_BUYER;
        buy(testbed, trial, beside, &mut buyer).await?;
        trial.injections += 1;
        let begin = Instant::now();
        let pid = server.pid();
        let was_away = if seed.is_multiple_of(2) {
            server.pause()
        } else {
            server.kill().await;
            true
        };
        let mut slowest = Duration::ZERO;
        let mut sold = 0;
        while begin.elapsed() < FAULT {
            let asked = Instant::now();
            buy(testbed, trial, beside, &mut buyer).await?;
            slowest = slowest.max(asked.elapsed());
            sold += 1;
            sleep(Duration::from_millis(20)).await;
        }
        let state = process_state(pid);
        trial.fault_ended();
        match seed % 2 {
            0 => _ = server.resume(),
            _ => server.restart().await.map_err(|error| error.to_string())?,
        }
        proven(
            was_away && matches!(state, 'T' | '?') && sold > 0,
            format!(
                "state {state}; meanwhile {sold} sold in the home ledger, the slowest in {} ms",
                slowest.as_millis()
            ),
        )
    })
    .await;
    ledger.stop().await;
    // The services of other trials have one ledger, and no item may live elsewhere.
    let mut operator = testbed.operator().await?;
    let forgotten = operator.execute("DELETE FROM item_homes WHERE shard > 0").await;
    forgotten.map_err(|error| error.to_string())?;
    outcome
}

/// Buys a unit in the home ledger, which has to succeed.
async fn buy(testbed: &Testbed, trial: &Trial, item: i64, buyer: &mut i64) -> Run<()> {
    *buyer += 1;
    let token = testbed.token(*buyer, Role::Buyer);
    let path = format!("/api/seckill/mysql-batch/{item}");
    let reply = trial.services[0].ask("POST", &path, Some(&token), Bytes::new()).await?;
    match reply.status {
        201 => Ok(()),
        status => Err(format!("an item of the home ledger was not sold: {status}")),
    }
}

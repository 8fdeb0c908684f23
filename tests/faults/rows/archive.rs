//! Orders of an ended sale that leave for the archive while other items sell, with the archiver killed again and again.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use futures::future::join_all;
use hyper::body::Bytes;
use ledger_audit::{Answer, Evidence, Ledger, Outcome, Reader, judge};
use rand::RngExt;
use seckill::account::Role;
use seckill::failpoint::ARCHIVE_POINTS;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::moves::program;
use super::proven;
use crate::service::Service;
use crate::testbed::Testbed;
use crate::trial::{Plan, Trial, Wanted, make_item, run_trial};
use crate::{Run, TrialResult};

/// Orders of the ended sale.
const ORDERS: i64 = 120;
/// A buyer whose orders are not the workload's.
const FIRST_BUYER: i64 = 8_000_000;
/// How long one archiver may take.
const COMMAND_MAX: Duration = Duration::from_secs(60);
/// Archivers that are killed at any moment, after those at each point.
const KILLS: u32 = 12;

/// Archives an ended sale, with the archiver killed at each point and at random moments.
pub async fn killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let setup = testbed.setup();
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        let item = ended_sale(testbed, trial).await?;
        let dir = testbed.folder().join(format!("archive-{seed}"));
        let setup = setup
            .with("SECKILL_RETENTION_AFTER_DAYS", "30")
            .with("SECKILL_RETENTION_DIR", dir.to_string_lossy())
            .with("SECKILL_RETENTION_CHUNK_ORDERS_MAX", "7")
            .with("SECKILL_RETENTION_PAUSE_MS", "20");
        let id = item.to_string();
        let arguments = ["archive", "--item", &id];
        let (sold_before, mut audits) = (trial.sold(), 0);
        for turn in 0..ARCHIVE_POINTS.len() + KILLS as usize {
            let point = ARCHIVE_POINTS.get(turn).copied();
            let mut archiver = program(&setup, &arguments, point);
            if point.is_some() {
                let ended = timeout(COMMAND_MAX, archiver.status()).await;
                let ended = ended.map_err(|_| "the archiver hangs".to_owned())?;
                let ended = ended.map_err(|error| error.to_string())?;
                if ended.signal().is_none() {
                    return Err(format!("{point:?} was not reached: {ended}"));
                }
            } else {
                let mut child = archiver.spawn().map_err(|error| error.to_string())?;
                let after = Duration::from_millis(trial.random.random_range(20..250));
                tokio::time::sleep(after).await;
                child.kill().await.map_err(|error| error.to_string())?;
            }
            trial.injections += 1;
            assert_clean(testbed, trial, item).await.map_err(|why| format!("turn {turn}: {why}"))?;
            audits += 1;
        }
        trial.fault_ended();
        let left = orders_of(testbed, item).await?;
        let last = timeout(COMMAND_MAX, program(&setup, &arguments, None).output()).await;
        let last = last.map_err(|_| "the archiver hangs".to_owned())?;
        let last = last.map_err(|error| error.to_string())?;
        if !last.status.success() {
            return Err(String::from_utf8_lossy(&last.stderr).into_owned());
        }
        assert_clean(testbed, trial, item).await?;
        let rest = orders_of(testbed, item).await?;
        let sold = trial.sold() - sold_before;
        let proof = format!(
            "{} archivers killed, {audits} audits clean between them; {left} of {ORDERS} orders were left for the last one, {rest} after it; {sold} units of other items sold meanwhile",
            trial.injections
        );
        proven(rest == 0 && sold > 0, proof)
    })
    .await
}

/// Sells an item, pays some of the orders, cancels the others, and lets its sale be over for long.
async fn ended_sale(testbed: &Testbed, trial: &mut Trial) -> Run<i64> {
    let service: &Service = &trial.services[1];
    let item = make_item(testbed, service, false, &json!({ "stock": ORDERS })).await?;
    let sell = (0..ORDERS).map(|number| async move {
        let token = testbed.token(FIRST_BUYER + number, Role::Buyer);
        let path = format!("/api/seckill/mysql-batch/{item}");
        let bought = service.ask("POST", &path, Some(&token), Bytes::new()).await?;
        let order: Value = serde_json::from_slice(&bought.body).unwrap_or_default();
        let order = order["id"].as_str().ok_or_else(|| format!("not sold: {}", bought.status))?;
        let word = if number % 3 == 0 { "cancellation" } else { "payment" };
        let path = format!("/api/orders/{order}/{word}");
        let step = service.ask("POST", &path, Some(&token), Bytes::from_static(b"{}")).await?;
        if step.status == 200 { Ok(()) } else { Err(format!("{word}: {}", step.status)) }
    });
    join_all(sell).await.into_iter().collect::<Run<Vec<()>>>()?;
    let mut operator = testbed.operator().await?;
    let ended = "UPDATE items SET starts_at = UTC_TIMESTAMP(6) - INTERVAL 50 DAY, \
         ends_at = UTC_TIMESTAMP(6) - INTERVAL 40 DAY WHERE id = ?";
    let ended = sqlx::query(ended).bind(item).execute(&mut operator).await;
    ended.map_err(|error| error.to_string())?;
    Ok(item)
}

async fn orders_of(testbed: &Testbed, item: i64) -> Run<i64> {
    let count = sqlx::query_scalar("SELECT COUNT(*) FROM orders WHERE item_id = ?").bind(item);
    count.fetch_one(&mut testbed.operator().await?).await.map_err(|error| error.to_string())
}

/// Both audits, at once: the service's own, and the outside one by the ledger alone.
async fn assert_clean(testbed: &Testbed, trial: &Trial, item: i64) -> Run<()> {
    let token = testbed.token(1, Role::Admin);
    let path = format!("/api/admin/items/{item}/audit");
    let reply = trial.services[0].get(&path, Some(&token)).await?;
    let audit: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    if audit["clean"] != true {
        return Err(format!("the service's audit: {} {audit}", reply.status));
    }
    let mut reader = Reader::connect(&testbed.ledger_url()).await.map_err(|error| error.0)?;
    let after = reader.ledger(item).await.map_err(|error| error.0)?;
    let refused = Answer {
        status: 409,
        code: "sale_ended".to_owned(),
        outcome: Outcome::Refused,
        last: true,
        ..Answer::default()
    };
    let evidence = Evidence {
        stock: ORDERS,
        per_buyer_limit: 1,
        quantity: 1,
        arbiter_on: true,
        keyed: false,
        before: &Ledger::default(),
        after: &after,
        answers: &[refused],
        in_time: None,
    };
    let mut broken = judge(&evidence).map_err(|error| error.0)?.broken();
    // The purchases of this item are in no record.
    broken.retain(|invariant| ["I1", "I2", "I3", "I4", "I5", "I6"].contains(invariant));
    if broken.is_empty() { Ok(()) } else { Err(format!("the outside audit: {broken:?}")) }
}

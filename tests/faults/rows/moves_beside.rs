//! What goes on beside a move: an order that is queued, an item that joins the group, and a ledger that is
//! restored from a copy of before the move.

use std::path::Path;
use std::process::Command as Blocking;
use std::time::{Duration, Instant};

use dev_servers::{MysqlOptions, MysqlServer};
use hyper::body::Bytes;
use seckill::account::Role;
use serde_json::{Value, json};
use sqlx::{Connection, MySqlConnection};
use tokio::time::sleep;

use super::moves::{SECOND, kill_at, program, run};
use super::proven;
use crate::service::Setup;
use crate::testbed::Testbed;
use crate::trial::{Plan, Trial, Wanted, make_item, run_trial};
use crate::{Run, TrialResult};

/// Items that are moved in one trial.
const ITEMS: usize = 3;
/// The first buyer of these items.
const FIRST_BUYER: i64 = 60_000_000;
/// How long a queued order may take to be decided.
const DECIDED_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The first queued order of an item comes while the item is closed for its move.
pub async fn queued(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let ledger = testbed.ledger(MysqlOptions::temporary()).await?;
    let second = ledger.url_of(SECOND);
    Testbed::migrate(&second).await?;
    let (setup, plan) = plan(testbed, (&ledger, &second), seed, "queued");
    let outcome = run_trial(testbed, plan, async |testbed, trial| {
        let (mut refused, mut decided) = (0, 0);
        for buyer in (FIRST_BUYER..).take(ITEMS) {
            let more = json!({ "shard": 0, "stock": 9 });
            let item = make_item(testbed, &trial.services[0], false, &more).await?;
            // Its counter is loaded, and no ledger lists its queue.
            buy(testbed, trial, ("redis-lua", item), buyer + 1_000).await?;
            kill_at(&setup, trial, item, "1", "move-verified").await?;
            let early = buy(testbed, trial, ("redis-stream", item), buyer).await?;
            run(&setup, item, "1").await?;
            let order = match early {
                (202, order) => order,
                (503, _) => {
                    refused += 1;
                    until_queued(testbed, trial, item, buyer).await?
                }
                (status, said) => return Err(format!("{status} while the item is closed: {said}")),
            };
            let order = order["id"].as_str().unwrap_or_default().to_owned();
            until_decided(testbed, trial, &order, buyer).await?;
            decided += 1;
        }
        trial.fault_ended();
        let proof = format!(
            "{refused} refused while the item was closed; {decided} orders queued, all decided"
        );
        proven(decided == ITEMS, proof)
    })
    .await;
    testbed.ledger_elsewhere = None;
    ledger.stop().await;
    outcome
}

/// Items join a group while its first item moves.
pub async fn joined(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let ledger = testbed.ledger(MysqlOptions::temporary()).await?;
    let second = ledger.url_of(SECOND);
    Testbed::migrate(&second).await?;
    let (setup, plan) = plan(testbed, (&ledger, &second), seed, "joined");
    let outcome = run_trial(testbed, plan, async |testbed, trial| {
        let (mut joined, mut moved) = (0, 0);
        for buyer in (FIRST_BUYER..).take(ITEMS) {
            let group = make_group(testbed, trial).await?;
            let more = json!({ "shard": 0, "stock": 9, "limit_group_id": group });
            let mut items = vec![make_item(testbed, &trial.services[0], false, &more).await?];
            let id = items[0].to_string();
            let arguments = ["shard", "move", &id, "1", "--pause-ms-max", "5000"];
            let mut mover = program(&setup, &arguments, None).spawn().map_err(|e| e.to_string())?;
            trial.injections += 1;
            until_closed(testbed, items[0]).await?;
            let more = json!({ "stock": 9, "limit_group_id": group });
            while mover.try_wait().map_err(|error| error.to_string())?.is_none() {
                items.push(make_item(testbed, &trial.services[0], false, &more).await?);
                sleep(LOOK_EVERY).await;
            }
            let ended = mover.wait().await.map_err(|error| error.to_string())?;
            moved += usize::from(ended.success());
            joined += items.len() - 1;
            let mut sold = 0;
            for item in items {
                match buy(testbed, trial, ("mysql-atomic", item), buyer).await? {
                    (201, _) => sold += 1,
                    (409, said) if said["code"] == "group_limit_reached" => {}
                    (status, said) => return Err(format!("item {item}: {status} {said}")),
                }
            }
            if sold != 1 {
                return Err(format!("a buyer got {sold} units of a group with a limit of 1"));
            }
        }
        trial.fault_ended();
        proven(
            joined > 0 && moved > 0,
            format!("{joined} items joined, {moved} of {ITEMS} first items moved; each limit held"),
        )
    })
    .await;
    testbed.ledger_elsewhere = None;
    ledger.stop().await;
    outcome
}

/// A ledger is put back to a copy from before an item moved there.
pub async fn restored(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let ledger = testbed.ledger(MysqlOptions::temporary()).await?;
    let folder =
        std::env::temp_dir().join(format!("seckill-restored-{}-{seed}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut other = testbed.ledger(MysqlOptions::new(&folder)).await?;
    let second = other.tcp_url_of(Testbed::DATABASE);
    let (setup, plan) = plan(testbed, (&ledger, &second), seed, "restored");
    let server = &mut other;
    let outcome = run_trial(testbed, plan, async |testbed, trial| {
        let more = json!({ "shard": 0, "stock": 9, "per_buyer_limit": 9 });
        let item = make_item(testbed, &trial.services[0], false, &more).await?;
        let (status, order) = buy(testbed, trial, ("mysql-atomic", item), FIRST_BUYER).await?;
        let order = order["id"].as_str().filter(|_| status == 201).ok_or("not sold")?.to_owned();
        let (data, copy) = (folder.join("data"), folder.join("copy"));
        server.stop().await;
        shell("cp", &["-a"], (&data, &copy))?;
        server.restart().await.map_err(|error| error.to_string())?;
        run(&setup, item, "1").await?;
        trial.injections += 1;
        server.kill().await;
        std::fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
        shell("mv", &[], (&copy, &data))?;
        server.restart().await.map_err(|error| error.to_string())?;
        let audit = said(&setup, &["audit"]).await?;
        if !audit.contains("I15 BROKEN") {
            return Err(format!("the audit is silent about the lost item: {audit}"));
        }
        let recovered = said(&setup, &["shard", "recover", &item.to_string()]).await?;
        trial.fault_ended();
        if !recovered.contains("lives in shard 0 now") {
            return Err(recovered);
        }
        until_decided(testbed, trial, &order, FIRST_BUYER).await?;
        let audit = said(&setup, &["audit", "--item", &item.to_string()]).await?;
        proven(
            !audit.contains("BROKEN"),
            "the audit named the item, and it came back with its order".to_owned(),
        )
    })
    .await;
    testbed.ledger_elsewhere = None;
    ledger.stop().await;
    other.stop().await;
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

/// Sells in the home ledger of one's own, which `second` belongs to.
pub(super) fn plan(
    testbed: &mut Testbed,
    (ledger, second): (&MysqlServer, &str),
    seed: u64,
    name: &str,
) -> (Setup, Plan) {
    testbed.ledger_elsewhere = Some(ledger.url_of(Testbed::DATABASE));
    let setup = testbed
        .setup()
        .with("SECKILL_SHARDS_URLS", format!("1={second}"))
        .with("SECKILL_JOB_MOVE_PERIOD_MS", "3600000")
        // The ids of items begin anew.
        .with("SECKILL_REDIS_PREFIX", format!("{name}-{seed}:"));
    let mut plan = Plan::new(seed, Wanted::Safe, &setup);
    plan.control = false;
    plan.item = json!({ "shard": 0 });
    (setup, plan)
}

/// Buys a unit; returns the status and the body of the answer.
async fn buy(
    testbed: &Testbed,
    trial: &Trial,
    (strategy, item): (&str, i64),
    buyer: i64,
) -> Run<(u16, Value)> {
    let token = testbed.token(buyer, Role::Buyer);
    let path = format!("/api/seckill/{strategy}/{item}");
    let reply = trial.services[0].ask("POST", &path, Some(&token), Bytes::new()).await?;
    Ok((reply.status, serde_json::from_slice(&reply.body).unwrap_or_default()))
}

async fn until_queued(testbed: &Testbed, trial: &Trial, item: i64, buyer: i64) -> Run<Value> {
    let begin = Instant::now();
    loop {
        match buy(testbed, trial, ("redis-stream", item), buyer).await? {
            (202, order) => return Ok(order),
            (status, said) if begin.elapsed() > DECIDED_MAX => {
                return Err(format!("not queued after the move: {status} {said}"));
            }
            _ => sleep(LOOK_EVERY).await,
        }
    }
}

/// Waits until an order is pending.
async fn until_decided(testbed: &Testbed, trial: &Trial, order: &str, buyer: i64) -> Run<()> {
    let (begin, token) = (Instant::now(), testbed.token(buyer, Role::Buyer));
    let path = format!("/api/orders/{order}");
    loop {
        let reply = trial.services[0].ask("GET", &path, Some(&token), Bytes::new()).await?;
        let found: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if found["status"] == "pending" {
            return Ok(());
        }
        if begin.elapsed() > DECIDED_MAX {
            return Err(format!("order {order} is lost: {} {found}", reply.status));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Waits until an item is closed for its move, or its move is over.
async fn until_closed(testbed: &Testbed, item: i64) -> Run<()> {
    let said = |error: sqlx::Error| error.to_string();
    let mut home = MySqlConnection::connect(&testbed.ledger_url()).await.map_err(said)?;
    let begin = Instant::now();
    while begin.elapsed() < DECIDED_MAX {
        let state = sqlx::query_scalar("SELECT state FROM item_moves WHERE item_id = ?");
        let state: Option<String> =
            state.bind(item).fetch_optional(&mut home).await.map_err(said)?;
        if state.is_some_and(|state| state != "copying") {
            return Ok(());
        }
        sleep(Duration::from_millis(1)).await;
    }
    Err(format!("item {item} is not moved"))
}

async fn make_group(testbed: &Testbed, trial: &Trial) -> Run<i64> {
    let token = testbed.token(1, Role::Admin);
    let body = Bytes::from(json!({ "name": "one of these", "per_buyer_limit": 1 }).to_string());
    let path = "/api/admin/limit-groups";
    let reply = trial.services[0].ask("POST", path, Some(&token), body).await?;
    let made: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    made["id"].as_i64().ok_or_else(|| format!("no group was made: {} {made}", reply.status))
}

/// What a command says, however it ends.
pub(super) async fn said(setup: &Setup, arguments: &[&str]) -> Run<String> {
    let output = program(setup, arguments, None).output().await;
    let output = output.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned())
}

fn shell(program: &str, flags: &[&str], (from, to): (&Path, &Path)) -> Run<()> {
    let ended = Blocking::new(program).args(flags).arg(from).arg(to).status();
    match ended.map_err(|error| error.to_string())?.success() {
        true => Ok(()),
        false => Err(format!("{program} {} failed", from.display())),
    }
}

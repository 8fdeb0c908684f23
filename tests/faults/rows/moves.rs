//! Items that move to another ledger and back while two instances sell them, with the mover killed at its
//! steps.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use dev_servers::MysqlOptions;
use ledger_audit::{State, homes_of, judge_homes};
use rand::RngExt;
use seckill::failpoint::MOVE_POINTS;
use tokio::process::Command;
use tokio::time::timeout;

use super::proven;
use crate::service::Setup;
use crate::testbed::Testbed;
use crate::trial::{Plan, Trial, Wanted, run_trial};
use crate::{Run, TrialResult};

/// The database of the second ledger, on the server of the first.
pub(super) const SECOND: &str = "seckill_faults_second";
/// The signal of an abort.
const ABORTED: i32 = 6;
/// The longest pause that is allowed to a move: machines are shared.
const PAUSE_MS_MAX: &str = "5000";
/// How long one command may take.
pub(super) const COMMAND_MAX: Duration = Duration::from_secs(60);
/// Points of moves that are given up, which these moves are not.
const GIVEN_UP: usize = 2;

/// Moves each item there and back, with one kill of the mover on each way.
pub async fn moved(testbed: &mut Testbed, seed: u64) -> TrialResult {
    // Ledgers of its own: a service with the home ledger alone does not start where items have moved.
    let ledger = testbed.ledger(MysqlOptions::temporary()).await?;
    let second = ledger.url_of(SECOND);
    Testbed::migrate(&second).await?;
    testbed.ledger_elsewhere = Some(ledger.url_of(Testbed::DATABASE));
    let setup = testbed
        .setup()
        .with("SECKILL_SHARDS_URLS", format!("1={second}"))
        // The row ends the moves itself.
        .with("SECKILL_JOB_MOVE_PERIOD_MS", "3600000")
        // The ids of items begin anew.
        .with("SECKILL_REDIS_PREFIX", format!("moves-{seed}:"));
    let mut plan = Plan::new(seed, Wanted::Safe, &setup);
    // Outside of the arbiter a gate is not told that the item has moved.
    plan.control = false;
    plan.stock *= 2;
    // New items are placed where the fewest are: these begin in the home ledger.
    plan.item = serde_json::json!({ "shard": 0 });
    let outcome = run_trial(testbed, plan, async |testbed, trial| {
        let mut longest = 0;
        let (mut moves, mut given_up) = (0, 0);
        for (index, item) in trial.item_ids().into_iter().enumerate() {
            for target in ["1", "0"] {
                let turn = usize::try_from(seed).unwrap_or_default() + index * 2 + usize::from(target == "0");
                let point = MOVE_POINTS[turn % (MOVE_POINTS.len() - GIVEN_UP)];
                kill_at(&setup, trial, item, target, point).await?;
                let said = run(&setup, item, target).await?;
                given_up += usize::from(said.contains("given up before"));
                moves += 1;
            }
        }
        trial.fault_ended();
        let urls = [testbed.ledger_url(), second.clone()];
        let homes = judge_homes(&homes_of(&urls).await.map_err(|error| error.0)?);
        if homes.state != State::Holds {
            return Err(format!("I15: {}", homes.examples.join("; ")));
        }
        let said = program(&setup, &["shard", "moves"], None).output().await;
        let said = said.map_err(|error| error.to_string())?;
        for line in String::from_utf8_lossy(&said.stdout).lines() {
            let pause = line.rsplit_once("paused for ").and_then(|(_, text)| text.strip_suffix(" ms"));
            longest = longest.max(pause.and_then(|text| text.parse().ok()).unwrap_or(0_u64));
        }
        let proof = format!(
            "{moves} moves, each killed once; {given_up} tried again; the longest pause {longest} ms, kills and restarts of the mover within it"
        );
        proven(moves > 0, proof)
    })
    .await;
    testbed.ledger_elsewhere = None;
    ledger.stop().await;
    outcome
}

/// Starts a move that dies at `point`.
pub(super) async fn kill_at(
    setup: &Setup,
    trial: &mut Trial,
    item: i64,
    target: &str,
    point: &str,
) -> Run<()> {
    // Not always at the first chunk.
    let time = if point == "move-part-removed" { trial.random.random_range(1..4) } else { 1 };
    let item = item.to_string();
    let arguments = ["shard", "move", &item, target, "--pause-ms-max", PAUSE_MS_MAX];
    let ended = program(setup, &arguments, Some(&format!("{point}:{time}"))).status();
    let ended = timeout(COMMAND_MAX, ended).await.map_err(|_| "the mover hangs".to_owned())?;
    let ended = ended.map_err(|error| error.to_string())?;
    trial.injections += 1;
    match ended.signal() {
        Some(ABORTED) => Ok(()),
        _ => Err(format!("{point} was not reached: {ended}")),
    }
}

/// Runs a move to its end; answers its output.
pub(super) async fn run(setup: &Setup, item: i64, target: &str) -> Run<String> {
    let item = item.to_string();
    let arguments = ["shard", "move", &item, target, "--pause-ms-max", PAUSE_MS_MAX];
    let ended = timeout(COMMAND_MAX, program(setup, &arguments, None).output()).await;
    let ended = ended.map_err(|_| "the mover hangs".to_owned())?;
    let ended = ended.map_err(|error| error.to_string())?;
    let said = [&ended.stdout[..], &ended.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if ended.status.success() { Ok(said) } else { Err(format!("item {item} to {target}: {said}")) }
}

/// The program with the crash points, with the settings of the services.
pub(super) fn program(setup: &Setup, arguments: &[&str], failpoint: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seckill"));
    command
        .args(arguments)
        .env_clear()
        .envs(setup.variables.iter().map(|(name, value)| (name, value)))
        .envs(failpoint.map(|point| ("FAILPOINT", point)))
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command
}

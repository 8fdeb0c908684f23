//! A draw whose instances are killed at each step and at random moments, while other items sell.

use std::process::Stdio;

use ledger_audit::{Reader, judge_draw};
use seckill::failpoint::DRAW_POINTS;
use sqlx::QueryBuilder;
use time::format_description::well_known::Rfc3339;

use super::power::{Power, Total};
use crate::prelude::*;

const ENTRIES: usize = 6_000;
const STOCK: i64 = 2_300;
/// The shop's secret key.
const SIGNING_KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";
/// A buyer who is not the workload's.
const FIRST_BUYER: usize = 7_000_000;
/// How long an instance may need to its point, and the last one to the end of the draw.
const REACHED_MAX: Duration = Duration::from_secs(120);
/// Instances that are killed at any moment, after those at each step.
const KILLS: usize = 3;

/// Kills the instance that draws at the close, between list and places, and while units are offered.
pub async fn killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let setup = testbed.setup();
    drawn(testbed, seed, setup, None).await
}

/// Like [`killed`]; the power of the database is cut each time, if it is on such a disk.
pub(super) async fn drawn(
    testbed: &mut Testbed,
    seed: u64,
    setup: Setup,
    power: Option<&Power>,
) -> TrialResult {
    let setup = setup.with("SECKILL_DRAW_BEACON", "local");
    let setup = setup.with("SECKILL_DRAW_SIGNING_KEY", SIGNING_KEY);
    // The list has to be there before its round, also when instances and the database come back slowly.
    let setup = setup.with("SECKILL_DRAW_ROUND_AFTER_SECONDS", "30");
    let mut plan = Plan::new(seed, Wanted::Safe, &setup);
    for setup in &mut plan.setups {
        // They sell; the instances beside them draw.
        *setup = setup.clone().with("SECKILL_DRAW_POLL_MS", "60000");
    }
    run_trial(testbed, plan, async |testbed, trial| {
        let item = drawn_item(testbed, trial).await?;
        let setup = setup.with("SECKILL_DRAW_POLL_MS", "20");
        let (sold_before, mut idle_max) = (trial.sold(), 0);
        let mut total = Total::default();
        let further = (2..=4).map(|time| format!("draw-part-placed:{time}"));
        let points = DRAW_POINTS.iter().map(|point| (*point).to_owned()).chain(further);
        for point in points.map(Some).chain((0..KILLS).map(|_| None)) {
            let mut doomed = serve(&setup, point.as_deref())?;
            match &point {
                Some(point) => {
                    let ended = timeout(REACHED_MAX, doomed.wait()).await;
                    let ended = ended.map_err(|_| format!("{point} was not reached"))?.said()?;
                    if ended.signal().is_none() {
                        return Err(format!("{point} was not reached: {ended}"));
                    }
                }
                None => {
                    let after = Duration::from_millis(trial.random.random_range(300..900));
                    sleep(after).await;
                    doomed.kill().await.said()?;
                }
            }
            match power {
                Some(power) => total.add(power.cut(testbed, trial, false).await?),
                None => trial.injections += 1,
            }
            idle_max = idle_max.max(idle(testbed, item).await?);
        }
        trial.fault_ended();
        let _last = [serve(&setup, None)?, serve(&setup, None)?];
        timeout(REACHED_MAX, until_drawn(trial, item))
            .await
            .map_err(|_| "the draw does not end".to_owned())??;
        let entries = assert_right(testbed, trial, item).await?;
        let sold = trial.sold() - sold_before;
        let forgotten = if power.is_some() { total.proof()? } else { String::new() };
        let proof = format!(
            "{} kills; {entries} entries have the published places, {STOCK} units are offered, at most \
             {idle_max} idle after a kill; {sold} units of other items sold meanwhile {forgotten}",
            trial.injections
        );
        proven(entries == ENTRIES && idle_max == 0 && sold > 0, proof)
    })
    .await
}

/// An item with entries, every third with a friend, that is closed in a moment.
async fn drawn_item(testbed: &Testbed, trial: &Trial) -> Run<i64> {
    let closes_at = OffsetDateTime::now_utc() + time::Duration::seconds(4);
    let closes_at = closes_at.format(&Rfc3339).said()?;
    let draw = json!({
        "stock": STOCK, "mode": "draw", "draw_closes_at": closes_at, "draw_party_max": 2,
    });
    let item = make_item(testbed, &trial.services[0], &draw).await?;
    let ids: Vec<String> = (0..ENTRIES).map(|_| hex(&rand::random())).collect();
    let key: [u8; 16] = rand::random();
    let mut operator = testbed.operator().await?;
    let entries: Vec<usize> = (0..ENTRIES).collect();
    for part in entries.chunks(1_000) {
        let mut rows = QueryBuilder::new(
            "INSERT INTO draw_entries (item_id, user_id, entry, party, entered_at) ",
        );
        rows.push_values(part, |mut row, &entry| {
            // 0 and 1 are friends, 2 is alone, 3 and 4 are friends, and so on.
            let mut party = key;
            party[..8].copy_from_slice(&(entry as u64 / 3).to_be_bytes());
            let party = if entry % 3 == 2 { ids[entry].clone() } else { hex(&party) };
            row.push_bind(item).push_bind((FIRST_BUYER + entry) as i64);
            row.push_bind(ids[entry].clone()).push_bind(party).push("UTC_TIMESTAMP(6)");
        });
        rows.build().persistent(false).execute(&mut operator).await.said()?;
    }
    Ok(item)
}

fn hex(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An instance of the program with the crash points, which nobody asks.
fn serve(setup: &Setup, point: Option<&str>) -> Run<tokio::process::Child> {
    let mut command = setup.command(&["serve"], point);
    command.env("SECKILL_HTTP_ADDR", "127.0.0.1:0").env("SECKILL_HTTP_STATIC_DIR", "none");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().said()
}

/// Units that are available although they are enough for a buyer or for friends in the line.
async fn idle(testbed: &Testbed, item: i64) -> Run<i64> {
    let idle = sqlx::query_scalar(
        "SELECT CAST(COALESCE(MAX(available), 0) AS SIGNED) FROM stock \
         JOIN waiting_list ON waiting_list.item_id = stock.item_id \
         WHERE stock.item_id = ? AND status = 'waiting' AND available >= party_size",
    );
    idle.bind(item).fetch_one(&mut testbed.operator().await?).await.said()
}

async fn until_drawn(trial: &Trial, item: i64) -> Run<()> {
    loop {
        let reply = trial.services[1].get(&format!("/api/items/{item}/draw"), None).await?;
        let draw: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if draw["state"] == "drawn" {
            return Ok(());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// What the database executes now, the longest first: it says why an answer does not come.
async fn executed(testbed: &Testbed) -> Run<String> {
    let read = "SELECT CAST(TIME AS SIGNED), CAST(LEFT(INFO, 200) AS CHAR) \
         FROM information_schema.PROCESSLIST WHERE INFO IS NOT NULL ORDER BY TIME DESC LIMIT 5";
    let mut operator = testbed.operator().await?;
    let executed: sqlx::Result<Vec<(i64, String)>> =
        sqlx::query_as(read).fetch_all(&mut operator).await;
    executed.map(|rows| format!("{rows:?}")).said()
}

/// Checks the audit of the service, and the proof and the line by the ledger alone. Returns the number of entries.
async fn assert_right(testbed: &Testbed, trial: &Trial, item: i64) -> Run<usize> {
    let audit = match trial.services[0].audit(testbed, item).await {
        Ok(audit) => audit,
        Err(error) => {
            let executed = executed(testbed).await?;
            return Err(format!("{error}; the database executes {executed}"));
        }
    };
    if audit["clean"] != true {
        return Err(format!("the service's audit: {audit}"));
    }
    let mut reader = Reader::connect(&testbed.ledger_url()).await.map_err(|error| error.0)?;
    let after = reader.ledger(item).await.map_err(|error| error.0)?;
    let findings = judge_draw(STOCK, &after).map_err(|error| error.0)?;
    let broken: Vec<String> = findings
        .iter()
        .flat_map(|finding| {
            finding.examples.iter().map(move |example| format!("{} {example}", finding.invariant))
        })
        .collect();
    let offered = after.line.places.iter().filter(|place| place.status == "offered").count();
    if !broken.is_empty() || offered as i64 != STOCK {
        return Err(format!("the outside audit: {broken:?}, {offered} units are offered"));
    }
    Ok(after.draw.map_or(0, |draw| draw.entries.len()))
}

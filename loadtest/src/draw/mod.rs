//! One draw under load, from the first entry to the verdict: everybody who entered is in the published list, the places
//! are the published shuffle, and the ledger is right.

mod enter;

use std::collections::HashMap;
use std::time::Duration;

use hyper::header::HeaderValue;
use ledger_audit::{Finding, Reader, State, judge_draw};
use serde_json::Value;
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};
use verify::{Known, Proof};

use crate::document::{Color, Document, grouped};
use crate::drive::Instance;
use crate::environment::Environment;
use crate::failure::CannotJudge;
use crate::options::DrawOptions;
use crate::process;
use crate::program::CommandResult;
use crate::report;
use crate::service::{self, Admin, PARTY_MAX};
use crate::tokens::{Mint, seckill_program};
use enter::BuyerEntry;

/// Id of the first buyer; the others follow. It lies above all real accounts.
const FIRST_BUYER: i64 = 1_000_000_001;
/// After the close each entry must have its place within this. The round of the beacon comes in between.
const DRAWN_MAX: Duration = Duration::from_secs(300);
/// The state of a draw is read again after this.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The proof must have been read by then.
const PROOF_MAX: Duration = Duration::from_secs(120);

/// A draw and how long its steps took.
struct DrawCourse {
    entered: Duration,
    /// From the close to the list.
    listed: Duration,
    /// From the first look at the list to the last place; the value of the round comes in between.
    placed: Duration,
    /// What was published before the value was known.
    at_close: String,
    told: Vec<BuyerEntry>,
}

/// Runs one draw and judges it.
pub async fn run(options: &DrawOptions) -> CommandResult {
    let environment = &Environment::load()?;
    let instances = service::instances(&options.url, environment).await?;
    let mut reader = Reader::connect(&environment.database_url()?).await?;
    let mint = Mint::new(seckill_program(options.seckill.clone()), environment);
    let admin = Admin::new(instances.clone(), mint.admin().await?);
    let tokens = mint.buyers(FIRST_BUYER, options.entries).await?;
    let closes_at = OffsetDateTime::now_utc() + Duration::from_secs(options.enter_seconds.into());
    let item = admin.create_draw(options, closes_at).await?;
    let drawn = draw(options, &admin, &instances, item, closes_at, tokens).await?;

    let began = Instant::now();
    let path = format!("/api/items/{item}/draw/entries");
    let text = instances[0].page(&path, PROOF_MAX).await;
    let text = text.ok_or_else(|| CannotJudge::new("the proof was not answered"))?.body;
    let read = began.elapsed();
    let proof = verify::read(&*text).map_err(CannotJudge)?;
    let began = Instant::now();
    // All promises are made in the same way; one is checked with the proof.
    let kept = drawn.told.iter().find(|told| !told.withdrew);
    let promise = kept.map(|told| told.promise.as_str());
    let known = Known { announced: Some(&drawn.at_close), promise };
    let mut faults: Vec<String> =
        verify::check(&proof, known).into_iter().map(|(_, sentence)| sentence).collect();
    let verified = began.elapsed();
    faults.extend(compare(&drawn.told, &proof));

    let findings = judge_draw(options.stock, &reader.ledger(item).await?)?;
    let began = Instant::now();
    let own = admin.audit(item).await?;
    let audited = began.elapsed();
    let judged = DrawFindings {
        listed: proof.entries.len(),
        faults,
        findings,
        own_clean: own["clean"].clone(),
        read,
        verified,
        audited,
    };
    Ok(report_of(item, options, &instances, &drawn, &judged))
}

/// What was found in a draw that has ended, and how long it took.
struct DrawFindings {
    /// Entries of the published list.
    listed: usize,
    /// Faults of the proof.
    faults: Vec<String>,
    findings: Vec<Finding>,
    /// Whether the service's own audit is clean, as it says.
    own_clean: Value,
    read: Duration,
    verified: Duration,
    audited: Duration,
}

/// The report of a draw, and the exit code.
fn report_of(
    item: i64,
    options: &DrawOptions,
    instances: &[Instance],
    drawn: &DrawCourse,
    judged: &DrawFindings,
) -> (String, u8) {
    let mut report = Document::new(format!("a draw of item {item}"));
    facts(&mut report, options, instances, drawn, judged.listed);
    times(&mut report, drawn, judged);
    report.heading("Audit");
    let DrawFindings { faults, findings, own_clean, .. } = judged;
    let of_ledger = findings.iter().filter(|finding| finding.state != State::NotJudged);
    report.table(report::findings(of_ledger, |finding| finding.detail.clone()));
    report.list(faults.iter().cloned());
    let broken = findings.iter().filter(|finding| finding.state == State::Broken);
    let broken: Vec<&str> = broken.map(|finding| finding.invariant).collect();
    let clean = faults.is_empty() && *own_clean == true && broken.is_empty();
    let verdict = if clean {
        "clean: everybody who entered has one place, and the places are the published shuffle"
            .to_owned()
    } else {
        format!(
            "NOT CLEAN: {} faults of the proof, broken {broken:?}, the service's audit {own_clean}",
            faults.len()
        )
    };
    report.conclusion(verdict, clean);
    (report.text(Color::of_terminal()), u8::from(!clean))
}

/// Adds the numbers of entries to the report: all, with friends, withdrawn and listed; and the instances and the machine.
fn facts(
    report: &mut Document,
    options: &DrawOptions,
    instances: &[Instance],
    drawn: &DrawCourse,
    listed: usize,
) {
    let number = |count: usize| grouped(count as u64);
    let in_parties = drawn.told.iter().filter(|told| told.party.is_some()).count();
    let withdrew = drawn.told.iter().filter(|told| told.withdrew).count();
    report.facts([
        ("entries", format!("{}, {} connections", number(drawn.told.len()), options.concurrency)),
        (
            "friends",
            format!("{} entries with friends, at most {PARTY_MAX} together", number(in_parties)),
        ),
        ("withdrawn", number(withdrew)),
        (
            "listed",
            format!(
                "{} entries for {} units",
                number(listed),
                grouped(options.stock.unsigned_abs())
            ),
        ),
        ("instances", instances.iter().map(|one| one.url.as_str()).collect::<Vec<_>>().join(", ")),
        ("machine", format!("{} cores", process::cores())),
    ]);
}

/// Adds how long each step took.
fn times(report: &mut Document, drawn: &DrawCourse, judged: &DrawFindings) {
    report.heading("Time");
    let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
    let rate = drawn.told.len() as f64 / drawn.entered.as_secs_f64();
    report.facts([
        ("entering", format!("{}, {rate:.0} per second", seconds(drawn.entered))),
        ("from the close to the list", seconds(drawn.listed)),
        ("from the list to the last place", seconds(drawn.placed)),
        ("reading the proof", seconds(judged.read)),
        ("verifying it", seconds(judged.verified)),
        ("the service's audit", seconds(judged.audited)),
    ]);
}

/// Lets the buyers enter, and waits until each entry has its place.
async fn draw(
    options: &DrawOptions,
    admin: &Admin,
    instances: &[Instance],
    item: i64,
    closes_at: OffsetDateTime,
    tokens: Vec<HeaderValue>,
) -> Result<DrawCourse, CannotJudge> {
    let began = Instant::now();
    let told = enter::all(options.concurrency, instances, item, tokens).await?;
    let entered = began.elapsed();
    let listed = until(admin, item, closes_at, |draw| !draw["root"].is_null()).await?;
    let began = Instant::now();
    let text = |name: &str| listed[name].as_str().unwrap_or_default().to_owned();
    let at_close = text("rules") + &text("head");
    until(admin, item, closes_at, |draw| draw["state"] == "drawn").await?;
    let placed = began.elapsed();
    let listed = OffsetDateTime::parse(
        listed["listed_at"].as_str().unwrap_or_default(),
        &time::format_description::well_known::Rfc3339,
    );
    let listed = listed.map_or(0.0, |at| (at - closes_at).as_seconds_f64().max(0.0));
    let listed = Duration::from_secs_f64(listed);
    Ok(DrawCourse { entered, listed, placed, at_close, told })
}

async fn until(
    admin: &Admin,
    item: i64,
    closes_at: OffsetDateTime,
    is_there: impl Fn(&Value) -> bool,
) -> Result<Value, CannotJudge> {
    loop {
        let draw = admin.draw(item).await?;
        if is_there(&draw) {
            return Ok(draw);
        }
        if OffsetDateTime::now_utc() > closes_at + DRAWN_MAX {
            return Err(CannotJudge(format!("the draw is {} after {DRAWN_MAX:?}", draw["state"])));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Compares the published list with what the buyers were told.
fn compare(told: &[BuyerEntry], proof: &Proof) -> Vec<String> {
    let listed: HashMap<&str, &str> =
        proof.entries.iter().map(|listed| (listed.id.as_str(), listed.party.as_str())).collect();
    let stayed = || told.iter().filter(|told| !told.withdrew);
    let lost = stayed().filter(|told| !listed.contains_key(told.entry.as_str())).count();
    let separated = stayed().filter(|told| {
        let party = told.party.as_deref().unwrap_or(told.entry.as_str());
        listed.get(told.entry.as_str()).is_some_and(|listed| *listed != party)
    });
    let separated = separated.count();
    let strangers = proof.entries.len() as i64 - (stayed().count() - lost) as i64;
    [
        (lost as i64, "entries that were answered are not in the list"),
        (strangers, "entries of the list are nobody's, or were taken back"),
        (separated as i64, "entries are not with the friends that the buyers were told"),
    ]
    .into_iter()
    .filter(|(count, _)| *count != 0)
    .map(|(count, sentence)| format!("{count} {sentence}"))
    .collect()
}

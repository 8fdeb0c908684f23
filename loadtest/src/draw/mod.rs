//! One draw under load, from the first entry to the verdict: everybody who entered is in the published list, the places
//! are the published shuffle, and the ledger is right.

mod enter;

use std::collections::HashMap;
use std::time::Duration;

use ledger_audit::{Finding, Reader, State, judge_draw};
use serde_json::Value;
use time::OffsetDateTime;
use tokio::time::sleep;
use verify::{Known, Proof};

use crate::document::{Document, grouped};
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

    let told = enter::all(options.concurrency, &instances, item, tokens).await?;
    let listed = until(&admin, item, closes_at, |draw| !draw["root"].is_null()).await?;
    // The value of the round comes in between.
    until(&admin, item, closes_at, |draw| draw["state"] == "drawn").await?;

    let path = format!("/api/items/{item}/draw/entries");
    let text = instances[0].page(&path, PROOF_MAX).await;
    let text = text.ok_or_else(|| CannotJudge::new("the proof was not answered"))?.body;
    let proof = verify::read(&*text).map_err(CannotJudge)?;
    // What was published before the value was known.
    let at_close = ["rules", "head"].map(|name| listed[name].as_str().unwrap_or_default()).concat();
    // All promises are made in the same way; one is checked with the proof.
    let kept = told.iter().find(|told| !told.withdrew);
    let promise = kept.map(|told| told.promise.as_str());
    let known = Known { announced: Some(&at_close), promise };
    let mut faults: Vec<String> =
        verify::check(&proof, known).into_iter().map(|(_, sentence)| sentence).collect();
    faults.extend(compare(&told, &proof));

    let findings = judge_draw(options.stock, &reader.ledger(item).await?)?;
    let own = admin.audit(item).await?;
    let mut report = Document::new(format!("a draw of item {item}"));
    facts(&mut report, options, &instances, &told, proof.entries.len());
    let clean = audit(&mut report, &faults, &findings, &own["clean"]);
    Ok((report.for_terminal(), u8::from(!clean)))
}

/// Adds the findings and the verdict to the report; whether all is right.
fn audit(
    report: &mut Document,
    faults: &[String],
    findings: &[Finding],
    own_clean: &Value,
) -> bool {
    report.heading("Audit");
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
    clean
}

/// Adds the numbers of entries to the report: all, with friends, withdrawn and listed; and the instances and the machine.
fn facts(
    report: &mut Document,
    options: &DrawOptions,
    instances: &[Instance],
    told: &[BuyerEntry],
    listed: usize,
) {
    let number = |count: usize| grouped(count as u64);
    let in_parties = told.iter().filter(|told| told.party.is_some()).count();
    let withdrew = told.iter().filter(|told| told.withdrew).count();
    let units = grouped(options.stock.unsigned_abs());
    let in_parties = number(in_parties);
    report.facts([
        ("entries", format!("{}, {} connections", number(told.len()), options.concurrency)),
        ("friends", format!("{in_parties} entries with friends, at most {PARTY_MAX} together")),
        ("withdrawn", number(withdrew)),
        ("listed", format!("{} entries for {units} units", number(listed))),
        ("instances", instances.iter().map(|one| one.url.as_str()).collect::<Vec<_>>().join(", ")),
        ("machine", format!("{} cores", process::cores())),
    ]);
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

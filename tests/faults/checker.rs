//! Checks a trial: the ledger against the record of answers, and the service's own audit.

pub mod planted;

use std::collections::HashMap;

use ledger_audit::{
    Answer, EXAMPLES_MAX, Evidence, History, InTime, Ledger, Outcome, Reader, judge as audit_item,
    purchases,
};

use crate::events::CheckedEvents;
use crate::prelude::*;
use crate::workload::Record;

/// How long queued orders may take until they are decided, and counters until they are right.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// How old "sold out" may be: twice the default of `purchase.sold_out_ms`.
const SOLD_OUT_AGE: Duration = Duration::from_millis(500);

/// An answer that Redis gave before a power cut is read by its client within this.
const UNDER_WAY: Duration = Duration::from_millis(500);

/// The outcome of one trial.
#[derive(Debug, Default)]
pub struct TrialOutcome {
    /// How often the fault was injected.
    pub injections: u32,
    /// Requests of purchases that were sent.
    pub attempts: u64,
    /// The proof that the fault took effect.
    pub proof: String,
    /// Units sold beyond the stock, over the safe strategies.
    pub oversold: i64,
    /// Orders beyond one per key, and orders that two purchases were given.
    pub duplicated: i64,
    /// Accepted purchases whose order is not in the ledger.
    pub lost: i64,
    /// Purchases without a definite answer at the end.
    pub unresolved: i64,
    /// Purchases whose answer was unknown once and that a retry with their key has answered.
    pub resolved: i64,
    /// Orders that were answered 202 and lost, where that answer promised no more.
    pub queued_lost: i64,
    /// Accepted orders that were lost with a writer whose replica was behind; the old writer names them.
    pub lost_with_writer: i64,
    /// How long each strategy took to sell again after the fault was over.
    pub recovery: Vec<(String, Duration)>,
    /// Known-bad strategies that the audit caught, and how many there were.
    pub controls: (u32, u32),
    /// What was judged in the order of time.
    pub in_time: JudgedInTime,
    /// What its service processes have said of their batches.
    pub events: CheckedEvents,
    /// What else was broken, in words; empty when all is well.
    pub broken: Vec<String>,
}

/// What a trial's servers do not promise, so that it is no violation.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Orders that were answered 202 may be lost: the queue's Redis promises no more.
    pub queue_may_be_lost: bool,
    /// Of these, only those that were answered shortly before a power cut.
    pub queue_cuts: Option<QueueCut>,
    /// Ids of the orders that only a writer had whose replica was behind. If there are any, what was seen before
    /// the promotion may be gone after it, so nothing is judged in the order of time (I16 to I19).
    pub lost_with_writer: HashSet<String>,
}

/// When the power of the queue's Redis was cut.
#[derive(Clone, Debug)]
pub struct QueueCut {
    /// How much earlier an order may have been answered that is lost.
    within: Duration,
    /// Microseconds from the start of the workload.
    pub at_us: Vec<u64>,
}

impl QueueCut {
    pub fn within(within: Duration) -> Self {
        Self { within, at_us: Vec::new() }
    }

    /// Whether an answer came so shortly before a cut, or while it came, that its order may be lost.
    fn excuses(&self, answer: &Answer) -> bool {
        let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.at_us.iter().any(|cut| {
            let from = cut.saturating_sub(microseconds(self.within));
            (from..=cut + microseconds(UNDER_WAY)).contains(&answer.answered_at_us)
        })
    }
}

/// How much the rules about time had to judge.
#[derive(Clone, Copy, Debug, Default)]
pub struct JudgedInTime {
    /// Answers that said "sold out".
    pub sold_out: u64,
    /// Order states that readers observed, those in lists included.
    pub orders: u64,
    /// Lists of orders that were read.
    pub lists: u64,
}

impl JudgedInTime {
    fn of(answers: &[Answer], history: &History) -> Self {
        Self {
            sold_out: answers.iter().filter(|answer| answer.code == "sold_out").count() as u64,
            orders: history.orders.len() as u64,
            lists: history.lists.len() as u64,
        }
    }

    /// Adds another one.
    pub fn add(&mut self, other: Self) {
        self.sold_out += other.sold_out;
        self.orders += other.orders;
        self.lists += other.lists;
    }
}

impl TrialOutcome {
    /// A trial whose fault took effect, before it is checked.
    pub fn new(injections: u32, proof: String, recovered: Vec<(String, Option<Duration>)>) -> Self {
        let mut trial = Self { injections, proof, ..Self::default() };
        for (strategy, after) in recovered {
            match after {
                Some(after) => trial.recovery.push((strategy, after)),
                None => {
                    trial.broken.push(format!("{strategy}: sold nothing after the fault was over"));
                }
            }
        }
        trial
    }

    /// Adds another trial of the same row.
    pub fn add(&mut self, other: &Self, name: &str) {
        self.injections += other.injections;
        self.attempts += other.attempts;
        self.oversold += other.oversold;
        self.duplicated += other.duplicated;
        self.lost += other.lost;
        self.unresolved += other.unresolved;
        self.resolved += other.resolved;
        self.queued_lost += other.queued_lost;
        self.lost_with_writer += other.lost_with_writer;
        self.recovery.extend(other.recovery.iter().cloned());
        self.controls.0 += other.controls.0;
        self.controls.1 += other.controls.1;
        self.in_time.add(other.in_time);
        self.events.add(&other.events);
        self.broken.extend(other.broken.iter().map(|what| format!("{name}: {what}")));
    }

    /// Whether nothing that was promised is broken. A missed control is counted over the whole run.
    pub fn is_clean(&self) -> bool {
        let counts = [self.oversold, self.duplicated, self.lost, self.unresolved];
        counts.iter().all(|count| *count == 0) && self.broken.is_empty()
    }

    /// What is broken of the promises about orders, in words.
    pub fn counted(&self) -> String {
        let Self { oversold, duplicated, lost, unresolved, .. } = self;
        format!(
            "oversold {oversold}, duplicated {duplicated}, lost {lost}, unresolved {unresolved}"
        )
    }

    /// The longest recovery.
    pub fn recovered_after(&self) -> Option<Duration> {
        self.recovery.iter().map(|(_, after)| *after).max()
    }

    /// The longest recovery in words, with its strategy.
    pub fn slowest_recovery(&self) -> String {
        let slowest = self.recovery.iter().max_by_key(|(_, after)| *after);
        slowest.map_or("-".to_owned(), |(strategy, after)| {
            format!("{:.2} s ({strategy})", after.as_secs_f64())
        })
    }
}

/// Checks every item of a trial against the ledger and the answers.
pub async fn check_trial(
    testbed: &Testbed,
    service: &Service,
    records: Vec<Record>,
    mut trial: TrialOutcome,
    allowed: &Allowed,
) -> Run<TrialOutcome> {
    let checked = records.into_iter().map(|record| async move {
        let name = record.item.strategy.clone();
        (name, check_item(testbed, service, record, allowed).await)
    });
    for (name, checked) in join_all(checked).await {
        trial.add(&checked?, &name);
    }
    Ok(trial)
}

/// The first purchases without a definite answer.
fn open(answers: &[Answer]) -> Vec<String> {
    let purchases = purchases(answers);
    let open = purchases.iter().filter(|purchase| purchase.is_open());
    let words = open.map(|purchase| {
        let answers = purchase.answers.iter().map(|answer| answer.code.as_str());
        format!("{} is open: {}", purchase.name(), answers.collect::<Vec<_>>().join(", "))
    });
    words.take(EXAMPLES_MAX).collect()
}

/// What one item adds to the outcome of its trial.
async fn check_item(
    testbed: &Testbed,
    service: &Service,
    record: Record,
    allowed: &Allowed,
) -> TrialResult {
    let Allowed { queue_may_be_lost, ref queue_cuts, ref lost_with_writer } = *allowed;
    let is_in_order = lost_with_writer.is_empty();
    let Record { item, mut answers, history } = record;
    let item = &*item;
    let mut reader = Reader::new(&testbed.ledger_url()).map_err(|error| error.0)?;
    let may_be_lost = |answer: &Answer| {
        let excused = queue_cuts.as_ref().is_none_or(|cuts| cuts.excuses(answer));
        queue_may_be_lost && answer.status == 202 && excused
    };
    let is_promised = |answer: &Answer| !may_be_lost(answer) && !is_of(answer, lost_with_writer);
    let mut settled = settled(&mut reader, item, &answers, is_promised).await?;
    let lost_with_writer = forget_with_writer(&mut answers, lost_with_writer, &settled);
    let mut queued_lost = 0;
    if queue_may_be_lost {
        queued_lost = forget_lost_promises(&mut answers, &mut settled, may_be_lost);
    }
    let in_time = InTime { history: &history, sold_out_age: SOLD_OUT_AGE };
    let evidence = Evidence {
        arbiter_on: !item.control,
        in_time: is_in_order.then_some(in_time),
        ..Evidence::of(item.stock, &settled, &answers)
    };
    let judgement = audit_item(&evidence).map_err(|error| format!("{}: {error}", item.strategy))?;
    let attempts = item.attempts();
    if item.control {
        let controls = (u32::from(!judgement.is_clean()), 1);
        return Ok(TrialOutcome { attempts, controls, ..TrialOutcome::default() });
    }
    let findings = judgement.findings.iter().filter(|f| !f.examples.is_empty());
    let findings = findings.map(|f| format!("{} {}", f.invariant, f.examples.join("; ")));
    let mut broken: Vec<String> =
        findings.chain(open(&answers)).chain(taken_back(&answers)).collect();
    for id in std::iter::once(&item.id).chain(&item.further) {
        broken.extend(clean(testbed, service, *id).await.err());
    }
    let in_time =
        if is_in_order { JudgedInTime::of(&answers, &history) } else { JudgedInTime::default() };
    Ok(TrialOutcome {
        attempts,
        oversold: judgement.oversold.count,
        duplicated: judgement.duplicates.count,
        lost: judgement.lost.count,
        unresolved: judgement.unknown.purchases,
        resolved: judgement.unknown.settled_by_retry,
        queued_lost,
        lost_with_writer,
        in_time,
        broken,
        ..TrialOutcome::default()
    })
}

/// The ledger once nothing is under way: every purchase was answered definitely before.
async fn settled(
    reader: &mut Reader,
    item: &SaleItem,
    answers: &[Answer],
    is_promised: impl Fn(&Answer) -> bool,
) -> Run<Ledger> {
    let last = answers.iter().filter(|answer| answer.last && is_promised(answer));
    let last: Vec<Answer> = last.cloned().collect();
    let settled = reader.settled_ledger(item.id, &last, SETTLE_MAX).await;
    settled.map_err(|error| error.0)
}

/// Takes 202 answers out of the record whose orders the ledger has not, or has as rejected because
/// their key became another order while Redis forgot this one; answers how many orders.
fn forget_lost_promises(
    answers: &mut Vec<Answer>,
    ledger: &mut Ledger,
    may_be_lost: impl Fn(&Answer) -> bool,
) -> i64 {
    let before = ledger.orders.len();
    ledger.orders.retain(|order| {
        let is_superseded = order.key.as_deref() == Some(order.id.as_str());
        !(order.status == "rejected" && is_superseded)
    });
    let superseded = before - ledger.orders.len();
    let there: HashSet<&str> = ledger.orders.iter().map(|order| order.id.as_str()).collect();
    let mut gone = HashSet::new();
    answers.retain(|answer| {
        let id = answer.order_id.as_deref().unwrap_or_default();
        let lost = may_be_lost(answer) && !there.contains(id);
        if lost {
            gone.insert(id.to_owned());
        }
        !lost
    });
    i64::try_from(gone.len().max(superseded)).unwrap_or(i64::MAX)
}

/// Takes the purchases out of the record whose orders only the lost writer had; answers how many. If the service has
/// written such a purchase again, since it found no order under its key at the new writer, that order counts.
fn forget_with_writer(answers: &mut Vec<Answer>, ids: &HashSet<String>, ledger: &Ledger) -> i64 {
    let keys = ledger.orders.iter().filter_map(|order| Some((order.key.as_deref()?, &order.id)));
    let again: HashMap<&str, &String> = keys.collect();
    let mut lost = HashSet::new();
    for answer in answers.iter_mut().filter(|answer| is_of(answer, ids)) {
        match answer.key.as_deref().and_then(|key| again.get(key)) {
            Some(id) => answer.order_id = Some((*id).clone()),
            None => drop(lost.insert(answer.request)),
        }
    }
    answers.retain(|answer| !lost.contains(&answer.request));
    i64::try_from(lost.len()).unwrap_or(i64::MAX)
}

/// Whether a purchase was accepted with one of these orders.
fn is_of(answer: &Answer, ids: &HashSet<String>) -> bool {
    answer.outcome == Outcome::Accepted
        && answer.order_id.as_ref().is_some_and(|id| ids.contains(id))
}

/// Purchases that were accepted and then refused: the same key must give the same answer.
fn taken_back(answers: &[Answer]) -> Option<String> {
    let accepted: HashSet<u32> = answers
        .iter()
        .filter(|answer| answer.outcome == Outcome::Accepted && answer.status != 202)
        .map(|answer| answer.request)
        .collect();
    let refused = answers.iter().find(|answer| {
        answer.outcome == Outcome::Refused && answer.last && accepted.contains(&answer.request)
    });
    refused.map(|answer| format!("purchase {} was sold, then {}", answer.request, answer.code))
}

/// Waits until the service's own audit is clean, the counters in Redis included.
async fn clean(testbed: &Testbed, service: &Service, item: i64) -> Run<()> {
    let audit = || service.audit(testbed, item);
    let clean = until("a clean audit", SETTLE_MAX, || async {
        audit().await.ok().filter(|audit| audit["clean"] == true).map(drop)
    });
    if clean.await.is_ok() {
        return Ok(());
    }
    let audit = audit().await.unwrap_or_default();
    let findings = audit["findings"].as_array().cloned().unwrap_or_default();
    let broken = findings.iter().filter(|finding| finding["holds"] == false);
    let words = broken.map(|finding| format!("{} {}", finding["invariant"], finding["detail"]));
    Err(format!("the audit stays unclean: {}", words.collect::<Vec<_>>().join("; ")))
}

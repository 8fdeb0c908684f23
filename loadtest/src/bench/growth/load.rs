//! One load on one or many items, from the tokens to the audit of each item.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::Serialize;
use uuid::Uuid;

use super::super::processes::Meter;
use super::super::work::Counters;
use super::demand::Draw;
use super::points::Point;
use crate::audit::Ledger;
use crate::audit::judge::{self, Evidence};
use crate::audit::read::{QUIET_AFTER_UNKNOWN, Reader};
use crate::counters;
use crate::drive::{self, Drive, Instance, Policy};
use crate::environment::Environment;
use crate::failure::CannotJudge;
use crate::plan::{Pace, Plan};
use crate::process::ProcessorMeter;
use crate::record::{Answer, Outcome};
use crate::report::TrafficSummary;
use crate::service;
use crate::tokens::Mint;

/// The strategy of all curves.
pub const STRATEGY: &str = "mysql-batch";
/// Units of one purchase, and what one buyer may have.
const QUANTITY: i64 = 1;
/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// An invariant that a service which sheds load may leave open: stock that nobody got.
const SOLD_OUT: &str = "I12";

/// What one load found.
#[derive(Debug, Clone, Serialize)]
pub struct Load {
    pub accepted: u64,
    pub accepted_per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Answers that were no order, by code.
    pub not_accepted: BTreeMap<String, u64>,
    /// Orders of a mean batch; `None` when the service did not tell.
    pub batch: Option<f64>,
    /// What the databases did per accepted order.
    pub work: Counters,
    /// Processor time per accepted order by program, in microseconds, connecting included.
    pub cpu_us: BTreeMap<&'static str, f64>,
    /// How busy the whole machine was, 0 to 1.
    pub machine: f64,
    /// What the audit found, with the item.
    pub broken: Vec<String>,
}

/// What every load uses.
pub struct Gun {
    pub environment: Environment,
    pub mint: Mint,
    pub reader: Reader,
    pub span: Duration,
}

/// What one load is aimed at.
pub struct Target<'a> {
    pub point: Point,
    pub instances: &'a [Instance],
    /// As many as the point has.
    pub items: &'a [i64],
    /// Units of each of them.
    pub stock: i64,
    /// Id of the first buyer: nobody buys in two loads.
    pub first_buyer: i64,
    /// Purchases that are planned; what is not begun in time is left out.
    pub requests: u32,
}

impl Gun {
    /// Fires one load and audits it.
    pub async fn fire(&mut self, target: &Target<'_>) -> Result<Load, CannotJudge> {
        let drive = self.aim(target).await?;
        let before = self.reader.ledgers(target.items).await?;
        let batches = counters::batches(target.instances).await;
        let work = self.work().await?;
        let (meter, machine) = (Meter::start(), ProcessorMeter::start());
        let traffic = drive::fire(Arc::clone(&drive)).await;
        let (seconds, machine) = (meter.seconds(), machine.stop());
        let work_after = self.work().await?;
        let batches_after = counters::batches(target.instances).await;
        if traffic.answers.iter().any(|answer| answer.outcome == Outcome::Unknown) {
            tokio::time::sleep(QUIET_AFTER_UNKNOWN).await;
        }
        let after = self.reader.ledgers(target.items).await?;
        let summary = TrafficSummary::of(&traffic, &[]);
        let orders = summary.accepted.purchases;
        let mut not_accepted = BTreeMap::new();
        for answer in traffic.answers.iter().filter(|one| one.outcome != Outcome::Accepted) {
            *not_accepted.entry(answer.code.clone()).or_default() += 1;
        }
        let broken = audit(target, &before, &after, traffic.answers)?;
        let per_order = |seconds: f64| seconds * 1e6 / orders.max(1) as f64;
        Ok(Load {
            accepted: orders,
            accepted_per_second: summary.accepted.per_second,
            p50_us: summary.accepted.from_plan.p50_us as f64,
            p99_us: summary.accepted.from_plan.p99_us as f64,
            not_accepted,
            batch: batches_after.zip(batches).and_then(|(after, before)| mean(after, before)),
            work: work_after.since(&work, orders),
            cpu_us: seconds.into_iter().map(|(name, used)| (name, per_order(used))).collect(),
            machine: machine.machine_share.unwrap_or(0.0),
            broken,
        })
    }

    /// Everything that is sent, rendered.
    async fn aim(&self, target: &Target<'_>) -> Result<Arc<Drive>, CannotJudge> {
        let seed = rand::random();
        let pace = Pace::Closed { requests: target.requests };
        let prefix = Some(Uuid::now_v7().simple().to_string());
        let mut plan = Plan::draw(pace, target.requests, 1, QUANTITY, prefix, seed)?;
        let draw = Draw::new(target.point.demand, target.point.items);
        let mut random = StdRng::seed_from_u64(seed);
        for request in &mut plan.requests {
            // There is one strategy, so its number, which selects the path, is the item's.
            request.strategy = draw.item(&mut random);
        }
        let path = |item: &i64| service::purchase_path(STRATEGY, *item);
        let paths = target.items.iter().map(path).collect::<Result<Vec<_>, _>>()?;
        let policy = Policy {
            concurrency: target.point.connections as usize,
            retries_max: 0,
            timeout: TIMEOUT,
            wait: Duration::ZERO,
            traffic_max: Some(self.span),
        };
        let tokens = self.mint.buyers(target.first_buyer, target.requests).await?;
        let instances = target.instances.to_vec();
        Ok(Arc::new(Drive::new(plan, policy, instances, paths, tokens, target.first_buyer)))
    }

    async fn work(&self) -> Result<Counters, CannotJudge> {
        let known = |name: &str| self.environment.get(name).unwrap_or_default();
        Counters::read(&known("DATABASE_URL"), &known("REDIS_URL")).await
    }
}

/// Orders of a mean batch between two readings.
fn mean(after: (f64, f64), before: (f64, f64)) -> Option<f64> {
    let (batches, orders) = (after.0 - before.0, after.1 - before.1);
    (batches > 0.0).then(|| orders / batches)
}

/// Judges each item by the answers that were about it.
fn audit(
    target: &Target<'_>,
    before: &[Ledger],
    after: &[Ledger],
    answers: Vec<Answer>,
) -> Result<Vec<String>, CannotJudge> {
    if answers.iter().all(|answer| answer.status == 0) {
        let reason = format!("none of {} purchases got an answer", answers.len());
        return Err(CannotJudge(reason));
    }
    let mut by_item: HashMap<usize, Vec<Answer>> = HashMap::new();
    for answer in answers {
        by_item.entry(answer.strategy as usize).or_default().push(answer);
    }
    let mut broken = Vec::new();
    for (index, item) in target.items.iter().enumerate() {
        let answers = by_item.remove(&index).unwrap_or_default();
        let (before, after) = (&before[index], &after[index]);
        if answers.iter().all(|answer| answer.status == 0) {
            // Nobody was answered anything about it, so there may be what unknown answers did.
            let open = answers.iter().filter(|one| one.outcome == Outcome::Unknown).count();
            if after.orders.len() > before.orders.len() + open {
                broken.push(format!("item {item}: orders that nobody asked for"));
            }
            continue;
        }
        let judgement = judge::judge(&Evidence {
            stock: target.stock,
            per_buyer_limit: QUANTITY,
            quantity: QUANTITY,
            arbiter_on: true,
            keyed: true,
            before,
            after,
            answers: &answers,
        })?;
        let faults = [
            ("oversold", judgement.oversold.count),
            ("lost", judgement.lost.count),
            ("phantom", judgement.phantom.count),
            ("duplicate", judgement.duplicates.count),
            ("over the buyer's limit", judgement.over_limit.count),
        ];
        let counted = faults.into_iter().filter(|(_, count)| *count > 0);
        broken.extend(counted.map(|(what, count)| format!("item {item}: {count} {what}")));
        let rules = judgement.broken().into_iter().filter(|rule| *rule != SOLD_OUT);
        broken.extend(rules.map(|rule| format!("item {item}: {rule} is broken")));
    }
    Ok(broken)
}

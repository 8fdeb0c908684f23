//! One load on one or many items: tokens, plan, traffic, and what it cost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::Serialize;
use uuid::Uuid;

use super::audit::audit;
use super::points::Point;
use super::workload::Draw;
use crate::processes::Meter;
use crate::work::Counters;
use ledger_audit::Outcome;
use ledger_audit::{QUIET_AFTER_UNKNOWN, Reader};
use loadtest::counters;
use loadtest::drive::{self, Drive, Instance, Policy};
use loadtest::environment::Environment;
use loadtest::failure::CannotJudge;
use loadtest::plan::{Pace, Plan};
use loadtest::process::{self, ProcessorMeter};
use loadtest::report::TrafficSummary;
use loadtest::service;
use loadtest::tokens::Mint;

/// The strategy of all curves.
pub const STRATEGY: &str = "mysql-batch";
/// Units of one purchase, and what one buyer may have.
pub const QUANTITY: i64 = 1;
/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

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
    /// The part of it that other programs took, 0 to 1.
    pub others: f64,
    /// What the audit found, with the item.
    pub broken: Vec<String>,
}

/// What every load uses.
pub struct LoadGenerator {
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

impl LoadGenerator {
    /// Fires one load and audits it.
    pub async fn fire(&mut self, target: &Target<'_>) -> Result<Load, CannotJudge> {
        let drive = self.aim(target).await?;
        let before = self.reader.ledgers(target.items).await?;
        let batches = counters::batches(target.instances).await;
        let work = Counters::read(&self.environment).await?;
        let (began, meter, machine) = (Instant::now(), Meter::start(), ProcessorMeter::start());
        let traffic = drive::fire(Arc::clone(&drive)).await;
        let (seconds, machine) = (meter.seconds(), machine.stop().machine_share.unwrap_or(0.0));
        let own = seconds.values().sum::<f64>()
            / (began.elapsed().as_secs_f64() * process::cores() as f64);
        let work_after = Counters::read(&self.environment).await?;
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
        let broken = audit(target.items, target.stock, &before, &after, traffic.answers)?;
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
            machine,
            others: (machine - own).max(0.0),
            broken,
        })
    }

    /// Everything that is sent, rendered.
    async fn aim(&self, target: &Target<'_>) -> Result<Arc<Drive>, CannotJudge> {
        let seed = rand::random();
        let pace = Pace::Closed { requests: target.requests };
        let prefix = Some(Uuid::now_v7().simple().to_string());
        let mut plan = Plan::draw(pace, target.requests, 1, QUANTITY, prefix, seed)?;
        let draw = Draw::new(target.point.workload, target.point.items);
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
            readers: 0,
            change_percent: 0,
        };
        let tokens = self.mint.buyers(target.first_buyer, target.requests).await?;
        let instances = target.instances.to_vec();
        Ok(Arc::new(Drive::new(plan, policy, instances, paths, tokens, target.first_buyer)))
    }
}

/// Orders of a mean batch between two readings.
fn mean(after: (f64, f64), before: (f64, f64)) -> Option<f64> {
    let (batches, orders) = (after.0 - before.0, after.1 - before.1);
    (batches > 0.0).then(|| orders / batches)
}

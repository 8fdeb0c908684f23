//! One load on one or many items: tokens, plan, traffic, what it cost, and its audit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use uuid::Uuid;

use crate::audit::audit;
use crate::measure::BATCH;
use crate::processes::{Moment, Services};
use crate::sample::Sample;
use crate::tokens::Tokens;
use ledger_audit::{Answer, Ledger, Outcome, QUIET_AFTER_UNKNOWN, Reader};
use loadtest::drive::{self, Drive, Instance, Policy, Traffic};
use loadtest::failure::CannotJudge;
use loadtest::plan::{Pace, Plan};
use loadtest::report::TrafficSummary;
use loadtest::service;

/// Purchases that are planned for each second of a load: more than are made.
pub const REQUESTS_PER_SECOND: f64 = 60_000.0;
/// Requests of one load at least and at most.
const REQUESTS: (f64, f64) = (500.0, 1_000_000.0);
/// How long the orders of one item may take to be in the ledger after the last answer.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// How long a load beside another one may take to get its first answers.
const FLOW_MAX: Duration = Duration::from_secs(15);

/// What one load found.
#[derive(Debug, Clone)]
pub struct Load {
    pub summary: TrafficSummary,
    /// Accepted per second in the first and in the second half of the span, whose last answers come after it.
    pub halves_per_second: [f64; 2],
    /// What each of its figures cost; still without a value. Processor time is per accepted order (where there is
    /// none, per answer), from the first purchase to the last answer.
    pub cost: Sample,
    /// Orders per second of the load beside it.
    pub beside_per_second: f64,
    /// What the audit found, with the item.
    pub broken: Vec<String>,
}

impl Load {
    /// One of its figures, with what the load cost.
    pub fn sample(&self, value: f64) -> Sample {
        Sample { value, ..self.cost.clone() }
    }
}

/// What one load is aimed at.
#[derive(Debug, Clone)]
pub struct Target {
    pub instances: Vec<Instance>,
    pub strategy: String,
    pub items: Vec<i64>,
    /// Whether the item of each purchase is drawn; else they take turns.
    pub draws_items: bool,
    /// Units of each of them.
    pub stock: i64,
    pub connections: u32,
    pub pace: Pace,
    /// Closed model: how long purchases are begun.
    pub span: Duration,
    /// Id of the first buyer, and how many there are.
    pub buyers: (i64, u32),
    /// Whether each purchase has a key of its own.
    pub keyed: bool,
    /// Whether connections are made before the start, or each by its first purchase.
    pub connects_first: bool,
}

impl Target {
    /// `mysql-batch` as a closed model: each of these buyers buys once, with a key of their own.
    pub fn closed(
        instances: Vec<Instance>,
        items: Vec<i64>,
        stock: i64,
        connections: u32,
        buyers: (i64, u32),
        span: Duration,
    ) -> Self {
        Self {
            instances,
            strategy: BATCH.to_owned(),
            items,
            draws_items: false,
            stock,
            connections,
            pace: Pace::Closed { requests: buyers.1 },
            span,
            buyers,
            keyed: true,
            connects_first: true,
        }
    }
}

/// What every load on one build uses.
pub struct LoadGenerator {
    pub tokens: Tokens,
    /// One for each database that has rows of the ledger.
    pub readers: Vec<Reader>,
    pub services: Services,
}

/// A load that is ready to be sent: it takes seconds to get there, so it is done before another one begins.
pub struct ReadyLoad {
    /// Everything that is sent, rendered.
    drive: Arc<Drive>,
    /// The items' rows.
    before: Vec<Ledger>,
}

/// A load that goes on while another one is measured.
pub struct Background {
    aimed: ReadyLoad,
    traffic: JoinHandle<Traffic>,
    items: Vec<i64>,
    stock: i64,
}

impl LoadGenerator {
    /// Fires one load and audits it.
    pub async fn fire(&mut self, target: &Target) -> Result<Load, CannotJudge> {
        let aimed = self.aim(target).await?;
        self.fire_aimed(target, aimed, None).await
    }

    /// Fires a load that was aimed already. Beside another load, processor time is per order of both.
    pub async fn fire_aimed(
        &mut self,
        target: &Target,
        ReadyLoad { drive, before }: ReadyLoad,
        beside: Option<&Background>,
    ) -> Result<Load, CannotJudge> {
        let services = self.services.clone();
        let look = || {
            let accepted = beside.map_or(0, |beside| accepted(&beside.aimed.drive));
            (Moment::now(&services), accepted)
        };
        let (traffic, [began, ended]) = drive::fire_and_look(drive, look).await;
        if beside.is_some_and(|beside| beside.aimed.drive.is_stopped()) {
            return Err(CannotJudge::new("the load beside another one ended before it"));
        }
        let used = began.0.until(&ended.0);
        let others_orders = ended.1 - began.1;
        let after = self.settled(&target.items, &traffic.answers).await?;
        let summary = TrafficSummary::of(&traffic, &[]);
        let mut not_accepted = BTreeMap::new();
        for answer in traffic.answers.iter().filter(|one| one.outcome != Outcome::Accepted) {
            *not_accepted.entry(answer.code.clone()).or_default() += 1;
        }
        let halves_per_second = halves(&traffic.answers, target.span);
        let broken = audit(&target.items, target.stock, &before, &after, traffic.answers)?;
        let orders = summary.accepted.purchases + others_orders;
        let refused = summary.refused.purchases;
        Ok(Load {
            halves_per_second,
            cost: Sample {
                // A sold-out item has one order at most.
                cpu_us: used.us_for_each(if orders > 1 { orders } else { orders + refused }),
                not_accepted,
                ..Sample::default()
            },
            beside_per_second: others_orders as f64 / used.elapsed,
            broken,
            summary,
        })
    }

    /// Starts a load and returns when its answers come.
    pub async fn start(&mut self, target: &Target) -> Result<Background, CannotJudge> {
        let aimed = self.aim(target).await?;
        let traffic = tokio::spawn(drive::fire(Arc::clone(&aimed.drive)));
        let items = target.items.clone();
        let background = Background { aimed, traffic, items, stock: target.stock };
        // Each connection has had its turn, on average.
        if !background.aimed.drive.answered(target.connections.into(), FLOW_MAX).await {
            return Err(CannotJudge::new("the load beside another one got no answers"));
        }
        Ok(background)
    }

    /// Ends a background load and audits its orders. Returns one sentence for each broken invariant.
    pub async fn stop(&mut self, background: Background) -> Result<Vec<String>, CannotJudge> {
        let Background { aimed, traffic, items, stock } = background;
        aimed.drive.stop();
        let traffic = traffic.await.map_err(|error| CannotJudge(error.to_string()))?;
        let after = self.settled(&items, &traffic.answers).await?;
        audit(&items, stock, &aimed.before, &after, traffic.answers)
    }

    /// The ledgers once no purchase is under way.
    async fn settled(
        &mut self,
        items: &[i64],
        answers: &[Answer],
    ) -> Result<Vec<Ledger>, CannotJudge> {
        if let ([item], [reader]) = (items, self.readers.as_mut_slice()) {
            return Ok(vec![reader.settled_ledger(*item, answers, SETTLE_MAX).await?]);
        }
        if answers.iter().any(|answer| answer.outcome == Outcome::Unknown) {
            sleep(QUIET_AFTER_UNKNOWN).await;
        }
        self.ledgers(items).await
    }

    /// The ledgers of items, each from the database that has the item.
    async fn ledgers(&mut self, items: &[i64]) -> Result<Vec<Ledger>, CannotJudge> {
        let mut found = Vec::new();
        for reader in &mut self.readers {
            let here = reader.ledgers(items).await?;
            if found.is_empty() {
                found = here;
                continue;
            }
            let there = found.iter_mut().zip(here).filter(|(_, here)| here.item_exists);
            there.for_each(|(ledger, here)| *ledger = here);
        }
        Ok(found)
    }

    /// Makes a load ready to be sent.
    pub async fn aim(&mut self, target: &Target) -> Result<ReadyLoad, CannotJudge> {
        let seed = rand::random();
        let (first_buyer, buyers) = target.buyers;
        let items = u32::try_from(target.items.len()).unwrap_or(u32::MAX);
        let prefix = target.keyed.then(|| Uuid::now_v7().simple().to_string());
        // There is one strategy, so its number, which selects the path, is the item's.
        let mut plan = Plan::draw(target.pace, buyers, items, prefix, seed)?;
        if target.draws_items {
            let mut random = StdRng::seed_from_u64(seed);
            for request in &mut plan.requests {
                request.strategy = random.random_range(0..items);
            }
        }
        let path = |item: &i64| service::purchase_path(&target.strategy, *item);
        let paths = target.items.iter().map(path).collect::<Result<Vec<_>, _>>()?;
        let policy = Policy {
            connects_first: target.connects_first,
            ..Policy::once(target.connections as usize, target.span)
        };
        let tokens = self.tokens.of(first_buyer, buyers).await?;
        let instances = target.instances.clone();
        let drive = Drive::new(plan, policy, instances, paths, tokens, first_buyer);
        let before = self.ledgers(&target.items).await?;
        Ok(ReadyLoad { drive: Arc::new(drive), before })
    }
}

/// The requests that a closed load of `span` plans, and the buyers of its items.
pub fn planned(span: Duration) -> u32 {
    bounded(REQUESTS_PER_SECOND * span.as_secs_f64())
}

/// A number of requests that neither says nothing nor takes for ever.
pub fn bounded(requests: f64) -> u32 {
    // In the range by construction.
    requests.clamp(REQUESTS.0, REQUESTS.1) as u32
}

fn accepted(drive: &Drive) -> u64 {
    drive.tally.accepted.load(Ordering::Relaxed)
}

/// Accepted orders per second in each half of `span`.
pub fn halves(answers: &[Answer], span: Duration) -> [f64; 2] {
    let half = span / 2;
    let half_us = half.as_micros();
    let accepted = answers.iter().filter(|answer| answer.outcome == Outcome::Accepted);
    let mut counts = [0_u32; 2];
    for answer in accepted {
        let number = u128::from(answer.answered_at_us) / half_us.max(1);
        if let Some(count) = usize::try_from(number).ok().and_then(|number| counts.get_mut(number))
        {
            *count += 1;
        }
    }
    counts.map(|count| f64::from(count) / half.as_secs_f64())
}

//! One round: every figure measured once, in an order that turns from round to round so that no
//! figure always has the warm or the tired machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderValue;
use serde::Serialize;

use crate::bare_http::{self, BareHttp};
use crate::per_order::{self, PerOrder};
use crate::processes::Meter;
use crate::raw_lock;
use crate::work::Counters;
use loadtest::drive::{self, Drive, Instance, Policy};
use loadtest::environment::Environment;
use loadtest::failure::CannotJudge;
use loadtest::options::{Keys, RunOptions};
use loadtest::plan::{Pace, Plan};
use loadtest::report::TrafficSummary;
use loadtest::run;
use loadtest::tokens::Mint;

/// The clients of P2, P5 and of baseline H.
pub const CLIENTS: u32 = 256;
/// The two numbers of clients of P4.
pub const CLIENTS_FEW: u32 = 64;
pub const CLIENTS_MANY: u32 = 4_096;
/// How many times its peak the service is offered for P7.
pub const OVERLOAD: f64 = 5.0;
/// The part of its peak that it is offered for P8.
pub const COMFORT: f64 = 0.7;
/// Buyers who ask for a sold-out item.
const REFUSED_BUYERS: u32 = 1_000;
/// Purchases of the one client of the lone ones.
const LONE_REQUESTS: u32 = 1_000;
/// Requests of one load at least and at most.
const REQUESTS: (f64, f64) = (500.0, 2_000_000.0);
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What is measured, in the words of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Baseline H, requests per second.
    BareHttp,
    /// Baseline T, orders per second.
    PerOrder,
    /// Baseline K, cycles per second.
    RawLock,
    /// Refusals per second once sold out.
    Refusals,
    /// Durable orders per second through `mysql-batch`, 256 clients.
    Batch,
    /// Durable orders per second through `mysql-batch`, 64 clients.
    BatchFew,
    /// Durable orders per second through `mysql-batch`, 4,096 clients.
    BatchMany,
    /// Orders per second through `lock-redis`, 256 clients.
    LockRedis,
    /// Accepted per second when five times the peak is offered.
    Overload,
    /// p99 in microseconds of orders at 70 % of the peak.
    ComfortP99,
    /// p99 in microseconds of baseline H, at the same rate.
    BareP99,
    /// p50 in microseconds of one client alone, through `mysql-batch`.
    LoneBatch,
    /// p50 in microseconds of one client alone, through `mysql-atomic`: one transaction per order.
    LoneDirect,
}

/// In the order of the first round. H is measured before and after each that is compared with it.
const MEASURES: [Measure; 12] = [
    Measure::Refusals,
    Measure::Batch,
    Measure::PerOrder,
    Measure::BatchFew,
    Measure::RawLock,
    Measure::LockRedis,
    Measure::BatchMany,
    Measure::Overload,
    Measure::BareP99,
    Measure::ComfortP99,
    Measure::LoneDirect,
    Measure::LoneBatch,
];

/// What one round found.
#[derive(Debug, Serialize)]
pub struct Round {
    /// One figure a measure.
    pub figures: BTreeMap<Measure, f64>,
    /// H just before and just after a measure that is compared with it, in the middle: what else the
    /// machine does changes from second to second.
    pub beside: BTreeMap<Measure, f64>,
    /// Busy cores by program, a measure.
    pub cores: BTreeMap<Measure, BTreeMap<&'static str, f64>>,
    /// What the databases did per accepted order, a measure.
    pub work: BTreeMap<Measure, Counters>,
    /// Verdicts that were not clean, with the measure.
    pub broken: Vec<String>,
}

/// Everything that rounds use.
pub struct Bench {
    environment: Environment,
    url: Vec<String>,
    span: Duration,
    bare: BareHttp,
    bare_tokens: Vec<HeaderValue>,
    per_order: PerOrder,
    /// What each load reached last time, so that the next one lasts as long as it should.
    reached: Mutex<BTreeMap<Measure, f64>>,
}

impl Bench {
    /// Starts the baselines.
    pub async fn prepare(
        url: Option<String>,
        span: Duration,
        environment: &Environment,
    ) -> Result<Self, CannotJudge> {
        let mint = Mint::new(None, environment);
        Ok(Self {
            environment: environment.clone(),
            url: url.into_iter().collect(),
            span,
            bare: BareHttp::start().await?,
            bare_tokens: mint.buyers(1_000_000_001, REFUSED_BUYERS).await?,
            per_order: PerOrder::prepare(&environment.database_url()?).await?,
            reached: Mutex::new(BTreeMap::from([
                (Measure::BareHttp, 30_000.0),
                (Measure::Refusals, 20_000.0),
                (Measure::Batch, 10_000.0),
                (Measure::BatchFew, 6_000.0),
                (Measure::BatchMany, 8_000.0),
                (Measure::LockRedis, 600.0),
            ])),
        })
    }

    /// Removes what `prepare` made.
    pub async fn finish(&self) {
        if let Err(failure) = self.per_order.drop_tables().await {
            eprintln!("the tables of baseline T are still there: {failure}");
        }
    }

    /// Measures everything once.
    pub async fn round(&self, number: u32) -> Result<Round, CannotJudge> {
        let mut round = Round {
            figures: BTreeMap::new(),
            beside: BTreeMap::new(),
            cores: BTreeMap::new(),
            work: BTreeMap::new(),
            broken: Vec::new(),
        };
        let mut measures = MEASURES;
        // What follows from the peak comes after it in every round.
        measures[..7].rotate_left(number as usize % 7);
        for measure in measures {
            if !matches!(measure, Measure::Refusals | Measure::Batch) {
                self.take(measure, &mut round).await?;
                continue;
            }
            let before = self.take(Measure::BareHttp, &mut round).await?;
            self.take(measure, &mut round).await?;
            let after = self.take(Measure::BareHttp, &mut round).await?;
            round.beside.insert(measure, f64::midpoint(before, after));
        }
        let bare = round.beside.values().sum::<f64>() / round.beside.len() as f64;
        round.figures.insert(Measure::BareHttp, bare);
        Ok(round)
    }

    /// Measures one, and what it took.
    async fn take(&self, measure: Measure, round: &mut Round) -> Result<f64, CannotJudge> {
        let before = Counters::read(&self.environment).await?;
        let meter = Meter::start();
        let (figure, orders) = self.measure(measure, round).await?;
        round.cores.insert(measure, meter.stop());
        if orders > 0 {
            let after = Counters::read(&self.environment).await?;
            round.work.insert(measure, after.since(&before, orders));
        }
        eprintln!("  {measure:?}: {figure:.0}");
        round.figures.insert(measure, figure);
        self.reached.lock().unwrap_or_else(PoisonError::into_inner).insert(measure, figure);
        Ok(figure)
    }

    /// The figure, and how many orders it wrote.
    async fn measure(
        &self,
        measure: Measure,
        round: &mut Round,
    ) -> Result<(f64, u64), CannotJudge> {
        match measure {
            Measure::BareHttp => {
                // Twice as often as the others.
                let pace = Pace::Closed { requests: self.requests(measure) / 2 };
                Ok((self.drive_bare(pace, CLIENTS).await?.accepted.per_second, 0))
            }
            Measure::BareP99 => {
                let pace = self.comfortable();
                let traffic = self.drive_bare(pace, CLIENTS_MANY).await?;
                Ok((traffic.accepted.from_plan.p99_us as f64, 0))
            }
            Measure::PerOrder => {
                let mut best = 0.0_f64;
                let share = self.span / u32::try_from(per_order::CONNECTIONS.len()).unwrap_or(1);
                for connections in per_order::CONNECTIONS {
                    best = best.max(self.per_order.per_second(connections, share).await?);
                }
                Ok((best, 0))
            }
            Measure::RawLock => {
                Ok((raw_lock::per_second(&self.environment, self.span / 2).await?, 0))
            }
            Measure::Refusals => {
                let load = RunOptions {
                    stock: Some(1),
                    buyers: REFUSED_BUYERS,
                    keys: Keys::Never,
                    ..closed("mysql-batch", self.requests(measure), CLIENTS)
                };
                let traffic = self.load(measure, load, round).await?;
                let rate = traffic.refused_per_second_once_sold_out.unwrap_or(0.0);
                Ok((rate, 0))
            }
            Measure::Batch | Measure::BatchFew | Measure::BatchMany | Measure::LockRedis => {
                let (strategy, clients) = match measure {
                    Measure::BatchFew => ("mysql-batch", CLIENTS_FEW),
                    Measure::BatchMany => ("mysql-batch", CLIENTS_MANY),
                    Measure::LockRedis => ("lock-redis", CLIENTS),
                    _ => ("mysql-batch", CLIENTS),
                };
                let load = closed(strategy, self.requests(measure), clients);
                let traffic = self.load(measure, load, round).await?;
                Ok((traffic.accepted.per_second, traffic.accepted.purchases))
            }
            Measure::LoneBatch | Measure::LoneDirect => {
                let direct = measure == Measure::LoneDirect;
                let strategy = if direct { "mysql-atomic" } else { "mysql-batch" };
                let load = closed(strategy, LONE_REQUESTS, 1);
                let traffic = self.load(measure, load, round).await?;
                Ok((traffic.accepted.from_plan.p50_us as f64, traffic.accepted.purchases))
            }
            Measure::Overload => {
                let rate = self.last(Measure::Batch) * OVERLOAD;
                let traffic = self.open(measure, rate, round).await?;
                Ok((traffic.accepted.per_second, traffic.accepted.purchases))
            }
            Measure::ComfortP99 => {
                let rate = self.last(Measure::Batch) * COMFORT;
                let traffic = self.open(measure, rate, round).await?;
                Ok((traffic.accepted.from_plan.p99_us as f64, traffic.accepted.purchases))
            }
        }
    }

    /// Arrivals at `rate`, each by a buyer of its own, and stock for all of them.
    async fn open(
        &self,
        measure: Measure,
        rate: f64,
        round: &mut Round,
    ) -> Result<TrafficSummary, CannotJudge> {
        let seconds = self.span.as_secs_f64();
        let load = RunOptions {
            rate: Some(rate),
            seconds: Some(seconds),
            ..closed("mysql-batch", bounded(rate * seconds * 1.1), CLIENTS_MANY)
        };
        self.load(measure, load, round).await
    }

    /// One load on the service, with its audit.
    async fn load(
        &self,
        measure: Measure,
        load: RunOptions,
        round: &mut Round,
    ) -> Result<TrafficSummary, CannotJudge> {
        let options = RunOptions { url: self.url.clone(), ..load };
        let report = run::execute(&options, &self.environment).await?.report;
        let faults = &report.audit;
        // Whether stock was left is no question here: an overloaded service may leave some.
        let wrong = [
            ("oversold", faults.oversold.count),
            ("lost", faults.lost.count),
            ("duplicate", faults.duplicates.count),
        ];
        for (what, count) in wrong.into_iter().filter(|(_, count)| *count > 0) {
            round.broken.push(format!("{measure:?}: {count} {what}"));
        }
        Ok(report.traffic)
    }

    async fn drive_bare(&self, pace: Pace, clients: u32) -> Result<TrafficSummary, CannotJudge> {
        let plan = Plan::draw(pace, REFUSED_BUYERS, 1, 1, None, rand::random())?;
        let policy = Policy {
            concurrency: clients as usize,
            retries_max: 0,
            timeout: TIMEOUT,
            wait: Duration::ZERO,
            traffic_max: None,
            readers: 0,
            change_percent: 0,
        };
        let host = HeaderValue::from_static("bare");
        let instance = Instance { url: "bare".to_owned(), address: self.bare.address, host };
        let path = Uri::from_static(bare_http::PATH);
        let drive = Drive::new(
            plan,
            policy,
            vec![instance],
            vec![path],
            self.bare_tokens.clone(),
            1_000_000_001,
        );
        let traffic = drive::fire(Arc::new(drive)).await;
        Ok(TrafficSummary::of(&traffic, &["bare".to_owned()]))
    }

    fn comfortable(&self) -> Pace {
        let rate_per_second = self.last(Measure::Batch) * COMFORT;
        Pace::Open { rate_per_second, seconds: self.span.as_secs_f64() }
    }

    fn requests(&self, measure: Measure) -> u32 {
        bounded(self.last(measure) * self.span.as_secs_f64())
    }

    fn last(&self, measure: Measure) -> f64 {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.get(&measure).copied().unwrap_or(1_000.0)
    }
}

/// A load of `requests` purchases over `clients` connections, each by a buyer of its own, and stock
/// for all of them.
pub fn closed(strategy: &str, requests: u32, clients: u32) -> RunOptions {
    RunOptions {
        strategy: vec![strategy.to_owned()],
        stock: Some(i64::from(requests)),
        buyers: requests,
        requests,
        concurrency: clients,
        ..RunOptions::default()
    }
}

/// A number of requests that neither says nothing nor takes for ever.
fn bounded(requests: f64) -> u32 {
    // In the range by construction.
    requests.clamp(REQUESTS.0, REQUESTS.1) as u32
}

//! One round: every figure measured once for each build, the builds in turns within each step.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bare_load::BareLoad;
use crate::by_hand::ByHand;
use crate::load::{Load, Target};
use crate::measure::{BATCH, Build, CLIENTS, Measure};
use crate::per_order::PerOrder;
use crate::sample::{REQUESTS_PER_SECOND, Round, Sample, Samples};
use crate::shapes::Shapes;
use crate::steps::{self, Selection, Step};
use crate::subject::{ITEM_STOCK, Subject};
use crate::tokens::FIRST_BUYER;
use crate::{neighbours, opening};
use loadtest::environment::Environment;
use loadtest::failure::CannotJudge;
use loadtest::haproxy::{self, Haproxy};
use loadtest::plan::Pace;

/// Connections of the open models.
pub const CLIENTS_OPEN: u32 = 4_096;
/// The most connections of any load, where the system allows them.
pub const CLIENTS_MAX: u32 = 10_000;
/// How long H is asked before each step, for the machine's own noise.
pub const NOISE_SPAN: Duration = Duration::from_millis(250);
/// How many times its peak the service is offered for P7.
const OVERLOAD: f64 = 5.0;
/// The part of its peak that it is offered for P8.
const COMFORT: f64 = 0.7;
/// Buyers who ask for a sold-out item.
const REFUSED_BUYERS: u32 = 1_000;
/// Purchases of one client alone.
const LONE_REQUESTS: u32 = 1_000;
/// What is planned for one client, and for items that many loads sell, whose buyers are minted each time.
const LONE_PER_SECOND: f64 = 5_000.0;
const MANY_ITEMS_PER_SECOND: f64 = 20_000.0;
/// Connections of HAProxy at most: this machine may not have files for twenty thousand.
const PROXY_CONNECTIONS_MAX: u32 = 2_000;
/// Requests of one load at least and at most.
const REQUESTS: (f64, f64) = (500.0, 1_000_000.0);

/// Everything that rounds use.
pub struct Bench {
    selection: Selection,
    span: Duration,
    subjects: Subjects,
    environment: Environment,
    bare: BareLoad,
    per_order: PerOrder,
    by_hand: ByHand,
    proxy: Option<PathBuf>,
    folder: PathBuf,
}

/// What is loaded.
pub struct Subjects {
    /// The shop that runs, or the builds that are compared.
    pub running: Vec<Subject>,
    /// Of each build, if P15 is measured: on an empty ledger, and on one with older orders.
    pub older: Vec<[Subject; 2]>,
    /// The ways to run the database.
    pub shapes: Shapes,
}

impl Bench {
    /// Starts the baselines, and makes the items of the subjects.
    pub async fn prepare(
        selection: Selection,
        span: Duration,
        mut subjects: Subjects,
        environment: &Environment,
        folder: &Path,
    ) -> Result<Self, CannotJudge> {
        let proxy = if selection.instances {
            let missing =
                || CannotJudge("--instances needs haproxy, which is not installed".into());
            Some(haproxy::program().ok_or_else(missing)?)
        } else {
            None
        };
        for subject in &mut subjects.running {
            subject.stock_up(selection.items()).await?;
        }
        let database_url = subjects.running[0].database_url().to_owned();
        Ok(Self {
            selection,
            span,
            subjects,
            environment: environment.clone(),
            bare: BareLoad::start(environment).await?,
            per_order: PerOrder::prepare(&database_url).await?,
            by_hand: ByHand::prepare(&database_url).await?,
            proxy,
            folder: folder.to_owned(),
        })
    }

    /// Removes what `prepare` made.
    pub async fn finish(self) {
        for tables in [&self.per_order.tables, &self.by_hand.tables] {
            if let Err(failure) = tables.drop_all().await {
                eprintln!("the tables of a baseline are still there: {failure}");
            }
        }
        let Subjects { running, older, shapes } = self.subjects;
        for subject in running.into_iter().chain(older.into_iter().flatten()) {
            subject.finish().await;
        }
        shapes.finish().await;
    }

    /// Measures everything once.
    pub async fn round(&mut self, number: u32) -> Result<Round, CannotJudge> {
        let mut round = Round::default();
        for step in steps::of_round(&self.selection, number) {
            round.noise_us = Some(self.noise().await?);
            match step {
                Step::Shapes => {
                    let measured = self.subjects.shapes.measure(self.span, number).await?;
                    round.broken.extend(measured.1);
                    for (measure, sample) in measured.0 {
                        round.add(&measure, Build::New, sample);
                    }
                }
                Step::One(measure) if measure.is_baseline() => {
                    let sample = self.baseline(&measure).await?;
                    round.add(&measure, Build::Baseline, sample);
                }
                Step::One(measure) if measure.is_beside_bare() => {
                    let before = self.baseline(&Measure::BareHttp).await?;
                    self.each_build(&Step::One(measure.clone()), number, &mut round).await?;
                    let after = self.baseline(&Measure::BareHttp).await?;
                    let bare = before.middle(&after);
                    round.add(&Measure::BareHttp, Build::Baseline, bare.clone());
                    round.bare_beside.insert(measure, bare);
                }
                step => {
                    self.each_build(&step, number, &mut round).await?;
                    for (measure, sample) in self.of_bare(&step).await? {
                        round.add(&measure, Build::Baseline, sample);
                    }
                }
            }
        }
        Ok(round)
    }

    /// Measures one step with each build; who is first changes from round to round.
    async fn each_build(
        &mut self,
        step: &Step,
        number: u32,
        round: &mut Round,
    ) -> Result<(), CannotJudge> {
        let mut order: Vec<usize> = (0..self.subjects.running.len()).collect();
        if number % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let build = self.subjects.running[index].build;
            let alone_first = number.is_multiple_of(2);
            let (samples, broken) = match step {
                Step::One(measure) => self.one(index, measure).await?,
                Step::Crowd => {
                    let subject = &mut self.subjects.running[index];
                    neighbours::crowd(subject, self.span, alone_first).await?
                }
                Step::Opening => {
                    opening::of_service(&mut self.subjects.running[index], self.span).await?
                }
                Step::Shapes => return Ok(()),
            };
            let what = samples.first().map(|(measure, _)| measure.to_string()).unwrap_or_default();
            let broken = broken.into_iter();
            round.broken.extend(broken.map(|fault| format!("{what}, {}: {fault}", build.word())));
            for (measure, sample) in samples {
                self.subjects.running[index].reached.insert(measure.clone(), sample.value);
                round.add(&measure, build, sample);
            }
        }
        Ok(())
    }

    /// What H does in a step that has several loads.
    async fn of_bare(&self, step: &Step) -> Result<Vec<(Measure, Sample)>, CannotJudge> {
        match step {
            Step::Opening => {
                let bare = BareLoad::start(&self.environment).await?;
                opening::of_bare(&bare, self.span).await
            }
            Step::Crowd => neighbours::bare_crowd(&self.bare, self.span).await,
            _ => Ok(Vec::new()),
        }
    }

    /// One figure of one build.
    async fn one(&mut self, index: usize, measure: &Measure) -> Result<Samples, CannotJudge> {
        let peak =
            self.subjects.running[index].reached.get(&Measure::peak()).copied().unwrap_or(1_000.0);
        if *measure == Measure::BareP99 {
            let seconds = self.span.as_secs_f64();
            let pace = Pace::Open { rate_per_second: peak * COMFORT, seconds };
            let (traffic, used) = self.bare.fire(pace, CLIENTS_OPEN, self.span).await?;
            let p99 = traffic.accepted.from_plan.p99_us as f64;
            let sample = Sample::of_baseline(p99, traffic.accepted.purchases, &used);
            return Ok((vec![(measure.clone(), sample)], Vec::new()));
        }
        let load = match measure {
            Measure::Instances { instances } => self.behind_proxy(index, *instances).await?,
            Measure::Items { items } => self.many_items(index, *items).await?,
            _ => self.one_item(index, measure, peak).await?,
        };
        let value = match measure {
            Measure::Refusals => load.refused_per_second,
            Measure::ComfortP99 => load.p99_us,
            Measure::Lone { .. } => load.p50_us,
            _ => load.accepted_per_second,
        };
        let sample = Sample::of(&load, value);
        Ok((vec![(measure.clone(), sample)], load.broken))
    }

    /// A load on an item of its own.
    async fn one_item(
        &mut self,
        index: usize,
        measure: &Measure,
        peak: f64,
    ) -> Result<Load, CannotJudge> {
        let seconds = self.span.as_secs_f64();
        let closed = Pace::Closed { requests: planned(self.span) };
        let open = |rate_per_second| Pace::Open { rate_per_second, seconds };
        let (strategy, connections, pace) = match measure {
            Measure::Orders { strategy, clients } => (strategy.as_str(), *clients, closed),
            Measure::Lone { strategy } => {
                let requests = bounded(LONE_PER_SECOND * seconds).min(LONE_REQUESTS);
                (*strategy, 1, Pace::Closed { requests })
            }
            Measure::Overload => (BATCH, CLIENTS_OPEN, open(peak * OVERLOAD)),
            Measure::ComfortP99 => (BATCH, CLIENTS_OPEN, open(peak * COMFORT)),
            _ => (BATCH, CLIENTS, closed),
        };
        let planned = match pace {
            Pace::Closed { requests } => requests,
            Pace::Open { rate_per_second, seconds } => bounded(rate_per_second * seconds * 1.1),
        };
        let refusals = *measure == Measure::Refusals;
        let (stock, buyers) =
            if refusals { (1, REFUSED_BUYERS) } else { (i64::from(planned), planned) };
        let subject = match measure {
            Measure::Older { filled } => &mut self.subjects.older[index][usize::from(*filled)],
            _ => &mut self.subjects.running[index],
        };
        let instances = subject.instances.clone();
        let item = subject.item(stock).await?;
        let items = [item];
        let buyers = (FIRST_BUYER, buyers);
        let target = Target {
            strategy,
            pace,
            keyed: !refusals,
            ..Target::closed(&instances, &items, stock, connections, buyers, self.span)
        };
        subject.generator.fire(&target).await
    }

    /// A load that is spread over items.
    async fn many_items(&mut self, index: usize, count: u32) -> Result<Load, CannotJudge> {
        let subject = &mut self.subjects.running[index];
        let items = subject.first_items(count)?;
        let requests = bounded(MANY_ITEMS_PER_SECOND * self.span.as_secs_f64());
        let instances = subject.instances.clone();
        let buyers = subject.new_buyers(requests);
        let target = Target {
            draws_items: true,
            ..Target::closed(&instances, &items, ITEM_STOCK, CLIENTS, buyers, self.span)
        };
        subject.generator.fire(&target).await
    }

    /// A load on one item through the proxy before `count` instances, which run only meanwhile.
    async fn behind_proxy(&mut self, index: usize, count: u32) -> Result<Load, CannotJudge> {
        let program = self.proxy.as_deref().unwrap_or(Path::new("haproxy"));
        let subject = &mut self.subjects.running[index];
        let services = subject.start_instances(count).await?;
        let addresses: Vec<SocketAddr> =
            services.iter().map(|service| service.instance.address).collect();
        let proxy =
            Haproxy::start(program, &addresses, PROXY_CONNECTIONS_MAX, &self.folder).await?;
        let requests = planned(self.span);
        let stock = i64::from(requests);
        let item = subject.item(stock).await?;
        let ids = services.iter().filter_map(loadtest::launcher::Service::process).collect();
        let own = subject.generator.services.services.replace(ids);
        let instances = std::slice::from_ref(&proxy.instance);
        let items = [item];
        let buyers = (FIRST_BUYER, requests);
        let target = Target::closed(instances, &items, stock, CLIENTS, buyers, self.span);
        let load = subject.generator.fire(&target).await;
        subject.generator.services.services = own;
        drop(proxy);
        for service in services {
            service.stop().await;
        }
        load
    }

    /// H's p99 in microseconds: what the machine itself does at the moment.
    async fn noise(&self) -> Result<f64, CannotJudge> {
        let pace = Pace::Closed { requests: 2 * planned(NOISE_SPAN) };
        let traffic = self.bare.fire(pace, CLIENTS, NOISE_SPAN).await?.0;
        Ok(traffic.accepted.from_plan.p99_us as f64)
    }

    async fn baseline(&mut self, measure: &Measure) -> Result<Sample, CannotJudge> {
        let closed = |requests: f64| Pace::Closed { requests: bounded(requests) };
        let (value, operations, used) = match measure {
            Measure::PerOrder => self.per_order.best(self.span).await?,
            Measure::ByHand => self.by_hand.p50_us(LONE_REQUESTS, self.span).await?,
            _ => {
                // Twice as often as the others.
                let span = self.span / 2;
                let pace = closed(2.0 * REQUESTS_PER_SECOND * span.as_secs_f64());
                let (traffic, used) = self.bare.fire(pace, CLIENTS, span).await?;
                (traffic.accepted.per_second, traffic.accepted.purchases, used)
            }
        };
        Ok(Sample::of_baseline(value, operations, &used))
    }
}

/// The requests that a closed load of `span` plans, and the buyers of its items.
pub fn planned(span: Duration) -> u32 {
    bounded(REQUESTS_PER_SECOND * span.as_secs_f64())
}

/// A number of requests that neither says nothing nor takes for ever.
fn bounded(requests: f64) -> u32 {
    // In the range by construction.
    requests.clamp(REQUESTS.0, REQUESTS.1) as u32
}

//! One round: every figure measured once for each build, the builds in turns within each step.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bare_load::BareLoad;
use crate::by_hand::ByHand;
use crate::load::{Load, REQUESTS_PER_SECOND, Target, bounded, planned};
use crate::measure::{BATCH, Build, CLIENTS, Measure};
use crate::per_order::PerOrder;
use crate::sample::{Round, Sample, Samples};
use crate::shapes::Shapes;
use crate::steps::{self, NOISE_SPAN, Selection, Step};
use crate::subject::Subject;
use crate::tokens::FIRST_BUYER;
use crate::{neighbours, opening};
use loadtest::circumstances::measure_flush;
use loadtest::environment::Environment;
use loadtest::failure::CannotJudge;
use loadtest::haproxy::{self, Haproxy};
use loadtest::plan::Pace;

/// Connections of the open models.
pub const CLIENTS_OPEN: u32 = 4_096;
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

/// Everything that rounds use.
pub struct Bench {
    selection: Selection,
    span: Duration,
    subjects: Subjects,
    environment: Environment,
    bare: BareLoad,
    per_order: PerOrder,
    by_hand: ByHand,
    folder: PathBuf,
}

/// What is loaded.
#[derive(Default)]
pub struct Subjects {
    /// The shop that runs, or the builds that are compared.
    pub running: Vec<Subject>,
    /// Of each build, if P15 is measured: one on an empty ledger, then one on a ledger with older orders.
    pub older: Vec<Subject>,
    /// The ways to run the database.
    pub shapes: Shapes,
}

impl Subjects {
    /// Ends the servers that this run started, and removes its databases.
    pub async fn finish(self) {
        for subject in self.running.into_iter().chain(self.older) {
            subject.finish().await;
        }
        self.shapes.finish().await;
    }
}

impl Bench {
    /// Starts the subjects and the baselines, and makes the items. What `start` began before a failure is ended.
    pub async fn prepare(
        selection: &Selection,
        span: Duration,
        environment: &Environment,
        folder: &Path,
        start: impl AsyncFnOnce(&mut Subjects) -> Result<(), CannotJudge>,
    ) -> Result<Self, CannotJudge> {
        let mut subjects = Subjects::default();
        let prepared = async {
            Box::pin(start(&mut subjects)).await?;
            for subject in &mut subjects.running {
                subject.stock_up(selection.items()).await?;
            }
            let bare = BareLoad::start(environment).await?;
            let per_order = PerOrder::prepare(&subjects.running[0].database_url).await?;
            let by_hand = ByHand::prepare(&subjects.running[0].database_url).await?;
            Ok::<_, CannotJudge>((bare, per_order, by_hand))
        }
        .await;
        match prepared {
            Ok((bare, per_order, by_hand)) => Ok(Self {
                selection: selection.clone(),
                span,
                subjects,
                environment: environment.clone(),
                bare,
                per_order,
                by_hand,
                folder: folder.to_owned(),
            }),
            Err(failure) => {
                subjects.finish().await;
                Err(failure)
            }
        }
    }

    /// Removes what `prepare` made.
    pub async fn finish(self) {
        for tables in [&self.per_order.tables, &self.by_hand.tables] {
            if let Err(failure) = tables.drop_all().await {
                eprintln!("the tables of a baseline are still there: {failure}");
            }
        }
        self.subjects.finish().await;
    }

    /// Measures everything once.
    pub async fn round(&mut self, number: u32) -> Result<Round, CannotJudge> {
        let flush_us_p99 = measure_flush(&self.folder)?.p99_us as f64;
        let mut round = Round { flush_us_p99, ..Round::default() };
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
        let accepted = &load.summary.accepted;
        let value = match measure {
            Measure::Refusals => load.summary.refused_per_second_once_sold_out.unwrap_or(0.0),
            Measure::ComfortP99 => accepted.from_plan.p99_us as f64,
            Measure::Lone { .. } => accepted.from_plan.p50_us as f64,
            _ => accepted.per_second,
        };
        let sample = load.sample(value);
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
        let stock = match pace {
            _ if *measure == Measure::Refusals => 1,
            Pace::Closed { requests } => requests,
            Pace::Open { rate_per_second, seconds } => bounded(rate_per_second * seconds * 1.1),
        };
        let subject = match measure {
            Measure::Older { filled } => &mut self.subjects.older[2 * index + usize::from(*filled)],
            _ => &mut self.subjects.running[index],
        };
        let closed = subject.on_new_items(1, stock, connections, self.span).await?;
        let mut target = Target { strategy: strategy.to_owned(), pace, ..closed };
        if *measure == Measure::Refusals {
            target.keyed = false;
            target.buyers = (FIRST_BUYER, REFUSED_BUYERS);
        }
        subject.generator.fire(&target).await
    }

    /// A load that is spread over items.
    async fn many_items(&mut self, index: usize, count: u32) -> Result<Load, CannotJudge> {
        let subject = &mut self.subjects.running[index];
        let requests = bounded(MANY_ITEMS_PER_SECOND * self.span.as_secs_f64());
        let closed = subject.on_first_items(count, requests, CLIENTS, self.span)?;
        subject.generator.fire(&Target { draws_items: true, ..closed }).await
    }

    /// A load on one item through the proxy before `count` instances, which run only meanwhile.
    async fn behind_proxy(&mut self, index: usize, count: u32) -> Result<Load, CannotJudge> {
        let program = haproxy::program().unwrap_or_else(|| "haproxy".into());
        let subject = &mut self.subjects.running[index];
        let services = subject.start_instances(count).await?;
        let addresses: Vec<SocketAddr> =
            services.iter().map(|service| service.instance.address).collect();
        let proxy =
            Haproxy::start(&program, &addresses, PROXY_CONNECTIONS_MAX, &self.folder).await?;
        let closed = subject.on_new_items(1, planned(self.span), CLIENTS, self.span).await?;
        let target = Target { instances: vec![proxy.instance.clone()], ..closed };
        let ids = services.iter().filter_map(loadtest::launcher::Service::process).collect();
        let own = subject.generator.services.services.replace(ids);
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
        match measure {
            Measure::PerOrder => self.per_order.best(self.span).await,
            Measure::ByHand => self.by_hand.p50_us(LONE_REQUESTS, self.span).await,
            _ => {
                // Twice as often as the others.
                let span = self.span / 2;
                let requests = bounded(2.0 * REQUESTS_PER_SECOND * span.as_secs_f64());
                let (traffic, used) =
                    self.bare.fire(Pace::Closed { requests }, CLIENTS, span).await?;
                let accepted = &traffic.accepted;
                Ok(Sample::of_baseline(accepted.per_second, accepted.purchases, &used))
            }
        }
    }
}

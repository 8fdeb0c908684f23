//! Throughput and latency of `mysql-batch` while something grows: the
//! connections, the items, the instances of the service.
//!
//! Each point is a short load, measured in at least two rounds; every second round walks the points
//! backwards, so that a machine that grows tired is unfair to no end of a curve. Each item of each
//! load is audited as `run` does it, with the answers that were about it.
//!
//! In reading order: [`points`] (what is measured), [`figures`] (rounds summed up), and the reports [`text`] and [`chart`].

pub mod chart;
mod figures;
pub mod points;
pub mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::load::{Load, Target};
use crate::subject::{BUYERS_MAX, ITEM_STOCK, Subject};
use figures::Figure;
use loadtest::environment::Environment;
use loadtest::failure::CannotJudge;
use loadtest::process;
use points::{Curve, Point};

/// Purchases per second that are planned for a connection, and for all, before a rate is known.
const GUESS_PER_SECOND: (f64, f64) = (1_500.0, 20_000.0);
/// How many times the purchases of the last round are planned for the next one.
const MARGIN: f64 = 1.5;
/// Id of the first buyer, above those of all other loads.
const FIRST_BUYER: i64 = 4_000_000_001;

/// What to measure.
#[derive(Debug, Clone)]
pub struct GrowthOptions {
    pub curves: Vec<Curve>,
    /// Points beyond it are left out.
    pub size_max: u32,
    pub rounds: u32,
    /// How long a load begins purchases.
    pub span: Duration,
}

/// The curves, measured.
#[derive(Debug, Serialize)]
pub struct Growth {
    pub rounds: u32,
    pub seconds: f64,
    pub cores: usize,
    /// Of every point, in the order of the curves.
    pub figures: Vec<Figure>,
    /// Points that could not be measured.
    pub left_out: Vec<String>,
    /// Every single load, in the order of the points.
    pub loads: Vec<(Point, Vec<Load>)>,
    /// What the audits found; empty when every load was clean.
    pub broken: Vec<String>,
}

/// What all loads share.
struct Course {
    subject: Subject,
    span: Duration,
    /// Purchases that each point answered in its last round.
    answered: BTreeMap<Point, f64>,
}

/// Measures the curves on the service at `url` and on further instances with logs in `logs`.
pub async fn measure(
    options: &GrowthOptions,
    url: &[String],
    environment: &Environment,
    logs: &Path,
) -> Result<Growth, CannotJudge> {
    let mut course = Course::prepare(options, url, environment, logs).await?;
    let (points, left_out) = course.stock_up(options).await?;
    let mut loads: BTreeMap<Point, Vec<Load>> = BTreeMap::new();
    for round in 0..options.rounds {
        eprintln!("growth, round {} of {}", round + 1, options.rounds);
        for curve in &options.curves {
            let mut walk: Vec<Point> =
                points.iter().filter(|point| point.curve == *curve).copied().collect();
            if round % 2 == 1 {
                walk.reverse();
            }
            for point in walk {
                let load = course.load(point).await?;
                eprintln!("  {}: {:.0}", text::name(&point), load.accepted_per_second);
                loads.entry(point).or_default().push(load);
            }
        }
    }
    let figures: Vec<Figure> =
        points.iter().map(|point| Figure::of(*point, &loads[point])).collect();
    let cores = process::cores();
    let broken = loads
        .iter()
        .flat_map(|(point, loads)| loads.iter().map(move |load| (point, load)))
        .flat_map(|(point, load)| {
            load.broken.iter().map(move |fault| format!("{}: {fault}", text::name(point)))
        })
        .collect();
    let loads = points.iter().filter_map(|point| loads.remove_entry(point)).collect();
    let seconds = options.span.as_secs_f64();
    Ok(Growth {
        rounds: options.rounds,
        seconds,
        cores,
        figures,
        left_out,
        loads,
        broken,
    })
}

impl Course {
    async fn prepare(
        options: &GrowthOptions,
        url: &[String],
        environment: &Environment,
        logs: &Path,
    ) -> Result<Self, CannotJudge> {
        let mut subject = Subject::running(url, environment, logs).await?;
        if options.curves.contains(&Curve::Instances) {
            subject.launcher()?;
        }
        subject.next_buyer = FIRST_BUYER;
        Ok(Self { subject, span: options.span, answered: BTreeMap::new() })
    }

    /// Makes the items; gives the points that can be measured, and in words those that cannot.
    async fn stock_up(
        &mut self,
        options: &GrowthOptions,
    ) -> Result<(Vec<Point>, Vec<String>), CannotJudge> {
        let points: Vec<Point> =
            options.curves.iter().flat_map(|curve| curve.points(options.size_max)).collect();
        let needs_items = |point: &&Point| point.curve == Curve::Items;
        let needed = points.iter().filter(needs_items).map(|point| point.items).max().unwrap_or(0);
        if needed > 0 {
            self.subject.stock_up(needed).await?;
        }
        let made = u32::try_from(self.subject.items.len()).unwrap_or(u32::MAX);
        let open_max = process::connections_max();
        let mut left_out = Vec::new();
        let mut kept = Vec::new();
        for point in points {
            let name = text::name(&point);
            if point.curve == Curve::Items && point.items > made {
                left_out.push(format!("{name}: only {made} items were made in time"));
            } else if point.connections > open_max {
                left_out.push(format!("{name}: this system allows {open_max} (ulimit -Hn)"));
            } else {
                kept.push(point);
            }
        }
        Ok((kept, left_out))
    }

    /// One load at one point. Further instances run only meanwhile.
    async fn load(&mut self, point: Point) -> Result<Load, CannotJudge> {
        let requests = self.requests(&point);
        let subject = &mut self.subject;
        let further = subject.start_instances(point.instances - 1).await?;
        let mut instances = subject.instances.clone();
        instances.extend(further.iter().map(|service| service.instance.clone()));
        // Nobody buys in two loads.
        let buyers = subject.new_buyers(requests);
        let (items, stock) = if point.curve == Curve::Items {
            (subject.first_items(point.items)?, ITEM_STOCK)
        } else {
            let stock = i64::from(requests);
            (vec![subject.item(stock).await?], stock)
        };
        let target = Target {
            workload: Some(point.workload),
            ..Target::closed(&instances, (&items, stock), point.connections, buyers, self.span)
        };
        let load = subject.generator.fire(&target).await?;
        let answered = load.accepted + load.not_accepted.values().sum::<u64>();
        self.answered.insert(point, answered as f64);
        for service in further {
            service.stop().await;
        }
        Ok(load)
    }

    /// Purchases to plan: enough for the whole time, and no more tokens than that takes.
    fn requests(&self, point: &Point) -> u32 {
        let (each, all) = GUESS_PER_SECOND;
        let guess = (f64::from(point.connections) * each).min(all) * self.span.as_secs_f64();
        let planned = self.answered.get(point).map_or(guess, |answered| answered * MARGIN);
        // What is under way when the time is over.
        let planned = planned + f64::from(point.connections);
        // In the range by construction.
        planned.clamp(100.0, f64::from(BUYERS_MAX)) as u32
    }
}

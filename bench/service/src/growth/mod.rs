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

/// Purchases that are planned for each second of a load: of one connection, and of all together.
const EACH_PER_SECOND: f64 = 1_500.0;
const ALL_PER_SECOND: f64 = 40_000.0;
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
    /// Of every point, in the order of the curves.
    pub figures: Vec<Figure>,
    /// Points that could not be measured.
    pub left_out: Vec<String>,
    /// What the audits found; empty when every load was clean.
    pub broken: Vec<String>,
}

/// Measures the curves on the service at `url` and on further instances with logs in `logs`.
pub async fn measure(
    options: &GrowthOptions,
    url: &[String],
    environment: &Environment,
    logs: &Path,
) -> Result<Growth, CannotJudge> {
    let mut subject = Subject::running(url, environment, logs).await?;
    if options.curves.contains(&Curve::Instances) {
        subject.launcher()?;
    }
    subject.next_buyer = FIRST_BUYER;
    let (points, left_out) = stock_up(&mut subject, options).await?;
    let mut loads: BTreeMap<Point, Vec<Load>> = BTreeMap::new();
    for round in 0..options.rounds {
        eprintln!("growth, round {} of {}", round + 1, options.rounds);
        let mut walk = points.clone();
        if round % 2 == 1 {
            walk.reverse();
        }
        for point in walk {
            let load = load(&mut subject, point, options.span).await?;
            eprintln!("  {point}: {:.0}", load.accepted_per_second);
            loads.entry(point).or_default().push(load);
        }
    }
    let mut broken = Vec::new();
    for (point, loads) in &loads {
        let faults = loads.iter().flat_map(|load| &load.broken);
        broken.extend(faults.map(|fault| format!("{point}: {fault}")));
    }
    Ok(Growth {
        rounds: options.rounds,
        seconds: options.span.as_secs_f64(),
        figures: points.iter().map(|point| Figure::of(*point, &loads[point])).collect(),
        left_out,
        broken,
    })
}

/// Makes the items; gives the points that can be measured, and in words those that cannot.
async fn stock_up(
    subject: &mut Subject,
    options: &GrowthOptions,
) -> Result<(Vec<Point>, Vec<String>), CannotJudge> {
    let points: Vec<Point> =
        options.curves.iter().flat_map(|curve| curve.points(options.size_max)).collect();
    let of_items = points.iter().filter(|point| point.curve == Curve::Items);
    if let Some(needed) = of_items.map(|point| point.size).max() {
        subject.stock_up(needed).await?;
    }
    let made = u32::try_from(subject.items.len()).unwrap_or(u32::MAX);
    let open_max = process::connections_max();
    let mut left_out = Vec::new();
    let mut kept = Vec::new();
    for point in points {
        if point.curve == Curve::Items && point.size > made {
            left_out.push(format!("{point}: only {made} items were made in time"));
        } else if point.connections() > open_max {
            left_out.push(format!("{point}: this system allows {open_max} (ulimit -Hn)"));
        } else {
            kept.push(point);
        }
    }
    Ok((kept, left_out))
}

/// One load at one point. Further instances run only meanwhile.
async fn load(subject: &mut Subject, point: Point, span: Duration) -> Result<Load, CannotJudge> {
    let connections = f64::from(point.connections());
    let planned = (connections * EACH_PER_SECOND).min(ALL_PER_SECOND) * span.as_secs_f64();
    // Each connection has one more request under way when the time is over. In the range by construction.
    let requests = (planned + connections).clamp(100.0, f64::from(BUYERS_MAX)) as u32;
    let further = subject.start_instances(point.instances() - 1).await?;
    let mut instances = subject.instances.clone();
    instances.extend(further.iter().map(|service| service.instance.clone()));
    // Nobody buys in two loads.
    let buyers = subject.new_buyers(requests);
    let (items, stock) = if point.curve == Curve::Items {
        (subject.first_items(point.size)?, ITEM_STOCK)
    } else {
        let stock = i64::from(requests);
        (vec![subject.item(stock).await?], stock)
    };
    let target = Target {
        workload: Some(point.workload),
        ..Target::closed(&instances, &items, stock, point.connections(), buyers, span)
    };
    let load = subject.generator.fire(&target).await?;
    for service in further {
        service.stop().await;
    }
    Ok(load)
}

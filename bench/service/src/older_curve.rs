//! What an order costs while its ledger fills with older orders: a curve for each build.
//!
//! A build starts on an empty ledger, then takes turns between writing older orders and selling a new item.
//! One build follows the other, because two large ledgers on one server would share its memory for pages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::growth::chart::{Line, Scale, panel};
use crate::load::{Load, Target};
use crate::measure::Build;
use crate::measure::CLIENTS;
use crate::older;
use crate::processes::{DATABASE, SERVICE};
use crate::round::planned;
use crate::subject::Subject;
use crate::tokens::FIRST_BUYER;
use loadtest::canvas::{Chart, Tone, drawn};
use loadtest::circumstances::version_of;
use loadtest::document::{Color, Document, Table, grouped};
use loadtest::environment::Environment;
use loadtest::failure::{CannotJudge, EXIT_BROKEN, EXIT_CLEAN, OrCannotJudge};
use loadtest::files;
use loadtest::program::CommandResult;
use loadtest::spread::Spread;
use loadtest::tokens::Mint;

/// Height of the drawing, in pixels.
const HEIGHT: u32 = 270;

/// What to measure, and how long.
#[derive(Debug, Clone, Args)]
pub struct OlderOptions {
    /// Numbers of older orders, rising, separated by commas. Ten million take some minutes and 7 GB of disk.
    #[arg(long, value_delimiter = ',', default_value = "0,1000000,2500000,5000000,10000000")]
    orders: Vec<u32>,
    /// Loads at each of them.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds that one load lasts.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Measure this build of `seckill` as well, after the first one.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// Folder of the report: older.md, older.json and older.svg.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
}

/// The loads of one build.
#[derive(Debug, Serialize)]
struct BuildCurve {
    /// `new` or `old`.
    build: &'static str,
    /// What the program says of itself.
    version: String,
    /// By the number of older orders, rising.
    points: Vec<(u32, Vec<Load>)>,
}

/// Measures, writes the report and gives its text; broken when an audit found a fault.
pub async fn execute(options: &OlderOptions, environment: &Environment) -> CommandResult {
    let rising = options.orders.windows(2).all(|pair| pair[0] < pair[1]);
    if !rising || options.orders.last().is_none_or(|most| *most > 50_000_000) {
        return Err(CannotJudge::new("--orders must rise, to 50,000,000 at most"));
    }
    if !(0.2..=120.0).contains(&options.seconds) {
        return Err(CannotJudge::new("--seconds must lie between 0.2 and 120"));
    }
    let own = Mint::new(None, environment).into_program();
    let beside = options.beside.iter().map(|program| (Build::Old, program.clone()));
    let mut curves = Vec::new();
    for build in std::iter::once((Build::New, own)).chain(beside) {
        curves.push(curve(build, options, environment).await?);
    }
    let document = document(options, &curves);
    files::write_report(&options.out, "older", &curves, &document)?;
    files::write(&options.out.join("older.svg"), &chart(options, &curves)?)?;
    let clean = curves.iter().flat_map(BuildCurve::loads).all(|load| load.broken.is_empty());
    Ok((document.text(Color::of_terminal()), if clean { EXIT_CLEAN } else { EXIT_BROKEN }))
}

async fn curve(
    (build, program): (Build, PathBuf),
    options: &OlderOptions,
    environment: &Environment,
) -> Result<BuildCurve, CannotJudge> {
    let version = version_of(&program).await;
    let logs = options.out.join("logs");
    let mut subject = Subject::start((build, "older"), program, environment, &logs).await?;
    let points = points(&mut subject, options).await;
    subject.finish().await;
    Ok(BuildCurve { build: build.word(), version, points: points? })
}

async fn points(
    subject: &mut Subject,
    options: &OlderOptions,
) -> Result<Vec<(u32, Vec<Load>)>, CannotJudge> {
    let span = Duration::from_secs_f64(options.seconds);
    let requests = planned(span);
    let (mut points, mut before) = (Vec::new(), 0);
    for orders in &options.orders {
        older::fill(subject, (before, *orders), requests).await?;
        before = *orders;
        let mut loads = Vec::new();
        for _ in 0..options.rounds {
            let stock = i64::from(requests);
            let item = [subject.item(stock).await?];
            let (instances, buyers) = (subject.instances.clone(), (FIRST_BUYER, requests));
            let target = Target::closed(&instances, (&item, stock), CLIENTS, buyers, span);
            let load = subject.generator.fire(&target).await?;
            eprintln!("  {orders} older orders: {:.0} orders/s", load.accepted_per_second);
            loads.push(load);
        }
        points.push((*orders, loads));
    }
    Ok(points)
}

impl BuildCurve {
    fn loads(&self) -> impl Iterator<Item = &Load> {
        self.points.iter().flat_map(|(_, loads)| loads)
    }

    /// A figure of every point, in their order.
    fn line(
        &self,
        (name, tone): (&'static str, plotters::style::RGBColor),
        of: fn(&Load) -> f64,
    ) -> Line {
        let spreads = self.points.iter().map(|(_, loads)| Spread::of(loads.iter().map(of)));
        Line { name, tone, places: spreads.enumerate().collect() }
    }
}

/// Microseconds of the database's processor time for an order.
fn database_us(load: &Load) -> f64 {
    program_us(&load.cpu_us, DATABASE)
}

/// Microseconds of the service's processor time for an order.
fn service_us(load: &Load) -> f64 {
    program_us(&load.cpu_us, SERVICE)
}

fn program_us(cpu_us: &BTreeMap<&'static str, f64>, program: &str) -> f64 {
    cpu_us.get(program).copied().unwrap_or_default()
}

fn document(options: &OlderOptions, curves: &[BuildCurve]) -> Document {
    let mut document = Document::new("What older orders cost a new one");
    document.paragraph(format!(
        "`mysql-batch`, {CLIENTS} clients, a new item for each load. A point is {} loads of {} s; figures are \
         medians, with the lowest and the highest rate. Processor time is for one order.",
        options.rounds, options.seconds
    ));
    let mut table = Table::new([
        "build",
        "older orders",
        "orders/s",
        "lowest to highest",
        "us of service",
        "us of database",
        "p99 ms",
        "by others",
    ]);
    for curve in curves {
        for (orders, loads) in &curve.points {
            let spread = |of: fn(&Load) -> f64| Spread::of(loads.iter().map(of));
            let rate = spread(|load| load.accepted_per_second);
            table.row([
                curve.build.to_owned(),
                grouped(u64::from(*orders)),
                format!("{:.0}", rate.median),
                format!("{:.0} to {:.0}", rate.min, rate.max),
                format!("{:.1}", spread(service_us).median),
                format!("{:.1}", spread(database_us).median),
                format!("{:.1}", spread(|load| load.p99_us).median / 1e3),
                format!("{:.0} %", spread(|load| load.others).median * 100.0),
            ]);
        }
    }
    document.table(table);
    document.list(curves.iter().map(|curve| format!("{}: {}", curve.build, curve.version)));
    let broken = curves.iter().flat_map(BuildCurve::loads).flat_map(|load| &load.broken);
    document.list(broken.cloned());
    document
}

/// Orders per second at the left, processor time at the right.
fn chart(options: &OlderOptions, curves: &[BuildCurve]) -> Result<String, CannotJudge> {
    let names = |build: &str| match build {
        "new" => ("new", "database, new", "service, new"),
        _ => ("old", "database, old", "service, old"),
    };
    let tones = |build: &str| match build {
        "new" => (Tone::FIRST, Tone::SECOND),
        _ => (Tone::BAD, Tone::QUIET),
    };
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for curve in curves {
        let ((rate, database, service), (first, second)) = (names(curve.build), tones(curve.build));
        rates.push(curve.line((rate, first), |load| load.accepted_per_second));
        costs.push(curve.line((database, first), database_us));
        costs.push(curve.line((service, second), service_us));
    }
    let svg = drawn(HEIGHT, |area| {
        let parts = area.split_evenly((1, 2));
        let (first, second) = (Scale::from_zero(&rates), Scale::from_zero(&costs));
        panel(&parts[0], "orders/s by older orders", &options.orders, &rates, &first)?;
        panel(&parts[1], "us of an order by older orders", &options.orders, &costs, &second)
    })
    .or_cannot_judge("the curves were not drawn")?;
    Ok(Chart { name: "older", caption: String::new(), svg }.alone())
}

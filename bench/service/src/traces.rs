//! The price of traces: p50 and processor time of an order with traces off, with 1 % of the
//! purchases sampled, and with all of them.
//!
//! Three instances of one build differ in this setting alone and take turns in every round, beside
//! each other on the same servers. The spans go to a bare handler, which reads them and answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use loadtest::document::{Cell, Color, Document, Table};
use loadtest::environment::Environment;
use loadtest::failure::{CannotJudge, EXIT_BROKEN, EXIT_CLEAN};
use loadtest::files;
use loadtest::launcher::{Launcher, Overrides, Service};
use loadtest::options::RunOptions;
use loadtest::process::name_and_seconds;
use loadtest::program::CommandResult;
use loadtest::progress::Steps;
use loadtest::run;
use loadtest::spread::Spread;
use loadtest::tokens::Mint;

use crate::bare_http::{self, BareHttp};

/// The names of the instances, and the share of purchases that each samples.
const KINDS: [(&str, Option<&str>); 3] =
    [("off", None), ("1 % sampled", Some("0.01")), ("all", Some("1"))];
/// Orders of the first load; the next ones last as long as they should.
const FIRST_REQUESTS: f64 = 500.0;
/// How long spans are gathered before they are sent, and how long the last of a load may take.
const PERIOD: Duration = Duration::from_millis(200);
const LAST_SPANS: Duration = Duration::from_millis(600);

/// What to measure, and how long.
#[derive(Debug, Clone, Args)]
pub struct TraceOptions {
    /// Rounds. Each measures every setting once.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds that one load lasts.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Buyers at once.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    clients: u32,
    /// The strategy that sells.
    #[arg(long, default_value = "mysql-batch")]
    strategy: String,
    /// Folder of the report, traces.md and traces.json.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
}

/// One setting in one round.
#[derive(Debug, Clone, Serialize)]
struct Load {
    p50_us: f64,
    /// Processor time of the service.
    processor_us_per_order: f64,
    orders_per_second: f64,
}

/// All rounds of one setting.
#[derive(Debug, Serialize)]
struct SettingLoads {
    setting: &'static str,
    loads: Vec<Load>,
}

/// Measures, writes the report and gives its text; broken when an audit found a fault.
pub async fn execute(options: &TraceOptions, environment: &Environment) -> CommandResult {
    let program = Mint::new(None, environment).into_program();
    let launcher = Launcher::new(program, environment, &options.out.join("logs"))?;
    let sink = BareHttp::start().await?;
    let endpoint = format!("http://{}{}", sink.address, bare_http::TRACES_PATH);
    let mut services = Vec::new();
    for (number, (_, share)) in KINDS.iter().enumerate() {
        let overrides = overrides(&endpoint, *share);
        services.push(launcher.start(&format!("traces-{number}"), &overrides).await?);
    }
    let mut measured: Vec<SettingLoads> =
        KINDS.iter().map(|(setting, _)| SettingLoads { setting, loads: Vec::new() }).collect();
    let (mut requests, mut broken) = (FIRST_REQUESTS, Vec::new());
    let mut steps = Steps::new("traces", options.rounds as usize * KINDS.len());
    for round in 0..options.rounds as usize {
        for turn in 0..KINDS.len() {
            let index = (round + turn) % KINDS.len();
            let asked = (options, requests as u32);
            let load = load(asked, &services[index], environment, &mut broken).await?;
            steps.end(&format!(
                "{}: p50 {:.0} us, {:.1} us of processor an order",
                KINDS[index].0, load.p50_us, load.processor_us_per_order
            ));
            requests = (load.orders_per_second * options.seconds).clamp(100.0, 200_000.0);
            measured[index].loads.push(load);
        }
    }
    drop(steps);
    for service in services {
        service.stop().await;
    }
    let document = document(options, &measured, &broken);
    files::write_report(&options.out, "traces", &measured, &document)?;
    let exit_code = if broken.is_empty() { EXIT_CLEAN } else { EXIT_BROKEN };
    Ok((document.text(Color::of_terminal()), exit_code))
}

fn overrides(endpoint: &str, share: Option<&str>) -> Overrides {
    let Some(share) = share else { return Overrides::default() };
    let period = PERIOD.as_millis().to_string();
    let settings = [
        ("ENDPOINT", endpoint),
        ("SAMPLE_RATIO", share),
        ("PER_SECOND_MAX", "1000000"),
        ("QUEUE_MAX", "200000"),
        ("PERIOD_MS", &period),
    ];
    let settings =
        settings.map(|(name, value)| (format!("SECKILL_TRACES_{name}"), value.to_owned()));
    Overrides { settings: settings.into(), clock_ahead_seconds: 0 }
}

async fn load(
    (options, requests): (&TraceOptions, u32),
    service: &Service,
    environment: &Environment,
    broken: &mut Vec<String>,
) -> Result<Load, CannotJudge> {
    let gone = || CannotJudge::new("an instance has ended by itself; see its log");
    let process = PathBuf::from(format!("/proc/{}", service.process().ok_or_else(gone)?));
    let seconds = |process: &Path| name_and_seconds(process).map(|(_, seconds)| seconds);
    let before = seconds(&process).ok_or_else(gone)?;
    let load = RunOptions {
        strategy: vec![options.strategy.clone()],
        stock: Some(i64::from(requests)),
        buyers: requests,
        requests,
        concurrency: options.clients,
        url: vec![service.instance.url.clone()],
        ..RunOptions::default()
    };
    let report = run::execute(&load, environment).await?.report;
    tokio::time::sleep(LAST_SPANS).await;
    let used = seconds(&process).ok_or_else(gone)? - before;
    let faults = &report.audit;
    for (what, count) in [
        ("oversold", faults.oversold.count),
        ("lost", faults.lost.count),
        ("duplicate", faults.duplicates.count),
    ] {
        if count > 0 {
            broken.push(format!("{count} {what}"));
        }
    }
    let accepted = &report.traffic.accepted;
    Ok(Load {
        p50_us: accepted.from_plan.p50_us as f64,
        processor_us_per_order: used * 1e6 / (accepted.purchases.max(1) as f64),
        orders_per_second: accepted.per_second,
    })
}

fn document(options: &TraceOptions, measured: &[SettingLoads], broken: &[String]) -> Document {
    let mut document = Document::new("The price of traces".to_owned());
    document.paragraph(format!(
        "{}, {} buyers at once, {} rounds, medians; the ratios are to `off` in the same round.",
        options.strategy, options.clients, options.rounds
    ));
    let median = |values: Vec<f64>| Spread::of(values).median;
    let of = |one: &SettingLoads, figure: fn(&Load) -> f64| {
        median(one.loads.iter().map(figure).collect())
    };
    let ratio = |one: &SettingLoads, figure: fn(&Load) -> f64| {
        let pairs = one.loads.iter().zip(&measured[0].loads);
        median(pairs.map(|(load, off)| figure(load) / figure(off).max(f64::MIN_POSITIVE)).collect())
    };
    let columns = ["traces", "p50, us", "to off", "processor an order, us", "to off", "orders/s"];
    let mut table = Table::new(columns);
    for one in measured {
        table.row([
            Cell::from(one.setting.to_owned()),
            Cell::from(format!("{:.0}", of(one, |load| load.p50_us))),
            Cell::from(format!("{:.3}", ratio(one, |load| load.p50_us))),
            Cell::from(format!("{:.1}", of(one, |load| load.processor_us_per_order))),
            Cell::from(format!("{:.3}", ratio(one, |load| load.processor_us_per_order))),
            Cell::from(format!("{:.0}", of(one, |load| load.orders_per_second))),
        ]);
    }
    document.table(table);
    document.list(broken.iter().map(|what| format!("void: {what}")));
    document
}

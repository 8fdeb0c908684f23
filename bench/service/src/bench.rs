//! The bench from its command line to its report.

use std::time::Duration;

use clap::Args;
use loadtest::circumstances::Circumstances;
use loadtest::document::Color;
use loadtest::environment::Environment;
use loadtest::failure::{CannotJudge, EXIT_BROKEN, EXIT_CLEAN};
use loadtest::process;
use loadtest::program::CommandResult;
use loadtest::tokens::Mint;
use serde::Serialize;

use crate::figures::Figures;
use crate::growth::points::Curve;
use crate::growth::{self, Growth, Wish};
use crate::round::{self, Bench, Round};
use crate::{history, report};

/// The most connections that any load of the ratios opens.
pub const CLIENTS_MAX: u32 = round::CLIENTS_MANY;
/// The part of `--seconds` that a load of the curves lasts.
const GROWTH_SHARE: f64 = 1.0 / 3.0;

/// What to measure, and how long.
#[derive(Debug, Clone, Args)]
pub struct BenchOptions {
    /// Rounds. Each measures every figure once; with --growth there may be none.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    rounds: u32,
    /// Seconds that one load lasts; a load of the curves lasts a third of it.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Measure the curves of growth as well: by connections, items and instances.
    #[arg(long)]
    growth: bool,
    /// Only these curves, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Curve::ALL)]
    curves: Vec<Curve>,
    /// Rounds of the curves.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=100))]
    growth_rounds: u32,
    /// Leave out points with more connections, items or instances.
    #[arg(long, default_value_t = growth::points::SIZE_MAX, value_parser = clap::value_parser!(u32).range(1..))]
    growth_max: u32,
    /// Folder of the report: report.md, report.json and report.svg, with --growth also growth.svg.
    #[arg(long, default_value = "target/bench")]
    out: std::path::PathBuf,
    /// File to which a line with the medians is added. The last lines of the same machine are
    /// compared with this run.
    #[arg(long, default_value = "target/bench/history.jsonl")]
    history: std::path::PathBuf,
    /// The JSON report of lock-bench, shown as P6.
    #[arg(long)]
    locks: Option<std::path::PathBuf>,
    /// Address of the service [default: SECKILL_URL].
    #[arg(long)]
    url: Option<String>,
}

/// Everything about one bench.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What the figures depend on.
    pub circumstances: Circumstances,
    /// How long one load was meant to last.
    pub seconds: f64,
    /// Medians, spreads and ratios.
    pub figures: Figures,
    /// Every single measurement.
    pub rounds: Vec<Round>,
    /// What the audits found; empty when every round was clean.
    pub void_because: Vec<String>,
    /// Against the last runs on this machine.
    pub compared: Vec<String>,
    /// P6, by the lock library's own benchmark.
    pub locks: Option<serde_json::Value>,
    /// The curves, where they were asked for.
    pub growth: Option<Growth>,
}

impl BenchOptions {
    /// The most connections that any load opens, as far as this system allows those of the curves.
    pub fn connections_max(&self) -> u32 {
        if self.growth {
            growth::points::SIZE_MAX.min(process::connections_max()).max(CLIENTS_MAX)
        } else {
            CLIENTS_MAX
        }
    }

    /// Refuses values that clap's ranges cannot.
    fn check(&self) -> Result<(), CannotJudge> {
        if !(0.2..=120.0).contains(&self.seconds) {
            return Err(CannotJudge("--seconds must lie between 0.2 and 120".to_owned()));
        }
        if self.rounds == 0 && !self.growth {
            return Err(CannotJudge("--rounds 0 without --growth measures nothing".to_owned()));
        }
        Ok(())
    }
}

/// Runs the bench, writes the report and gives its text; broken when a load was.
pub async fn execute(options: &BenchOptions, environment: &Environment) -> CommandResult {
    options.check()?;
    let locks = options.locks.as_deref().map(report::read_json).transpose()?;
    let circumstances = gather(environment, options).await?;
    let rounds =
        if options.rounds == 0 { Vec::new() } else { rounds(options, environment).await? };
    let growth = if options.growth { Some(curves(options, environment).await?) } else { None };
    let void_because: Vec<String> = rounds
        .iter()
        .flat_map(|round| &round.broken)
        .chain(growth.iter().flat_map(|growth| &growth.broken))
        .cloned()
        .collect();
    let figures = Figures::of(&rounds, circumstances.flush_us_p99 as f64);
    let compared = if rounds.is_empty() {
        Vec::new()
    } else {
        history::compare_and_add(&options.history, &circumstances, &figures)?
    };
    let seconds = options.seconds;
    let report =
        Report { circumstances, seconds, figures, rounds, void_because, compared, locks, growth };
    report::write(&options.out, &report)?;
    let valid = report.void_because.is_empty();
    let out = options.out.display();
    let files = format!("\nthe report: {out}/report.md, report.json and charts (.svg)\n");
    Ok((
        report::document(&report).text(Color::of_terminal()) + &files,
        if valid { EXIT_CLEAN } else { EXIT_BROKEN },
    ))
}

async fn gather(
    environment: &Environment,
    options: &BenchOptions,
) -> Result<Circumstances, CannotJudge> {
    let program = Mint::new(None, environment).into_program();
    // Each load draws a seed of its own.
    Circumstances::gather(environment, &program, &options.out, None).await
}

/// The rounds of the ratios.
async fn rounds(
    options: &BenchOptions,
    environment: &Environment,
) -> Result<Vec<Round>, CannotJudge> {
    let span = Duration::from_secs_f64(options.seconds);
    let bench = Bench::prepare(options.url.clone(), span, environment).await?;
    let mut rounds = Vec::new();
    for number in 0..options.rounds {
        eprintln!("round {} of {}", number + 1, options.rounds);
        rounds.push(bench.round(number).await?);
    }
    bench.finish().await;
    Ok(rounds)
}

async fn curves(options: &BenchOptions, environment: &Environment) -> Result<Growth, CannotJudge> {
    let wish = Wish {
        curves: options.curves.clone(),
        size_max: options.growth_max,
        rounds: options.growth_rounds,
        span: Duration::from_secs_f64(options.seconds * GROWTH_SHARE),
    };
    let url: Vec<String> = options.url.iter().cloned().collect();
    growth::measure(&wish, &url, environment, &options.out.join("logs")).await
}

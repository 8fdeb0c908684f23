//! The bench from its command line to its report.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use loadtest::circumstances::{Circumstances, version_of};
use loadtest::environment::Environment;
use loadtest::failure::{CannotJudge, EXIT_BROKEN, EXIT_CLEAN};
use loadtest::haproxy;
use loadtest::options::between;
use loadtest::process;
use loadtest::program::CommandResult;
use loadtest::tokens::seckill_program;

use crate::figures::Figures;
use crate::load::planned;
use crate::measure::{Build, CLIENTS_MAX};
use crate::report::Report;
use crate::round::{Bench, CLIENTS_OPEN, Subjects};
use crate::sample::Round;
use crate::steps::{self, STRATEGIES, Selection};
use crate::subject::Subject;
use crate::{older, report};

/// What to measure, and how long.
#[derive(Debug, Clone, Args)]
pub struct BenchOptions {
    /// Rounds. Each measures every figure once.
    #[arg(long, default_value_t = steps::ROUNDS, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds that one load lasts.
    #[arg(long, default_value_t = 2.0, value_parser = between(0.2, 120.0))]
    seconds: f64,
    /// Measure this build of `seckill` as well, in turns. Both builds are started on databases of their
    /// own on the shop's servers, which are removed afterwards.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// Measure orders/s and processor time of these strategies at 64 and 256 connections, separated by
    /// commas [without names: those of the comparison with a Java service].
    #[arg(long, value_name = "NAMES", num_args = 0..=1, default_missing_value = STRATEGIES)]
    strategies: Option<String>,
    /// Offer five times the peak (P7).
    #[arg(long)]
    overload: bool,
    /// Measure four instances behind HAProxy and one (P11); needs haproxy.
    #[arg(long)]
    instances: bool,
    /// Measure an order on a ledger with this number of older orders beside one on an empty ledger (P15)
    /// [without a number: a million].
    #[arg(long, value_name = "ORDERS", num_args = 0..=1, default_missing_value = "1000000", value_parser = clap::value_parser!(u32).range(50_000..=50_000_000))]
    older: Option<u32>,
    /// Write this number of older orders into the ledgers first, then measure everything on them.
    #[arg(long, value_name = "ORDERS", value_parser = clap::value_parser!(u32).range(50_000..=50_000_000))]
    filled: Option<u32>,
    /// Measure the ways to run the database, each on a server of its own: MariaDB and MySQL, by socket and by TCP,
    /// with and without a binary log (P16), and Vitess where scripts/vitess-program has built it [without a path: the
    /// MySQL of scripts/mysql-sid].
    #[arg(long, value_name = "MYSQLD", num_args = 0..=1, default_missing_value = ".data/mysql-sid/mysqld")]
    shapes: Option<PathBuf>,
    /// All of --strategies, --overload and, where haproxy is installed, --instances.
    #[arg(long)]
    all: bool,
    /// Measure only figures whose name in the report contains this text, beside the peak. May be repeated.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Folder of the report: report.md and report.json.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// The JSON report of lock-bench, shown as P6.
    #[arg(long)]
    locks: Option<PathBuf>,
}

/// The most connections that any load opens, as far as this system allows those of P4 and P17.
pub fn connections_max() -> u32 {
    CLIENTS_MAX.min(process::connections_max()).max(CLIENTS_OPEN)
}

impl BenchOptions {
    /// What the rounds measure.
    fn selection(&self) -> Selection {
        let named = self.strategies.as_deref().or(self.all.then_some(STRATEGIES));
        let names = named.unwrap_or_default().split(',').map(str::trim);
        Selection {
            strategies: names.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            overload: self.overload || self.all,
            shapes: self.shapes.is_some(),
            older: self.older.is_some(),
            instances: self.instances || (self.all && haproxy::program().is_some()),
            builds: if self.beside.is_some() { 2 } else { 1 },
            connections_max: connections_max(),
            only: self.only.clone(),
        }
    }

    /// Whether each round has new databases, because the orders of earlier rounds would cost the later ones. A
    /// shop that runs keeps its database, and a large ledger takes minutes to fill.
    fn has_new_databases(&self) -> bool {
        self.beside.is_some() && self.older.is_none() && self.filled.is_none()
    }
}

/// Runs the bench, writes the report and gives its text; broken when a load was.
pub async fn execute(options: &BenchOptions, environment: &Environment) -> CommandResult {
    let locks = options.locks.as_deref().map(report::read_json).transpose()?;
    // Each load draws a seed of its own.
    let program = seckill_program(None);
    let circumstances = Circumstances::gather(environment, &program, &options.out, None).await?;
    let rounds = Box::pin(rounds(options, environment)).await?;
    let void_because: Vec<String> =
        rounds.iter().flat_map(|round| &round.broken).cloned().collect();
    let figures = Figures::of(&rounds);
    let beside = match &options.beside {
        Some(program) => Some(format!("`{}`: {}", program.display(), version_of(program).await)),
        None => None,
    };
    let report = Report {
        circumstances,
        beside,
        seconds: options.seconds,
        figures,
        rounds,
        void_because,
        locks,
    };
    report::write(&options.out, &report)?;
    let valid = report.void_because.is_empty();
    let out = options.out.display();
    let files = format!("\nthe report: {out}/report.md and report.json\n");
    Ok((
        report::document(&report).for_terminal() + &files,
        if valid { EXIT_CLEAN } else { EXIT_BROKEN },
    ))
}

/// The rounds of the ratios.
async fn rounds(
    options: &BenchOptions,
    environment: &Environment,
) -> Result<Vec<Round>, CannotJudge> {
    let selection = options.selection();
    if selection.instances && haproxy::program().is_none() {
        return Err(CannotJudge::new("--instances needs haproxy, which is not installed"));
    }
    let span = Duration::from_secs_f64(options.seconds);
    let minutes = steps::estimate(&selection, options.rounds, span).as_secs_f64() / 60.0;
    eprintln!(
        "{} rounds of {} builds: about {minutes:.0} minutes",
        options.rounds, selection.builds
    );
    let mut rounds = Vec::new();
    let mut prepared = None;
    for number in 0..options.rounds {
        eprintln!("round {} of {}", number + 1, options.rounds);
        let mut bench: Bench = match prepared.take() {
            Some(bench) => bench,
            None => {
                let begin = async |subjects: &mut Subjects| {
                    start(subjects, options, span, environment).await
                };
                Bench::prepare(&selection, span, environment, &options.out, begin).await?
            }
        };
        let measured = bench.round(number).await;
        if measured.is_err() || number + 1 == options.rounds || options.has_new_databases() {
            bench.finish().await;
        } else {
            prepared = Some(bench);
        }
        rounds.push(measured?);
    }
    Ok(rounds)
}

/// Starts the shop that runs, or two builds for the bench, with their older orders; and the ways to run the database.
async fn start(
    subjects: &mut Subjects,
    options: &BenchOptions,
    span: Duration,
    environment: &Environment,
) -> Result<(), CannotJudge> {
    let logs = options.out.join("logs");
    let own = seckill_program(None);
    let beside = options.beside.iter().map(|beside| (Build::Old, beside.clone()));
    let builds: Vec<(Build, PathBuf)> =
        std::iter::once((Build::New, own.clone())).chain(beside).collect();
    let start =
        |build, purpose, program| Subject::start(build, purpose, program, environment, &logs);
    if options.beside.is_none() {
        subjects.running.push(Subject::running(environment, &logs).await?);
    } else {
        for (build, program) in builds.clone() {
            subjects.running.push(start(build, "shop", program).await?);
        }
    }
    if let Some(orders) = options.filled {
        for subject in &mut subjects.running {
            older::fill(subject, orders, planned(span)).await?;
        }
    }
    if let Some(orders) = options.older {
        for (build, program) in builds {
            subjects.older.push(start(build, "empty", program.clone()).await?);
            subjects.older.push(start(build, "filled", program).await?);
            if let Some(filled) = subjects.older.last_mut() {
                older::fill(filled, orders, planned(span)).await?;
            }
        }
    }
    match &options.shapes {
        Some(mysqld) => subjects.shapes.start(mysqld, &own, environment, &logs).await,
        None => Ok(()),
    }
}

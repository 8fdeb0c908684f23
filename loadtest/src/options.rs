//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::failure::CannotJudge;

/// Retries at least, where the service is killed during the load.
const KILLED_RETRIES_MIN: u16 = 1_000;

/// Sends purchases to a running Seckill service, then audits the ledger against every answer.
///
/// Start a service first: `make run`, in the same folder. Without a subcommand, `run` is meant.
///
/// Exit code: 0 nothing is broken, 1 an invariant is broken, 2 nothing could be judged.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Without a subcommand, `run` with these options.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The options of `run`, where no subcommand is named.
    #[command(flatten)]
    pub run: RunOptions,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send one load to one item and audit it (the default).
    Run(RunOptions),
    /// Compare all strategies: how fast each is, and whether it oversells.
    Compare(CompareOptions),
    /// Repeat the experiments of the five articles (S0 to S4), our figures beside theirs.
    Articles(ArticlesOptions),
    /// Make known failures happen, without their remedy and with it.
    Break(BreakOptions),
    /// Let buyers enter a draw, alone and with friends, and check its places.
    Draw(DrawOptions),
}

/// The options of `run`: one load on one item.
#[derive(Debug, Clone, Args, Serialize)]
pub struct RunOptions {
    /// Strategies, separated by commas. Several take turns, request by request, on the same item.
    /// A strategy may have parameters: `lock-redis?store=redis&scope=item`.
    #[arg(
        long,
        default_value = "lock-redis",
        value_delimiter = ',',
        value_name = "NAME[?PARAMETERS]"
    )]
    pub strategy: Vec<String>,
    /// Units on sale [default: 500; for an existing item its total in the ledger].
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..))]
    pub stock: Option<i64>,
    /// Number of buyers.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    pub buyers: u32,
    /// Closed model: number of purchases. Buyers take turns in a random order.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    pub requests: u32,
    /// Number of connections: at most this many requests are in flight.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub concurrency: u32,
    /// Open model: purchases begin at this rate (Poisson), whether or not earlier ones were answered.
    #[arg(long, requires = "seconds", value_name = "PER_SECOND", value_parser = between(0.001, 1_000_000.0))]
    pub rate: Option<f64>,
    /// Open model: for how many seconds purchases begin.
    #[arg(long, requires = "rate", value_parser = between(0.001, 86_400.0))]
    pub seconds: Option<f64>,
    /// Items of each order. With more than one, each purchase reserves all of them or none, and the strategy is
    /// `mysql-batch`. Every item has `--stock` units, and the audit judges each.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16), conflicts_with = "item")]
    pub lines: u8,
    /// Items on sale. Each order has `--lines` of them, drawn at random, in a random sequence [default: as many as
    /// `--lines`].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "item")]
    pub items: Option<u32>,
    /// Reservations of each request: with more than one, a shop's program sends them for guests, and each is judged as
    /// a purchase of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256), conflicts_with_all = ["item", "rate", "readers"])]
    pub batch: u16,
    /// Start an instance on the shop's servers, and kill it this often during the load (kill -9). Purchases are sent
    /// again until they have a final answer.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000), conflicts_with_all = ["url", "rate"])]
    pub kills: u32,
    /// The second line of defence of the new item: with `off` the strategy alone guards the stock.
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub arbiter: Switch,
    /// Retries of a purchase that was unavailable or whose outcome is unknown, with the same key.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1_000))]
    pub retry: u16,
    /// Closed model: begin no purchase and no retry after this time.
    #[arg(long, value_name = "SECONDS", value_parser = between(0.001, 86_400.0))]
    pub seconds_max: Option<f64>,
    /// Sell this item instead of a new one.
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..))]
    pub item: Option<i64>,
    /// Address of the service, such as http://127.0.0.1:8080. Several, separated by commas, are
    /// several instances [default: SECKILL_URL].
    #[arg(long, value_delimiter = ',')]
    pub url: Vec<String>,
    /// The `seckill` program, which creates the buyers' tokens [default: beside this program, else on PATH].
    #[arg(long, value_name = "PATH")]
    pub seckill: Option<PathBuf>,
    /// Id of the first buyer; the others follow. The default lies above all real accounts.
    #[arg(long, default_value_t = 1_000_000_001, value_parser = clap::value_parser!(i64).range(1..))]
    pub first_buyer: i64,
    /// Repeats the order of buyers and the arrivals of an earlier run [default: random, printed].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Clients that read orders and lists beside the load, for the rules about time (I16 to I19).
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub readers: u32,
    /// Percentage of the orders met by readers that they pay (half of them) or cancel.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub change_percent: u32,
    /// The service's `purchase.sold_out_ms`: its word "sold out" may be twice as old (I16). The default
    /// is the highest that a service accepts; the true one makes the rule sharper.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub sold_out_ms: u64,
    /// Write the report as JSON to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write every answer to this file, one line of JSON each.
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Succeed only if the audit finds overselling: for strategies that are known to oversell.
    #[arg(long)]
    pub expect_oversell: bool,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// Enabled.
    On,
    /// Disabled.
    Off,
}

impl Switch {
    /// The value in the HTTP contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

impl Default for RunOptions {
    /// What the command line gives without arguments.
    fn default() -> Self {
        Cli::parse_from(["loadtest"]).run
    }
}

impl RunOptions {
    /// The strategies of the purchases.
    pub fn strategies(&self) -> Vec<String> {
        if self.are_reservations() { vec!["mysql-batch".to_owned()] } else { self.strategy.clone() }
    }

    /// Whether the purchases are reservations, which have lines.
    pub fn are_reservations(&self) -> bool {
        self.lines > 1 || self.items.is_some() || self.batch > 1
    }

    /// How many items are sold.
    pub fn item_count(&self) -> u32 {
        self.items.unwrap_or(self.lines.into())
    }

    /// Attempts after the first, at most: many where the service is killed meanwhile.
    pub fn retries_max(&self) -> u16 {
        if self.kills > 0 { self.retry.max(KILLED_RETRIES_MIN) } else { self.retry }
    }

    /// Refuses values that the ranges of clap cannot express.
    pub fn check(&self) -> Result<(), CannotJudge> {
        if self.item_count() < self.lines.into() {
            return Err(CannotJudge::new("--items must be at least as many as --lines"));
        }
        if self.strategy.iter().any(|strategy| strategy.trim().is_empty()) {
            return Err(CannotJudge::new("--strategy has an empty name"));
        }
        Ok(())
    }
}

/// A parser of numbers from `min` to `max`, which may have a fraction.
pub fn between(
    min: f64,
    max: f64,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text: &str| match text.parse::<f64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("a number from {min} to {max}")),
    }
}

/// The options of `compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareOptions {
    /// Rounds. Each one measures all strategies, every second one in the opposite order.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Compare only these strategies, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub only: Vec<String>,
    /// What all experiments have.
    #[command(flatten)]
    pub testbed: TestbedOptions,
}

/// The options of `articles`.
#[derive(Debug, Clone, Args)]
pub struct ArticlesOptions {
    /// Only these experiments, separated by commas: S0 to S4.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub only: Vec<String>,
    /// S0: seconds that each of the nine markets runs. The article's ran for 60 s.
    #[arg(long, default_value_t = 5.0, value_parser = between(0.1, 3_600.0))]
    pub seconds: f64,
    /// What all experiments have.
    #[command(flatten)]
    pub testbed: TestbedOptions,
}

/// The options of `break`.
#[derive(Debug, Clone, Args)]
pub struct BreakOptions {
    /// Only these experiments, separated by commas; `list` prints their names.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub only: Vec<String>,
    /// Tries of each experiment without its remedy, and as many with it.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub times: u32,
    /// What all experiments have.
    #[command(flatten)]
    pub testbed: TestbedOptions,
}

/// The options of `draw`.
#[derive(Debug, Clone, Args)]
pub struct DrawOptions {
    /// Buyers who enter.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub entries: u32,
    /// Units that are drawn.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    pub stock: i64,
    /// Number of connections: at most this many requests are in flight.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub concurrency: u32,
    /// Seconds from the start of the test to the close of the draw.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub enter_seconds: u32,
    /// Address of the service. Several, separated by commas, are several instances [default: SECKILL_URL].
    #[arg(long, value_delimiter = ',')]
    pub url: Vec<String>,
    /// The `seckill` program [default: beside this program, else on PATH].
    #[arg(long, value_name = "PATH")]
    pub seckill: Option<PathBuf>,
}

/// What `compare`, `articles` and `break` have in common.
#[derive(Debug, Clone, Args)]
pub struct TestbedOptions {
    /// The folder of the report, as Markdown and JSON; `compare` adds HTML and charts.
    #[arg(long, default_value = "target/compare", value_name = "FOLDER")]
    pub out: PathBuf,
    /// Repeats the order of loads and buyers of an earlier run [default: random, printed].
    #[arg(long)]
    pub seed: Option<u64>,
    /// The `seckill` program [default: beside this program, else on PATH].
    #[arg(long, value_name = "PATH")]
    pub seckill: Option<PathBuf>,
}

/// Whether `--only` leaves this name; without `--only` it leaves all.
pub fn is_wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|wanted| wanted == name)
}

/// Refuses an `--only` that names something else.
pub fn check_only(only: &[String], names: &[&str]) -> Result<(), CannotJudge> {
    match only.iter().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(CannotJudge(format!("--only {name}: there are {}", names.join(", ")))),
        None => Ok(()),
    }
}

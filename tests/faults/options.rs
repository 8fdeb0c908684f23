//! What to run: our own options, and those of a test binary that `cargo test` passes to all.

use std::num::ParseFloatError;

use clap::Parser;

use crate::list::SHORT;
use crate::prelude::*;

/// The first seed of a run that asks for none.
const SEED_FIRST: u64 = 1;
/// A longer soak is a mistake.
const HOURS_MAX: f64 = 48.0;

/// The fault matrix.
#[derive(Clone, Debug, Parser)]
#[command(name = "faults")]
pub struct Options {
    /// Trials of each row, each with a seed of its own; without it, a short selection of the rows.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed; one seed always makes the same experiment. `SECKILL_TEST_SEED` without it.
    #[arg(long, default_value_t = seed_first())]
    seed: u64,
    /// Instead of the rows: random combinations of two faults, for this number of hours.
    #[arg(long = "hours", default_value = "0", hide_default_value = true, value_parser = hours)]
    pub soaks: Duration,
    /// Instead of the rows: the plan of one trial of such a run, by its seed or its text.
    #[arg(long)]
    pub plan: Option<String>,
    /// How long each trial sells at least, in seconds.
    #[arg(long = "seconds", default_value = "1", value_parser = seconds)]
    pub sells: Duration,
    /// Buyers in the waiting list of a row that has a long one.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(i64).range(1_000..=200_000))]
    pub waiters: i64,
    /// Only the rows whose names contain one of these, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The folder for the report; none is written without it.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// The service's program instead of the one that was built with this runner.
    #[arg(long, default_value = env!("CARGO_BIN_EXE_seckill"), hide_default_value = true)]
    pub program: PathBuf,
    /// Only rows whose names contain one of these, as of every test binary.
    filter: Vec<String>,
    /// No rows whose names contain this.
    #[arg(long)]
    skip: Vec<String>,
    /// Only rows of exactly these names.
    #[arg(long)]
    exact: bool,
    /// Print the names.
    #[arg(long)]
    pub list: bool,
    /// Taken and ignored, as the next ones: `cargo test` passes them to every test binary.
    #[arg(long)]
    nocapture: bool,
    #[arg(long)]
    no_capture: bool,
    #[arg(long)]
    include_ignored: bool,
    #[arg(long)]
    ignored: bool,
    #[arg(long)]
    show_output: bool,
    #[arg(long, short)]
    quiet: bool,
    #[arg(long)]
    format: Option<String>,
    #[arg(long)]
    color: Option<String>,
    #[arg(long)]
    test_threads: Option<usize>,
}

impl Options {
    /// From the command line; the error is what to print.
    pub fn read() -> Result<Self, String> {
        Self::try_parse().map_err(|error| error.to_string())
    }

    /// Whether nobody asked for anything: then a selection runs that fits between the other tests.
    fn is_short(&self) -> bool {
        let is_asked = self.seeds.is_some() || self.include_ignored;
        !is_asked && self.only.is_empty() && self.filter.is_empty()
    }

    /// Whether random combinations of faults are tried instead of the rows.
    pub fn is_soak(&self) -> bool {
        self.plan.is_some() || !self.soaks.is_zero()
    }

    /// Whether a row of this name is to be run.
    pub fn wants(&self, name: &str) -> bool {
        let named = |words: &[String]| words.is_empty() || words.iter().any(|w| name.contains(w));
        let filtered = match self.exact {
            true => self.filter.iter().any(|word| word == name),
            // The tests of the other binary have paths; ours begin with the binary's name.
            false => named(&self.filter),
        };
        let skipped = self.skip.iter().any(|word| name.contains(word));
        let chosen = !self.is_short() || SHORT.contains(&name);
        chosen && !self.ignored && filtered && named(&self.only) && !skipped
    }

    /// The seeds of each row.
    pub fn seeds_of(&self) -> impl Iterator<Item = u64> + use<> {
        self.seed..self.seed.saturating_add(self.seeds.unwrap_or(1).max(1))
    }

    /// The first seed.
    pub fn seed_first(&self) -> u64 {
        self.seed
    }

    /// The seeds in words.
    pub fn seed_words(&self) -> String {
        match self.seeds {
            None | Some(0 | 1) => self.seed.to_string(),
            Some(many) => format!("{} to {}", self.seed, self.seed + many - 1),
        }
    }
}

/// The first seed unless `--seed` is given: that of `SECKILL_TEST_SEED`, else [`SEED_FIRST`].
fn seed_first() -> u64 {
    let asked = std::env::var("SECKILL_TEST_SEED").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(SEED_FIRST)
}

fn seconds(text: &str) -> Result<Duration, ParseFloatError> {
    text.parse::<f64>().map(|seconds| Duration::from_secs_f64(seconds.clamp(0.2, 3600.0)))
}

fn hours(text: &str) -> Result<Duration, ParseFloatError> {
    text.parse::<f64>().map(|hours| Duration::from_secs_f64(hours.clamp(0.0, HOURS_MAX) * 3600.0))
}

//! What to run: our own options, and those of a test binary that `cargo test` passes to all.

use clap::Parser;

use crate::list::SHORT;
use crate::prelude::*;

/// The first seed of a run that asks for none.
const SEED_FIRST: u64 = 1;

/// The fault matrix.
#[derive(Debug, Parser)]
#[command(name = "faults")]
struct Arguments {
    /// Trials of each row, each with a seed of its own; without it, a short selection of the rows.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed; one seed always makes the same experiment. `SECKILL_TEST_SEED` without it.
    #[arg(long, default_value_t = seed_first())]
    seed: u64,
    /// Instead of the rows: random combinations of two faults, for this number of hours.
    #[arg(long)]
    hours: Option<f64>,
    /// Instead of the rows: the plan of one trial of such a run, by its seed or its text.
    #[arg(long)]
    plan: Option<String>,
    /// How long each trial sells at least, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Buyers in the waiting list of a row that has a long one.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(i64).range(1_000..=200_000))]
    waiters: i64,
    /// Only the rows whose names contain one of these, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The folder for the report; none is written without it.
    #[arg(long)]
    out: Option<PathBuf>,
    /// The service's program instead of the one that was built with this runner.
    #[arg(long)]
    program: Option<PathBuf>,
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
    list: bool,
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

/// The options that matter.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nobody asked for anything: a selection that fits between the other tests.
    is_short: bool,
    seeds: u64,
    seed: u64,
    only: Vec<String>,
    filter: Vec<String>,
    skip: Vec<String>,
    exact: bool,
    ignored: bool,
    /// How long random combinations of faults are tried.
    pub soaks: Duration,
    /// The plan of one such trial.
    pub plan: Option<String>,
    /// Whether the names are printed and nothing is run.
    pub list: bool,
    /// How long a trial sells at least.
    pub sells: Duration,
    /// Buyers in a long waiting list.
    pub waiters: i64,
    /// The folder for the report.
    pub out: Option<PathBuf>,
    /// The service's program.
    pub program: PathBuf,
}

impl Options {
    /// From the command line; the error is what to print.
    pub fn read() -> Result<Self, String> {
        let read = Arguments::try_parse().map_err(|error| error.to_string())?;
        let built = PathBuf::from(env!("CARGO_BIN_EXE_seckill"));
        Ok(Self {
            is_short: read.seeds.is_none()
                && read.only.is_empty()
                && read.filter.is_empty()
                && !read.include_ignored,
            seeds: read.seeds.unwrap_or(1).max(1),
            seed: read.seed,
            only: read.only,
            filter: read.filter,
            skip: read.skip,
            exact: read.exact,
            ignored: read.ignored,
            soaks: crate::soak::hours(read.hours.unwrap_or_default()),
            plan: read.plan,
            list: read.list,
            sells: Duration::from_secs_f64(read.seconds.clamp(0.2, 3600.0)),
            waiters: read.waiters,
            out: read.out,
            program: read.program.unwrap_or(built),
        })
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
        let chosen = !self.is_short || SHORT.contains(&name);
        chosen && !self.ignored && filtered && named(&self.only) && !skipped
    }

    /// The seeds of each row.
    pub fn seeds_of(&self) -> impl Iterator<Item = u64> + use<> {
        self.seed..self.seed.saturating_add(self.seeds)
    }

    /// The first seed.
    pub fn seed_first(&self) -> u64 {
        self.seed
    }

    /// The seeds in words.
    pub fn seed_words(&self) -> String {
        match self.seeds {
            1 => self.seed.to_string(),
            many => format!("{} to {}", self.seed, self.seed + many - 1),
        }
    }
}

/// The first seed unless `--seed` is given: that of `SECKILL_TEST_SEED`, else [`SEED_FIRST`].
fn seed_first() -> u64 {
    let asked = std::env::var("SECKILL_TEST_SEED").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(SEED_FIRST)
}

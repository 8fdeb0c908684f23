//! What `draw` is asked for.

use std::path::PathBuf;

use clap::Args;

use crate::options::parse_threads;

/// The options of `draw`.
#[derive(Debug, Clone, Args)]
pub struct DrawOptions {
    /// Buyers who enter.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub entries: u32,
    /// Units that are drawn.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    pub stock: i64,
    /// Friends who are drawn as one, at most.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub party_max: u8,
    /// Percentage of the groups that are friends, and not one buyer alone.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub friends_percent: u32,
    /// Percentage of the buyers who take the entry back.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub withdraw_percent: u32,
    /// Number of connections: at most this many requests are in flight.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub concurrency: u32,
    /// Seconds from the start of the test to the close of the draw.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub enter_seconds: u32,
    /// Seconds after the close within which each entry must have its place. The round of the beacon comes in between.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub draw_seconds_max: u32,
    /// Address of the service. Several, separated by commas, are several instances [default: SECKILL_URL].
    #[arg(long, value_delimiter = ',')]
    pub url: Vec<String>,
    /// The `seckill` program [default: beside this program, else on PATH].
    #[arg(long, value_name = "PATH")]
    pub seckill: Option<PathBuf>,
    /// Id of the first buyer; the others follow. The default lies above all real accounts.
    #[arg(long, default_value_t = 1_000_000_001, value_parser = clap::value_parser!(i64).range(1..))]
    pub first_buyer: i64,
    /// Repeats who enters with whom in an earlier run [default: random, printed].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Threads of this program [default: half of the cores].
    #[arg(long, value_parser = parse_threads)]
    pub threads: Option<usize>,
}

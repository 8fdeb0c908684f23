//! What `draw` is asked for.

use std::path::PathBuf;

use clap::Args;

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

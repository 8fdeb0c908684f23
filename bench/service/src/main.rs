//! `service-bench`: how fast the service is, as ratios against baselines that are measured in the same run.
//!
//! Absolute figures of a shared machine say little, so every figure stands beside what it is judged
//! by, measured in the same round on the same cores:
//!
//! * **H**, [`bare_http`]: a bare axum handler that reads and writes JSON, under the same generator
//!   ([`bare_load`]);
//! * **T**, [`per_order`]: one transaction per order, without HTTP, with the best number of connections;
//! * [`by_hand`]: the transaction of an order with the fewest round trips, over one connection.
//!
//! A [`round`] takes all [`steps`] once, in an order that turns from round to round. A [`subject`] is a
//! build of the service; with `--beside` there are two, which take turns in every step. Each [`load`] on
//! the service has its [`audit`], and one oversold, lost or duplicate order makes the whole run void.
//! [`figures`] makes medians of the rounds, and the ratios with their [`goals`]. [`neighbours`] asks
//! what a crowd costs the others, [`older`] what older orders cost a new one, [`opening`] how the first
//! second of a sale compares with its peak, and [`shapes`] what each choice about the database costs.

mod audit;
mod bare_http;
mod bare_load;
mod bench;
mod by_hand;
mod figures;
mod goals;
mod load;
mod measure;
mod neighbours;
mod older;
mod opening;
mod per_order;
mod processes;
mod report;
mod round;
mod sample;
mod shapes;
mod statements;
mod steps;
mod subject;
mod tokens;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use loadtest::environment::Environment;
use loadtest::failure::EXIT_CLEAN;
use loadtest::{process, program};

use bench::BenchOptions;

/// The service's allocator, so that the bare handler has it as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures how fast the service is, as ratios against baselines that are measured in the same run.
///
/// Exit code: 0 when every load was clean, 1 when an audit found a fault, 2 when nothing could be judged.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    bench: BenchOptions,
}

#[derive(Subcommand)]
enum Command {
    /// The bare handler that the service is compared with, until standard input closes.
    #[command(hide = true)]
    BareHttp,
}

fn main() -> ExitCode {
    let Cli { command, bench: options } = Cli::parse();
    if let Some(Command::BareHttp) = command {
        return program::run(bench::connections_max(), process::cores(), async {
            Box::pin(bare_http::serve()).await?;
            Ok((String::new(), EXIT_CLEAN))
        });
    }
    program::run(bench::connections_max(), process::generator_threads(), async {
        let environment = Environment::load()?;
        Box::pin(bench::execute(&options, &environment)).await
    })
}

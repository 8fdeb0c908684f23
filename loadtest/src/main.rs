//! The command line of the load test.

use std::process::ExitCode;

use clap::Parser;

use loadtest::environment::Environment;
use loadtest::options::{Cli, Command};
use loadtest::program::{self, CommandResult};
use loadtest::{articles, compare, draw, failures, process, run};

/// The service's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The most connections of any experiment of `articles` and `break`.
const EXPERIMENT_CONNECTIONS_MAX: u32 = 2_000;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = cli.command.unwrap_or(Command::Run(cli.run));
    let connections = match &command {
        Command::Run(options) => match options.check() {
            Ok(()) => options.concurrency,
            Err(failure) => return program::could_not_judge(&failure),
        },
        Command::Compare(_) => compare::CONCURRENCY_MAX,
        Command::Draw(options) => options.concurrency,
        Command::Articles(_) | Command::Break(_) => EXPERIMENT_CONNECTIONS_MAX,
    };
    program::run(connections, process::generator_threads(), Box::pin(execute(command)))
}

async fn execute(command: Command) -> CommandResult {
    match command {
        Command::Run(options) => {
            let report = Box::pin(run::execute(&options, &Environment::load()?)).await?.report;
            Ok((report.document().for_terminal(), report.verdict.exit_code))
        }
        Command::Compare(options) => Box::pin(compare::run(&options)).await,
        Command::Articles(options) => Box::pin(articles::run(&options)).await,
        Command::Break(options) => Box::pin(failures::run(&options)).await,
        Command::Draw(options) => Box::pin(draw::run(&options)).await,
    }
}

//! `loadtest`: fires purchases at a running Seckill service and audits what became of them.
//!
//! It shares no code with the service and speaks only HTTP and SQL, so that it can disagree with
//! it. In reading order:
//!
//! 1. [`options`]: the command line. [`environment`]: addresses and secrets.
//! 2. [`plan`]: who asks for what, and when. [`tokens`] and [`service`]: what must exist first.
//! 3. [`drive`]: sends the plan. [`record`]: what every single answer was.
//! 4. [`audit`]: reads the ledger with its own SQL and judges it against the record.
//! 5. [`report`]: says it, as text and as JSON. [`run`] walks through all of this.
//!
//! Exit code: 0 clean, 1 an invariant is broken, 2 could not judge.

mod audit;
mod bench;
mod drive;
mod environment;
mod failure;
mod options;
mod plan;
mod process;
mod record;
mod report;
mod run;
mod service;
mod tokens;

use std::process::ExitCode;

use clap::Parser;

use environment::Environment;
use failure::CannotJudge;
use options::{Cli, Command, RunOptions};

/// The service's allocator, so that the bare handler of the bench has it as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let ended = match cli.command {
        Some(Command::Run(options)) => start(&options),
        Some(Command::Bench(options)) => start_bench(&options),
        Some(Command::BareHttp) => runtime(process::cores())
            .and_then(|runtime| runtime.block_on(bench::bare_http::serve()))
            .map(|()| 0),
        None => start(&cli.run),
    };
    ended.map_or_else(
        |failure| {
            eprintln!("loadtest could not judge: {failure}");
            ExitCode::from(failure::EXIT_COULD_NOT_JUDGE)
        },
        ExitCode::from,
    )
}

fn start(options: &RunOptions) -> Result<u8, CannotJudge> {
    options.check()?;
    process::allow_open_files(options.concurrency)?;
    let runtime = runtime(options.threads.unwrap_or_else(threads))?;
    let report = runtime.block_on(run::execute(options, &Environment::load()))?;
    print!("{}", report::text::render(&report));
    Ok(report.verdict.exit_code)
}

fn start_bench(options: &bench::BenchOptions) -> Result<u8, CannotJudge> {
    process::allow_open_files(bench::CLIENTS_MAX)?;
    let valid = runtime(threads())?.block_on(bench::execute(options, &Environment::load()))?;
    Ok(if valid { failure::EXIT_CLEAN } else { failure::EXIT_BROKEN })
}

/// Half of the cores by default: the service and its databases usually share this machine.
fn threads() -> usize {
    (process::cores() / 2).max(1)
}

fn runtime(threads: usize) -> Result<tokio::runtime::Runtime, CannotJudge> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| CannotJudge(format!("no runtime: {error}")))
}

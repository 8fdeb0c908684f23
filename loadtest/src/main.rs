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
use report::Report;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let options = match cli.command {
        Some(Command::Run(options)) => options,
        None => cli.run,
    };
    match start(&options) {
        Ok(report) => {
            print!("{}", report::text::render(&report));
            ExitCode::from(report.verdict.exit_code)
        }
        Err(failure) => {
            eprintln!("loadtest could not judge: {failure}");
            ExitCode::from(failure::EXIT_COULD_NOT_JUDGE)
        }
    }
}

fn start(options: &RunOptions) -> Result<Report, CannotJudge> {
    options.check()?;
    process::allow_open_files(options.concurrency)?;
    // Half of the cores by default: the service and its databases usually share this machine.
    let threads = options.threads.unwrap_or_else(|| (process::cores() / 2).max(1));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| CannotJudge(format!("no runtime: {error}")))?;
    let environment = Environment::load();
    runtime.block_on(run::execute(options, &environment))
}

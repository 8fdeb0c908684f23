//! The fault matrix: what breaks in a shop, made to happen to real servers, and judged.
//!
//! `make faults` runs it; `make test` runs a short selection once. A row ([`list`]) is one kind of fault. A
//! trial of it sells with several strategies at once ([`crowd`]) while the fault is injected into
//! servers and service processes that the run owns ([`stage`], [`service`], [`wire`]), shows that
//! the fault bit, and ends in an audit of the ledger against the buyers' own record ([`verdict`]).
//! The audit and the HTTP client are the load test's, which shares no code with the service. Beside
//! the safe strategies a known-bad one sells without an arbiter: the audit has to catch it.

mod crowd;
mod list;
mod options;
mod report;
mod rows;
mod service;
mod shop;
mod stage;
mod verdict;
mod wire;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use list::{LIST, Row};
use options::Options;
use report::Report;
use stage::Stage;
use verdict::Trial;

/// What a step of a trial comes to; the error is a sentence.
pub type Run<T> = Result<T, String>;

/// A trial that takes longer hangs, and is judged so.
const TRIAL_MAX: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let options = match Options::read() {
        Ok(options) => options,
        Err(text) => {
            println!("{text}");
            return ExitCode::from(2);
        }
    };
    let rows: Vec<&'static Row> = LIST.iter().filter(|row| options.wants(row.name)).collect();
    if options.list {
        for row in LIST {
            println!("{}: test", row.name);
        }
        return ExitCode::SUCCESS;
    }
    if rows.is_empty() {
        // As a test binary does that has nothing of that name.
        println!("test result: ok. 0 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(run(&options, &rows))
}

async fn run(options: &Options, rows: &[&'static Row]) -> ExitCode {
    let mut stage = match Stage::set(options).await {
        Ok(stage) => stage,
        Err(why) => {
            println!("the stage could not be set: {why}");
            return ExitCode::from(2);
        }
    };
    println!("\nfault matrix: {} rows, seeds {}", rows.len(), options.seed_words());
    let begin = Instant::now();
    let mut report = Report::new(options);
    for row in rows {
        for seed in options.seeds_of() {
            let started = Instant::now();
            // On a stack of its own: a trial is a large future.
            let trial = Box::pin(tokio::time::timeout(TRIAL_MAX, (row.run)(&mut stage, seed)));
            let trial = trial.await.unwrap_or_else(|_| {
                Err(format!("the trial did not end in {} s", TRIAL_MAX.as_secs()))
            });
            println!("{}", report::line(row, seed, &trial, started.elapsed()));
            report.add(row, seed, trial);
            if let Err(why) = stage.mend().await {
                println!("the stage could not be mended: {why}");
                return report.end(begin.elapsed());
            }
        }
    }
    stage.close().await;
    report.end(begin.elapsed())
}

/// How one trial of a row ended.
pub type Tried = Run<Trial>;

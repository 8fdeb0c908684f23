//! The fault matrix: faults injected into real servers while a sale runs, each trial audited.
//!
//! `make faults` and `make test-all` run all of it, `make test` a short selection. A row ([`list`]) is one kind of fault.
//! A trial ([`trial`]) sells with several strategies at once ([`workload`]) and injects the fault into
//! servers and service processes that the run owns ([`testbed`], [`service`], [`wire`]). It has to
//! show that the fault took effect, and ends in an audit of the ledger against the record of every
//! answer ([`checker`]), and in a replay of what the services have said ([`events`]). The audit is the
//! crate `ledger-audit`, and the HTTP client is the load test's: neither shares code with the service.
//! Beside the safe strategies, one that is known to oversell sells without the arbiter: the audit has
//! to catch it.

mod checker;
mod events;
mod item;
mod list;
mod options;
mod prelude;
mod readers;
mod report;
mod rows;
mod service;
mod soak;
mod testbed;
mod trial;
mod wire;
mod workload;

use std::fmt::Display;

use list::{LIST, Row};
use loadtest::progress::Steps;
use report::Report;

use crate::prelude::*;

/// The result of one step of a trial; the error is a sentence for people.
pub type Run<T> = Result<T, String>;

/// A result whose error is such a sentence.
pub trait Said<T> {
    fn said(self) -> Run<T>;
}

impl<T, E: Display> Said<T> for Result<T, E> {
    fn said(self) -> Run<T> {
        self.map_err(|error| error.to_string())
    }
}

/// A trial that takes longer counts as failed: it hangs.
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
    if rows.is_empty() && !options.is_soak() {
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
    let mut testbed = match Testbed::start(options).await {
        Ok(testbed) => testbed,
        Err(why) => {
            println!("the testbed could not be started: {why}");
            return ExitCode::from(2);
        }
    };
    if options.is_soak() {
        let ended = Box::pin(soak::run(options, &mut testbed)).await;
        testbed.close().await;
        return ended;
    }
    println!("\nfault matrix: {} rows, seeds {}", rows.len(), options.seed_words());
    let begin = Instant::now();
    let mut report = Report::new(options);
    let mut steps = Steps::new("faults", rows.len() * options.seeds_of().count());
    for row in rows {
        for seed in options.seeds_of() {
            let started = Instant::now();
            steps.begin(&format!("{} seed {seed}", row.name));
            // On a stack of its own: a trial is a large future.
            let trial = Box::pin(timeout(TRIAL_MAX, (row.run)(&mut testbed, seed)));
            let trial = trial.await.unwrap_or_else(|_| {
                Err(format!("the trial did not end in {} s", TRIAL_MAX.as_secs()))
            });
            let trial = testbed.checked(trial);
            steps.end_with_line(&report::line(row, seed, &trial, started.elapsed()));
            report.add(row, seed, trial);
            if let Err(why) = testbed.repair().await {
                println!("the testbed could not be repaired: {why}");
                return report.end(begin.elapsed());
            }
        }
    }
    drop(steps);
    testbed.close().await;
    report.end(begin.elapsed())
}

/// The result of one trial of a row.
pub type TrialResult = Run<TrialOutcome>;

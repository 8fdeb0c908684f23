//! Measures how fast locks are, next to the least that a lock on Redis can do and next to other crates.
//!
//! `cargo run --profile dist -p lock-bench -- --json FILE` starts a private Redis, prints a table after
//! about two minutes, and writes it with its figures to the file. The baseline K is `SET NX PX` and a
//! compare-and-delete by one client, a script. With `VALKEY_SERVER=$(scripts/valkey-sid)` the server is a Valkey that
//! compares and deletes by itself for `plain`. Subjects are measured in turn, and K between each of them and the next, so
//! that other work on the machine slows all of them alike. Each figure is the median of the rounds, with the lowest and
//! the highest.

mod measure;
mod report;
mod subjects;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use dev_servers::{RedisOptions, RedisServer};
use loadtest::circumstances::Machine;
use loadtest::spread::Spread;
use measure::{jain, per_second, run_cycles, spent};
use report::{Report, Row};
use subjects::{Cycle, Subject};

/// Measurements of each subject in each scenario.
const ROUNDS: usize = 11;
/// Length of one measurement.
const MEASURED: Duration = Duration::from_millis(250);
/// A subject runs for this time before it is measured.
const WARM_UP: Duration = Duration::from_millis(100);
/// Clients of one process that want the same lock at once.
const LOCAL_WAITERS: usize = 64;
/// Clients of each of two processes where fairness is measured.
const FAIR_CLIENTS: usize = 8;
/// Each of them holds the lock for this time.
const FAIR_SECTION: Duration = Duration::from_millis(10);
/// Length of the measurement of fairness.
const FAIR_SPAN: Duration = Duration::from_secs(4);

/// Measures how fast locks are, on a private Redis.
#[derive(Parser)]
struct Arguments {
    /// File for the table and its figures, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Which clients want the lock at once.
#[derive(Clone, Copy)]
enum Scenario {
    Uncontended,
    LocalWaiters,
    TwoProcesses,
}

impl Scenario {
    const ALL: [Self; 3] = [Self::Uncontended, Self::LocalWaiters, Self::TwoProcesses];

    fn clients(self, subject: &Subject) -> Vec<Cycle> {
        let one = Arc::clone(&subject.one);
        match self {
            Self::Uncontended => vec![one],
            Self::LocalWaiters if subject.waits => vec![one; LOCAL_WAITERS],
            Self::TwoProcesses if subject.waits => vec![one, Arc::clone(&subject.other)],
            _ => Vec::new(),
        }
    }
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let mut options = RedisOptions::temporary();
    options.extra_lines.push("appendfsync no".to_owned());
    let server = RedisServer::start(options).await.expect("a private Redis");
    let report = measure_all(&server.tcp_url()).await;
    println!("{}", report.text());
    if let Some(path) = arguments.json {
        std::fs::write(&path, report.json()).expect("the file of --json can be written");
    }
    server.stop().await;
}

async fn measure_all(url: &str) -> Report {
    let machine = Machine::gather();
    let k = subjects::baseline(url).await;
    let subjects = subjects::all(url).await;
    let mut rows: Vec<Row> = subjects.iter().map(|subject| Row::new(subject.name)).collect();
    let mut baselines = Vec::new();
    run_cycles(vec![Arc::clone(&k)], Duration::ZERO, WARM_UP).await;
    let mut before = per_second(vec![Arc::clone(&k)], MEASURED).await;
    for _ in 0..ROUNDS {
        for (column, scenario) in Scenario::ALL.into_iter().enumerate() {
            for (subject, row) in subjects.iter().zip(&mut rows) {
                if scenario.clients(subject).is_empty() {
                    continue;
                }
                run_cycles(scenario.clients(subject), Duration::ZERO, WARM_UP).await;
                let before_it = spent(url, subject.sets).await;
                let measured =
                    run_cycles(scenario.clients(subject), Duration::ZERO, MEASURED).await;
                let spent = spent(url, subject.sets).await - before_it;
                let after = per_second(vec![Arc::clone(&k)], MEASURED).await;
                baselines.push(after);
                row.ratios[column].push(measured.per_second() / f64::midpoint(before, after));
                let locks = measured.all as f64;
                row.commands[column].push(spent.commands / locks);
                if column == 0 {
                    row.processor_us.push(spent.processor_us.map(|us| us / locks));
                }
                before = after;
            }
        }
    }
    for (subject, row) in subjects.iter().zip(&mut rows).filter(|(subject, _)| subject.waits) {
        let one = vec![Arc::clone(&subject.one); FAIR_CLIENTS];
        let clients = [one, vec![Arc::clone(&subject.other); FAIR_CLIENTS]].concat();
        let shares = run_cycles(clients, FAIR_SECTION, FAIR_SPAN).await.shares;
        row.fairness = Some(jain(&shares));
    }
    Report { machine, baselines: Spread::of(baselines), rows }
}

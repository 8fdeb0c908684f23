//! How fast locks are, next to the least that a lock on Redis can do and next to other crates.
//!
//! `cargo run --profile dist -p lock-bench -- --json FILE` starts a private Redis, prints a table after
//! about two minutes, and writes it with its figures to the file. K is `SET NX PX` and a
//! compare-and-delete by one client. The subjects take turns, and K is measured between each of
//! them and the next, so that what else the machine does meets all of them. Each figure is a
//! median over the rounds, with the lowest and the highest.

mod measure;
mod report;
mod subjects;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use dev_servers::{AppendFsync, RedisOptions, RedisServer};
use loadtest::circumstances::Machine;
use loadtest::spread::Spread;
use measure::{commands, go_round, jain, per_second};
use report::{Report, Row};
use subjects::{Cycle, Subject};

/// How often each subject has its turn in each scenario.
const ROUNDS: usize = 11;
/// How long a turn takes.
const TURN: Duration = Duration::from_millis(250);
/// How long a subject runs before its turn counts.
const WARM_UP: Duration = Duration::from_millis(100);
/// How long a profiler may look.
const PROFILED: Duration = Duration::from_secs(10);
/// How many clients of one process want one name.
const CROWD: usize = 64;
/// How many clients each of two processes has where fairness is measured.
const FAIR_CLIENTS: usize = 8;
/// How long each of them holds the lock, and how long they go on.
const FAIR_SECTION: Duration = Duration::from_millis(10);
const FAIR_SPAN: Duration = Duration::from_secs(4);

/// Measures locks on a private Redis.
#[derive(Parser)]
struct Arguments {
    /// Where to write the table and its figures.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Only goes round for ten seconds, for a profiler to look at.
    #[arg(long)]
    profile: Option<Profile>,
}

/// Whom a profiler looks at.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Profile {
    /// The baseline.
    K,
    /// One client of our main lock.
    Uncontended,
    /// Two processes with it.
    TwoProcesses,
}

/// Who wants the lock of one name.
#[derive(Clone, Copy)]
enum Scenario {
    Uncontended,
    Crowd,
    TwoProcesses,
}

impl Scenario {
    const ALL: [Self; 3] = [Self::Uncontended, Self::Crowd, Self::TwoProcesses];

    fn clients(self, subject: &Subject) -> Vec<Cycle> {
        match (self, &subject.other) {
            (Self::Uncontended, Some(_)) => vec![Arc::clone(&subject.one)],
            (Self::Crowd, _) => vec![Arc::clone(&subject.one); CROWD],
            (Self::TwoProcesses, Some(other)) => vec![Arc::clone(&subject.one), Arc::clone(other)],
            (_, None) => Vec::new(),
        }
    }
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let options = RedisOptions { append_fsync: AppendFsync::No, ..RedisOptions::temporary() };
    let server = RedisServer::start(options).await.expect("a private Redis");
    if let Some(profile) = arguments.profile {
        println!("{:.0} locks/s", go_round_alone(&server.tcp_url(), profile).await);
        server.stop().await;
        return;
    }
    let report = measure_all(&server.tcp_url()).await;
    println!("{}", report.text());
    if let Some(path) = arguments.json {
        std::fs::write(&path, report.json()).expect("the file of --json can be written");
    }
    server.stop().await;
}

async fn go_round_alone(url: &str, profile: Profile) -> f64 {
    let clients = match profile {
        Profile::K => vec![subjects::baseline(url).await],
        Profile::Uncontended => Scenario::Uncontended.clients(&subjects::main(url).await),
        Profile::TwoProcesses => Scenario::TwoProcesses.clients(&subjects::main(url).await),
    };
    per_second(clients, PROFILED).await
}

async fn measure_all(url: &str) -> Report {
    let machine = Machine::gather();
    let k = subjects::baseline(url).await;
    let subjects = subjects::all(url).await;
    let mut rows: Vec<Row> = subjects.iter().map(|subject| Row::new(subject.name)).collect();
    let mut baselines = Vec::new();
    go_round(vec![Arc::clone(&k)], Duration::ZERO, WARM_UP).await;
    let mut before = per_second(vec![Arc::clone(&k)], TURN).await;
    for _ in 0..ROUNDS {
        for (column, scenario) in Scenario::ALL.into_iter().enumerate() {
            for (subject, row) in subjects.iter().zip(&mut rows) {
                if scenario.clients(subject).is_empty() {
                    continue;
                }
                go_round(scenario.clients(subject), Duration::ZERO, WARM_UP).await;
                let asked = commands(url, subject.sets).await;
                let turn = go_round(scenario.clients(subject), Duration::ZERO, TURN).await;
                let asked = commands(url, subject.sets).await - asked;
                let after = per_second(vec![Arc::clone(&k)], TURN).await;
                baselines.push(after);
                row.ratios[column].push(turn.per_second() / f64::midpoint(before, after));
                row.commands[column].push(asked as f64 / turn.all as f64);
                before = after;
            }
        }
    }
    for (subject, row) in subjects.iter().zip(&mut rows) {
        let Some(other) = &subject.other else { continue };
        let one = vec![Arc::clone(&subject.one); FAIR_CLIENTS];
        let clients = [one, vec![Arc::clone(other); FAIR_CLIENTS]].concat();
        let shares = go_round(clients, FAIR_SECTION, FAIR_SPAN).await.shares;
        row.fairness = Some(jain(&shares));
    }
    Report { machine, baselines: Spread::of(baselines), rows }
}

//! Runs clients that acquire and release in a loop, and counts what they do.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::subjects::{Cycle, connect};

/// What the clients did in one span of time.
pub(crate) struct Measurement {
    /// Cycles of each client.
    pub(crate) shares: Vec<u64>,
    /// Cycles of all clients, including those that ended after the span.
    pub(crate) all: u64,
    seconds: f64,
}

impl Measurement {
    pub(crate) fn per_second(&self) -> f64 {
        self.shares.iter().sum::<u64>() as f64 / self.seconds
    }
}

/// Runs all clients for `span`; each then finishes the cycle that it is in. `section` is how long a
/// client holds the lock.
pub(crate) async fn run_cycles(
    clients: Vec<Cycle>,
    section: Duration,
    span: Duration,
) -> Measurement {
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let since = Instant::now();
    for cycle in clients {
        let stop = stop.clone();
        tasks.spawn(async move {
            let mut within = 0_u64;
            let mut all = 0_u64;
            while !stop.is_cancelled() {
                cycle(section).await;
                all += 1;
                within += u64::from(!stop.is_cancelled());
            }
            (within, all)
        });
    }
    sleep(span).await;
    stop.cancel();
    let seconds = since.elapsed().as_secs_f64();
    let counts = tasks.join_all().await;
    let all = counts.iter().map(|(_, all)| all).sum();
    let shares = counts.into_iter().map(|(within, _)| within).collect();
    Measurement { shares, all, seconds }
}

/// Cycles of all clients together per second.
pub(crate) async fn per_second(clients: Vec<Cycle>, span: Duration) -> f64 {
    run_cycles(clients, Duration::ZERO, span).await.per_second()
}

/// Jain's index of fairness: 1 when all got the same, 1/n when one got everything.
pub(crate) fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// What a server and this program have spent so far.
#[derive(Clone, Copy)]
pub(crate) struct Expense {
    /// Commands that clients have sent, without those that scripts ran.
    pub(crate) commands: f64,
    /// Processor time of the server and of this program, in microseconds.
    pub(crate) processor_us: [f64; 2],
}

impl std::ops::Sub for Expense {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        let [server, ours] = [0, 1].map(|who| self.processor_us[who] - before.processor_us[who]);
        Self { commands: self.commands - before.commands, processor_us: [server, ours] }
    }
}

/// Asks the server. The locks here send scripts, and some of them `SET`, which must not be counted where a script runs
/// it.
pub(crate) async fn spent(url: &str, sets: bool) -> Expense {
    let info = async |section: &str| -> String {
        let mut command = redis::cmd("INFO");
        command.arg(section).query_async(&mut connect(url).await).await.expect("INFO")
    };
    let number = |text: &str, before: &str, end: char| {
        let line = text.lines().find_map(|line| line.strip_prefix(before));
        let number = line.and_then(|rest| rest.split(end).next()?.parse().ok());
        number.unwrap_or(0.0)
    };
    let stats = info("commandstats").await;
    let cpu = info("cpu").await;
    let sent = ["evalsha", "eval", "delifeq", "delex", if sets { "set" } else { "" }];
    let calls = sent.map(|name| number(&stats, &format!("cmdstat_{name}:calls="), ','));
    let server = ["used_cpu_sys:", "used_cpu_user:"].map(|name| number(&cpu, name, '\r'));
    let ours = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let ours = Duration::try_from(ours).expect("after the start").as_secs_f64();
    Expense {
        commands: calls.iter().sum(),
        processor_us: [server.iter().sum(), ours].map(|seconds: f64| seconds * 1e6),
    }
}

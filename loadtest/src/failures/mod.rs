//! `loadtest break`: known failures, made to happen, each with what saves it.
//!
//! Every experiment is tried some times without its cure, where it must break, and as often with
//! it, where it must hold. Each try has an item, locks and keys of its own, and ends in sold units.
//! [`load`]: gates that break under load. [`late`]: purchases that write after their lock or
//! counter is gone, stopped at a [`turnstile`]. [`plain`]: mistakes that no strategy of the service
//! makes, done with plain Redis commands. Servers that must die are our own ([`redis_server`]).

mod late;
mod load;
mod plain;
mod redis_server;
mod stage;
mod turnstile;

use std::fmt::Write;

use serde::Serialize;

use crate::Ended;
use crate::drive::Instance;
use crate::failure::{CannotJudge, EXIT_BROKEN, EXIT_CLEAN, EXIT_COULD_NOT_JUDGE};
use crate::ground::{Circumstances, Ground};
use crate::instance::Service;
use crate::options::BreakOptions;
use crate::report::json;
use late::Pair;
use load::Gates;
use stage::Stage;

/// Of so many tries, this share must show the failure; its cure must hold in all.
const REPRODUCED_SHARE_MIN: f64 = 0.95;

/// One experiment.
struct Experiment {
    name: &'static str,
    /// What goes wrong.
    failure: &'static str,
    /// What saves it.
    cure: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Load(Gates),
    LeaseExpires,
    Failover,
    CounterLost,
    QueueLost,
    WrongOwner,
    LockOrder,
    StaleReplica,
}

/// Every experiment, in the order of the page.
const LIST: &[Experiment] = &[
    Experiment {
        name: "lease-expires",
        failure: "A holder is frozen (SIGSTOP) before its write for longer than its lease; another instance takes the lock and sells everything; then the late write lands.",
        cure: "The arbiter: the lock's fence is raised in the same transaction, and the late one is below it.",
        kind: Kind::LeaseExpires,
    },
    Experiment {
        name: "unlock-before-commit",
        failure: "The mutex is freed before COMMIT (mysql-mutex-in-tx): the next buyer reads the old stock.",
        cure: "Commit first, unlock then (mysql-mutex); or the arbiter.",
        kind: Kind::Load(Gates { wrong: "mysql-mutex-in-tx", right: "mysql-mutex", instances: 1 }),
    },
    Experiment {
        name: "mutex-two-instances",
        failure: "Two instances each have a mutex of their own (mysql-mutex).",
        cure: "A lock that both share (lock-redis); or the arbiter.",
        kind: Kind::Load(Gates { wrong: "mysql-mutex", right: "lock-redis", instances: 2 }),
    },
    Experiment {
        name: "lock-per-request",
        failure: "Every request makes a lock object of its own (mysql-mutex-per-request).",
        cure: "One object for all requests (mysql-mutex); or the arbiter.",
        kind: Kind::Load(Gates {
            wrong: "mysql-mutex-per-request",
            right: "mysql-mutex",
            instances: 1,
        }),
    },
    Experiment {
        name: "wrong-owner-release",
        failure: "A holder whose lease ran out deletes the key, which is the next holder's by then (plain Redis commands).",
        cure: "Compare-and-delete: the release frees the lock only if it still holds the owner's value.",
        kind: Kind::WrongOwner,
    },
    Experiment {
        name: "failover-loses-lock",
        failure: "The Redis that granted the lock dies before it has replicated it; the promoted replica grants it again.",
        cure: "The arbiter: the fence of the second holder is later, whatever Redis forgot.",
        kind: Kind::Failover,
    },
    Experiment {
        name: "counter-lost",
        failure: "A Redis without persistence restarts while purchases are between its counter and the ledger (redis-lua); the counter is loaded from a ledger that does not know them yet.",
        cure: "The arbiter: the stock row's condition refuses what is too much.",
        kind: Kind::CounterLost,
    },
    Experiment {
        name: "lock-order",
        failure: "Two baskets with the same two items lock them in opposite order and wait for each other (plain Redis commands).",
        cure: "A fixed order of locks.",
        kind: Kind::LockOrder,
    },
    Experiment {
        name: "timestamp-tick",
        failure: "Compare-and-set on a timestamp (mysql-timestamp): two writes in one tick look like none.",
        cure: "A version that counts (mysql-version); or the arbiter.",
        kind: Kind::Load(Gates { wrong: "mysql-timestamp", right: "mysql-version", instances: 1 }),
    },
    Experiment {
        name: "stale-replica",
        failure: "The stock is read from a replica that lags and taken on the master (plain Redis commands, a pair of our own).",
        cure: "Judge and take in one step where it is written.",
        kind: Kind::StaleReplica,
    },
    Experiment {
        name: "queue-lost",
        failure: "Buyers are answered 202 from a queue in a Redis without persistence, and it restarts (redis-stream).",
        cure: "A queue that is on the disk before the answer: appendfsync always. The arbiter cannot help: nothing reached it.",
        kind: Kind::QueueLost,
    },
];

/// One try.
#[derive(Debug, Clone, Copy)]
pub struct Try {
    /// Whether what saves it is in place.
    pub cured: bool,
    /// For loads.
    pub seed: u64,
}

/// How one try ended.
#[derive(Debug, Clone, Serialize)]
pub struct Trial {
    pub stock: i64,
    pub sold: i64,
    /// Whether the failure showed.
    pub broken: bool,
    pub detail: String,
}

/// All tries of one experiment.
#[derive(Debug, Serialize)]
struct Outcome {
    name: &'static str,
    failure: &'static str,
    cure: &'static str,
    times: u32,
    reproduced: u32,
    held: u32,
    /// Tries that could not be judged, and why.
    unjudged: Vec<String>,
    /// The last try without the cure, and with it.
    without: Option<Trial>,
    with: Option<Trial>,
    /// Why it was not tried.
    left_out: Option<String>,
}

impl Outcome {
    fn is_as_expected(&self) -> bool {
        f64::from(self.reproduced) >= f64::from(self.times) * REPRODUCED_SHARE_MIN
            && self.held == self.times
    }
}

/// Instances that several experiments share.
#[derive(Default)]
struct Running {
    plain: Vec<Service>,
    pair: Option<Pair>,
}

/// Runs the experiments and writes the report.
pub async fn run(options: &BreakOptions) -> Ended {
    let names = || LIST.iter().map(|experiment| experiment.name).collect::<Vec<_>>().join(", ");
    if options.only.iter().any(|name| name == "list") {
        return Ok((format!("{}\n", names()), EXIT_CLEAN));
    }
    if let Some(unknown) =
        options.only.iter().find(|name| !LIST.iter().any(|experiment| experiment.name == **name))
    {
        return Err(CannotJudge(format!("--only {unknown}: there are {}", names())));
    }
    let seed = options.seed.unwrap_or_else(rand::random);
    let ground = Ground::find(&options.ground, &options.out)?;
    let circumstances = ground.circumstances(seed).await?;
    let stage = Stage::set(&ground, options.ground.seckill.clone()).await?;
    let mut running = Running::default();
    let mut outcomes = Vec::new();
    for experiment in LIST.iter().filter(|experiment| {
        options.only.is_empty() || options.only.iter().any(|name| name == experiment.name)
    }) {
        outcomes.push(tries(experiment, options.times, seed, &stage, &mut running).await);
    }
    running.stop().await;
    let text = render(&outcomes, &circumstances);
    let report = Report { circumstances, experiments: outcomes };
    json::write(&options.out.join("failures.json"), &report)?;
    let path = options.out.join("failures.md");
    std::fs::write(&path, &text)
        .map_err(|error| CannotJudge(format!("{} not written: {error}", path.display())))?;
    Ok((text, report.exit_code()))
}

#[derive(Serialize)]
struct Report {
    circumstances: Circumstances,
    experiments: Vec<Outcome>,
}

impl Report {
    fn exit_code(&self) -> u8 {
        let tried: Vec<&Outcome> =
            self.experiments.iter().filter(|outcome| outcome.left_out.is_none()).collect();
        if tried.is_empty() {
            return EXIT_COULD_NOT_JUDGE;
        }
        if tried.iter().all(|outcome| outcome.is_as_expected()) {
            return EXIT_CLEAN;
        }
        let unexplained =
            tried.iter().any(|outcome| !outcome.is_as_expected() && outcome.unjudged.is_empty());
        if unexplained { EXIT_BROKEN } else { EXIT_COULD_NOT_JUDGE }
    }
}

async fn tries(
    experiment: &Experiment,
    times: u32,
    seed: u64,
    stage: &Stage<'_>,
    running: &mut Running,
) -> Outcome {
    let mut outcome = Outcome {
        name: experiment.name,
        failure: experiment.failure,
        cure: experiment.cure,
        times,
        reproduced: 0,
        held: 0,
        unjudged: Vec::new(),
        without: None,
        with: None,
        left_out: None,
    };
    if matches!(experiment.kind, Kind::QueueLost)
        && !stage.has_strategy("redis-stream", running).await
    {
        outcome.left_out = Some("this service has no redis-stream".to_owned());
        return outcome;
    }
    for number in 0..times {
        for cured in [false, true] {
            let attempt = Try { cured, seed: seed.wrapping_add(u64::from(number)) };
            let word = if cured { "with its cure" } else { "without" };
            match Box::pin(once(experiment.kind, stage, running, &attempt)).await {
                Ok(trial) => {
                    eprintln!(
                        "{} {} of {times}, {word}: {} sold of {}; {}",
                        experiment.name,
                        number + 1,
                        trial.sold,
                        trial.stock,
                        trial.detail
                    );
                    match (cured, trial.broken) {
                        (false, true) => outcome.reproduced += 1,
                        (true, false) => outcome.held += 1,
                        _ => {}
                    }
                    let kept = if cured { &mut outcome.with } else { &mut outcome.without };
                    *kept = Some(trial);
                }
                Err(CannotJudge(reason)) => {
                    eprintln!("{} {} of {times}, {word}: {reason}", experiment.name, number + 1);
                    outcome.unjudged.push(format!("{word}: {reason}"));
                }
            }
        }
    }
    outcome
}

async fn once(
    kind: Kind,
    stage: &Stage<'_>,
    running: &mut Running,
    attempt: &Try,
) -> Result<Trial, CannotJudge> {
    match kind {
        Kind::Load(gates) => {
            let instances = running.instances(stage).await?;
            load::fire(gates, stage, &instances, attempt).await
        }
        Kind::LeaseExpires => {
            if running.pair.is_none() {
                running.pair = Some(Pair::start(stage).await?);
            }
            match &running.pair {
                Some(pair) => pair.lease_expires(stage, attempt).await,
                None => Err(CannotJudge("no instance".to_owned())),
            }
        }
        Kind::Failover => late::failover(stage, attempt).await,
        Kind::CounterLost => late::counter_lost(stage, attempt).await,
        Kind::QueueLost => late::queue_lost(stage, attempt).await,
        Kind::WrongOwner => plain::wrong_owner(stage, attempt).await,
        Kind::LockOrder => plain::lock_order(stage, attempt).await,
        Kind::StaleReplica => plain::stale_replica(stage, attempt).await,
    }
}

impl Running {
    /// Two instances on the shop's servers.
    async fn instances(&mut self, stage: &Stage<'_>) -> Result<Vec<Instance>, CannotJudge> {
        while self.plain.len() < 2 {
            let name = format!("break-{}", self.plain.len() + 1);
            self.plain.push(stage.service(&name, &[]).await?);
        }
        Ok(self.plain.iter().map(|service| service.instance.clone()).collect())
    }

    async fn stop(self) {
        for service in self.plain {
            service.stop().await;
        }
        if let Some(pair) = self.pair {
            pair.stop().await;
        }
    }
}

impl Stage<'_> {
    async fn has_strategy(&self, name: &str, running: &mut Running) -> bool {
        let Ok(instances) = running.instances(self).await else {
            return false;
        };
        self.strategies(&instances).await.iter().any(|known| known == name)
    }
}

fn render(outcomes: &[Outcome], circumstances: &Circumstances) -> String {
    let mut text = String::from("# Known failures, and what saves them\n\n");
    push(&mut text, "| circumstance | |\n|---|---|\n");
    for (name, value) in circumstances.rows() {
        push(&mut text, &format!("| {name} | {value} |\n"));
    }
    push(
        &mut text,
        "\n| experiment | reproduced | cure held | without: sold of stock | with: sold of stock |\n|---|---|---|---|---|\n",
    );
    for outcome in outcomes {
        let sold = |trial: &Option<Trial>| {
            trial.as_ref().map_or_else(
                || "-".to_owned(),
                |trial| format!("{} of {}", trial.sold, trial.stock),
            )
        };
        let row = format!(
            "| `{}` | {} of {} | {} of {} | {} | {} |\n",
            outcome.name,
            outcome.reproduced,
            outcome.times,
            outcome.held,
            outcome.times,
            sold(&outcome.without),
            sold(&outcome.with)
        );
        push(&mut text, &row);
    }
    for outcome in outcomes {
        push(&mut text, &format!("\n## {}\n\n{}\n", outcome.name, outcome.failure));
        if let Some(reason) = &outcome.left_out {
            push(&mut text, &format!("\nNot tried: {reason}.\n"));
            continue;
        }
        if let Some(trial) = &outcome.without {
            push(
                &mut text,
                &format!(
                    "\n* Without: {} units sold of {}; {}.\n",
                    trial.sold, trial.stock, trial.detail
                ),
            );
        }
        push(&mut text, &format!("* What saves it: {}\n", outcome.cure));
        if let Some(trial) = &outcome.with {
            push(
                &mut text,
                &format!(
                    "* With: {} units sold of {}; {}.\n",
                    trial.sold, trial.stock, trial.detail
                ),
            );
        }
        for reason in &outcome.unjudged {
            push(&mut text, &format!("* Could not be judged, {reason}.\n"));
        }
    }
    text
}

fn push(text: &mut String, part: &str) {
    text.write_str(part).expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(times: u32, reproduced: u32, held: u32) -> Outcome {
        Outcome {
            name: "x",
            failure: "",
            cure: "",
            times,
            reproduced,
            held,
            unjudged: Vec::new(),
            without: None,
            with: None,
            left_out: None,
        }
    }

    #[test]
    fn nineteen_of_twenty_are_enough_to_break_and_twenty_to_hold() {
        assert!(outcome(20, 19, 20).is_as_expected());
        assert!(!outcome(20, 18, 20).is_as_expected());
        assert!(!outcome(20, 20, 19).is_as_expected());
        assert!(!outcome(3, 2, 3).is_as_expected());
    }
}

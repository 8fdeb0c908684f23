//! The closed model: a fixed number of connections, each sending its next purchase after its reply.
//!
//! It finds the highest throughput of the service. A stall of the service also stalls the callers, so
//! its latencies say little about buyers who do not wait: that is what the open model is for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::sync::Barrier;

use super::caller::Caller;
use super::{Drive, Traffic};

/// Sends the plan with all connections made first and one common start.
pub async fn run(drive: &Arc<Drive>) -> Traffic {
    let callers = drive.policy.concurrency.min(drive.plan.requests.len());
    let ready = Arc::new(Barrier::new(callers));
    let tasks: Vec<_> = (0..callers)
        .map(|number| tokio::spawn(call(Arc::clone(drive), number, Arc::clone(&ready))))
        .collect();
    let mut parts = Vec::with_capacity(tasks.len());
    for task in tasks {
        parts.push(task.await.expect("a caller does not panic"));
    }
    // Each caller timed its answers from its own passing of the barrier; bring them together.
    let started = parts.iter().map(|(started, _)| *started).min().unwrap_or_else(Instant::now);
    let mut answers = Vec::with_capacity(drive.plan.requests.len());
    for (own_start, part) in parts {
        let late_us = super::micros_since(started, own_start);
        answers.extend(part.into_iter().map(|mut answer| {
            answer.answered_at_us += late_us;
            answer
        }));
    }
    Traffic { answers, started: Some(started), ..Traffic::default() }
}

async fn call(
    drive: Arc<Drive>,
    number: usize,
    ready: Arc<Barrier>,
) -> (Instant, Vec<ledger_audit::Answer>) {
    let mut caller = Caller::new(Arc::clone(&drive), number);
    caller.prepare().await;
    ready.wait().await;
    let started = Instant::now();
    caller.start(started);
    loop {
        if drive.policy.is_over(started) {
            return (started, caller.answers);
        }
        let index = drive.tally.next.fetch_add(1, Ordering::Relaxed);
        if index >= drive.plan.requests.len() {
            return (started, caller.answers);
        }
        caller.purchase(index, Instant::now()).await;
    }
}

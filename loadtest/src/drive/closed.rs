//! The closed model: a fixed number of connections, each sending its next purchase after its reply.
//!
//! It finds the highest throughput of the service. A stall of the service also stalls the callers, so
//! its latencies say little about buyers who do not wait: that is what the open model is for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::caller::Caller;
use super::threads::CallerThreads;
use super::{Drive, Traffic};
use ledger_audit::Answer;

/// Sends the plan over callers that are connected.
pub async fn run(drive: &Arc<Drive>, callers: Vec<Caller>, threads: &CallerThreads) -> Traffic {
    let started = Instant::now();
    let tasks: Vec<_> = callers
        .into_iter()
        .enumerate()
        .map(|(number, caller)| threads.of(number).spawn(call(Arc::clone(drive), caller, started)))
        .collect();
    let mut answers = Vec::with_capacity(drive.plan.requests.len());
    for task in tasks {
        answers.append(&mut task.await.expect("a caller does not panic"));
    }
    Traffic { answers, started: Some(started), ..Traffic::default() }
}

async fn call(drive: Arc<Drive>, mut caller: Caller, started: Instant) -> Vec<Answer> {
    caller.start(started);
    while !drive.is_over(started) {
        let size = drive.batches.as_ref().map_or(1, |batches| batches.size);
        let index = drive.tally.next.fetch_add(size, Ordering::Relaxed);
        let end = drive.plan.requests.len().min(index + size);
        if index >= end {
            break;
        }
        caller.purchase(index..end, Instant::now()).await;
    }
    caller.answers
}

//! The open model: purchases are due at planned instants, whether or not replies have come.
//!
//! Latency counts from the planned instant, so a stall of the service shows in every purchase
//! that fell due meanwhile. Connections are bounded; when all are busy the purchase is dropped
//! and counted, never sent late in silence.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::caller::Caller;
use super::{Drive, Traffic};
use ledger_audit::Answer;

/// Between the last preparation and the first arrival.
const RUN_UP: Duration = Duration::from_millis(50);

/// How long the clock sleeps at least: it shares the cores with the service, and each time that it wakes up
/// costs as much as a request. The latency of a purchase counts from its planned instant nevertheless.
const SLEEP_MIN: Duration = Duration::from_micros(200);

/// Callers without work, longest wait first, so that all connections (and instances) are used
/// alike.
type Idle = Arc<Mutex<VecDeque<usize>>>;

/// Sends the plan at its instants, over callers that are connected.
pub async fn run(drive: &Arc<Drive>, callers: Vec<Caller>) -> Traffic {
    let idle: Idle = Arc::new(Mutex::new(VecDeque::with_capacity(callers.len())));
    let mut inboxes = Vec::with_capacity(callers.len());
    let started = Instant::now() + RUN_UP;
    let mut tasks = Vec::with_capacity(callers.len());
    for (number, mut caller) in callers.into_iter().enumerate() {
        let (inbox, work) = mpsc::unbounded_channel();
        inboxes.push(inbox);
        locked(&idle).push_back(number);
        caller.start(started);
        tasks.push(tokio::spawn(call(caller, number, work, Arc::clone(&idle))));
    }
    let clock = {
        let drive = Arc::clone(drive);
        let idle = Arc::clone(&idle);
        // A thread of its own: the runtime's timer is no finer than a millisecond.
        thread::spawn(move || dispatch(&drive, &idle, &inboxes, started))
    };
    let mut answers = Vec::with_capacity(drive.plan.requests.len());
    for task in tasks {
        answers.append(&mut task.await.expect("a caller does not panic"));
    }
    let dropped = clock.join().expect("the clock does not panic");
    Traffic { answers, dropped, started: Some(started), ..Traffic::default() }
}

/// Hands each purchase to an idle caller when it is due; returns how many found none.
fn dispatch(
    drive: &Drive,
    idle: &Idle,
    inboxes: &[mpsc::UnboundedSender<(usize, Instant)>],
    started: Instant,
) -> u64 {
    let mut dropped = 0;
    let arrivals = drive.plan.arrivals.as_deref().unwrap_or_default();
    for (index, arrival) in arrivals.iter().enumerate() {
        let due = started + *arrival;
        let early = due.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            thread::sleep(early.max(SLEEP_MIN));
        }
        if drive.is_stopped() {
            break;
        }
        let next = locked(idle).pop_front();
        let sent = next.is_some_and(|number| inboxes[number].send((index, due)).is_ok());
        if !sent {
            dropped += 1;
            drive.tally.done.fetch_add(1, Ordering::Relaxed);
        }
    }
    dropped
}

async fn call(
    mut caller: Caller,
    number: usize,
    mut work: mpsc::UnboundedReceiver<(usize, Instant)>,
    idle: Idle,
) -> Vec<Answer> {
    while let Some((index, due)) = work.recv().await {
        caller.purchase(index, due).await;
        locked(&idle).push_back(number);
    }
    caller.answers
}

fn locked(idle: &Mutex<VecDeque<usize>>) -> MutexGuard<'_, VecDeque<usize>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

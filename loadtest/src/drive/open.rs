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

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::caller::Caller;
use super::threads::{CallerThreads, of_caller};
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

/// A purchase of the plan and the instant at which it is due.
type Due = (usize, Instant);

/// Sends the plan at its instants, over callers that are connected.
pub async fn run(drive: &Arc<Drive>, callers: Vec<Caller>, threads: &CallerThreads) -> Traffic {
    let idle: Idle = Arc::new(Mutex::new(VecDeque::with_capacity(callers.len())));
    let mut inboxes = Vec::with_capacity(callers.len());
    let started = Instant::now() + RUN_UP;
    let mut tasks = Vec::with_capacity(callers.len());
    for (number, mut caller) in callers.into_iter().enumerate() {
        let (inbox, work) = mpsc::unbounded_channel();
        inboxes.push(inbox);
        locked(&idle).push_back(number);
        caller.start(started);
        tasks.push(threads.of(number).spawn(call(caller, number, work, Arc::clone(&idle))));
    }
    let inboxes: Arc<[_]> = inboxes.into();
    let start_forwarder = |runtime: &Handle| {
        let (forwarder, purchases) = mpsc::unbounded_channel();
        runtime.spawn(forward(purchases, Arc::clone(&inboxes)));
        forwarder
    };
    let forwarders: Vec<_> = threads.runtimes().map(start_forwarder).collect();
    drop(inboxes);
    let clock = {
        let drive = Arc::clone(drive);
        let idle = Arc::clone(&idle);
        // A thread of its own: the runtime's timer is no finer than a millisecond.
        thread::spawn(move || dispatch(&drive, &idle, &forwarders, started))
    };
    let mut answers = Vec::with_capacity(drive.plan.requests.len());
    for task in tasks {
        answers.append(&mut task.await.expect("a caller does not panic"));
    }
    let dropped = clock.join().expect("the clock does not panic");
    Traffic { answers, dropped, started: Some(started), ..Traffic::default() }
}

/// Has each purchase handed to an idle caller when it is due; returns how many found none.
///
/// A busy thread looks only now and then for tasks that another thread has woken up, and takes one of them. So each thread
/// of callers has one task, the forwarder, which is woken up from here and hands all due purchases to the callers.
fn dispatch(
    drive: &Drive,
    idle: &Idle,
    forwarders: &[mpsc::UnboundedSender<(usize, Due)>],
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
        let sent = next.is_some_and(|number| {
            of_caller(forwarders, number).send((number, (index, due))).is_ok()
        });
        if !sent {
            dropped += 1;
            drive.tally.done.fetch_add(1, Ordering::Relaxed);
        }
    }
    dropped
}

/// Hands purchases to the callers of one thread.
async fn forward(
    mut purchases: mpsc::UnboundedReceiver<(usize, Due)>,
    inboxes: Arc<[mpsc::UnboundedSender<Due>]>,
) {
    while let Some((number, due)) = purchases.recv().await {
        // A caller works until all forwarders have ended.
        let _ = inboxes[number].send(due);
    }
}

async fn call(
    mut caller: Caller,
    number: usize,
    mut work: mpsc::UnboundedReceiver<Due>,
    idle: Idle,
) -> Vec<Answer> {
    while let Some((index, due)) = work.recv().await {
        caller.purchase(index..index + 1, due).await;
        locked(&idle).push_back(number);
    }
    caller.answers
}

fn locked(idle: &Mutex<VecDeque<usize>>) -> MutexGuard<'_, VecDeque<usize>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

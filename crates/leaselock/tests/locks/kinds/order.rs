//! The order in which waiters are served.

use std::sync::{Arc, Mutex as StdMutex};

use leaselock::{Capabilities, Mutex, Primitive, ReleaseOutcome};

use crate::testbed::{Testbed, name};
use crate::{LONG_LEASE, until, waiting};

pub async fn a_process_serves_its_waiters_in_the_order_in_which_they_came(
    kind: &'static Capabilities,
) {
    const WAITERS: u64 = 20;
    let testbed = Testbed::new();
    // Where several can hold, nobody of a process waits behind one that holds.
    let in_line =
        |kind: &Capabilities| kind.fair_in_process && kind.primitive != Primitive::Semaphore;
    if !in_line(kind) {
        return;
    }
    let (label, process, _) = testbed.pair(kind).await;
    let holder = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let served = Arc::new(StdMutex::new(Vec::new()));
    let mut waiters = tokio::task::JoinSet::new();
    for number in 0..WAITERS {
        let (waiter, served) = (process.clone(), served.clone());
        waiters.spawn(async move {
            let guard = waiter.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
            served.lock().expect("served").push(number);
            guard.release().await
        });
        let in_line = || process.stats().snapshot().waiting_now;
        until("the waiter stands in line", || in_line() == number + 1).await;
    }
    assert_eq!(holder.release().await, ReleaseOutcome::Released, "{label}");
    waiters.join_all().await;
    let in_order: Vec<u64> = (0..WAITERS).collect();
    assert_eq!(*served.lock().expect("served"), in_order, "{label}");
}

pub async fn processes_are_served_in_the_order_in_which_they_came(kind: &'static Capabilities) {
    const PROCESSES: usize = 6;
    let testbed = Testbed::new();
    if !kind.fair_between_processes {
        return;
    }
    let (label, first, _) = testbed.pair(kind).await;
    let holder = first.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let served = Arc::new(StdMutex::new(Vec::new()));
    let mut waiters = tokio::task::JoinSet::new();
    for number in 0..PROCESSES {
        let (process, served) = (testbed.process(kind).await, served.clone());
        let waiter = process.clone();
        waiters.spawn(async move {
            let guard = waiter.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
            served.lock().expect("served").push(number);
            guard.release().await
        });
        // It has been refused once, so it has its place.
        until("it waits", || process.stats().snapshot().contended == 1).await;
    }
    assert_eq!(holder.release().await, ReleaseOutcome::Released);
    waiters.join_all().await;
    let in_order: Vec<usize> = (0..PROCESSES).collect();
    assert_eq!(*served.lock().expect("served"), in_order, "{label}");
}

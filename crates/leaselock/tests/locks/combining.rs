//! Operations that are submitted together run together, and fail alone.

use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use leaselock::combine::{CombineOptions, Combiner, Executor, SubmitError, each};
use leaselock::store::{AcquireResult, LeaseStore, StoreResult, Token};
use leaselock::{AcquireError, LeasedMutex, LockName, ReleaseOutcome, local};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use super::testbed::{Testbed, name};
use super::{LONG_LEASE, PATIENCE, at_once, until, waiting};

fn options(batch_max: usize) -> CombineOptions {
    CombineOptions { lease: LONG_LEASE, batch_max, queued_max: 1_000 }
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// Adds each input to a sum that is read and written once a batch.
fn adder(sum: Arc<StdMutex<u64>>, batches: Arc<StdMutex<Vec<usize>>>) -> Executor<u64, u64> {
    Arc::new(move |_, operations| {
        let (sum, batches) = (sum.clone(), batches.clone());
        Box::pin(async move {
            batches.lock().expect("batches").push(operations.len());
            let mut now = *sum.lock().expect("the sum");
            tokio::task::yield_now().await;
            for mut operation in operations {
                now += operation.take_input().expect("its input");
                operation.answer(now);
            }
            *sum.lock().expect("the sum") = now;
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_that_wait_run_in_one_batch_under_one_hold() {
    let testbed = Testbed::new();
    let excludes = |kind: &leaselock::Capabilities| kind.fencing == leaselock::Fencing::Rising;
    for (label, process, other) in testbed.pairs(excludes).await {
        for (batch_max, batches_wanted) in [(64, 3..=4), (1, 130..=130)] {
            let (sum, batches) = (Arc::default(), Arc::default());
            let holder = other.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
            let combiner = Combiner::start(
                process.clone(),
                name(),
                options(batch_max),
                adder(Arc::clone(&sum), Arc::clone(&batches)),
                &TaskTracker::new(),
            );
            let contended = process.stats().snapshot().contended;
            let mut callers = tokio::task::JoinSet::new();
            for _ in 0..130 {
                let combiner = combiner.clone();
                callers.spawn(async move { combiner.submit(1, soon()).await });
            }
            until("it waits for the lock", || process.stats().snapshot().contended > contended)
                .await;
            assert_eq!(holder.release().await, ReleaseOutcome::Released, "{label}");
            let mut sums: Vec<u64> =
                callers.join_all().await.into_iter().map(|sum| sum.expect("done")).collect();
            sums.sort_unstable();
            assert_eq!(sums, (1..=130).collect::<Vec<u64>>(), "{label}");
            let batches = batches.lock().expect("batches");
            assert!(batches_wanted.contains(&batches.len()), "{label}: {batches:?}");
        }
    }
}

/// C5: one panics, one is given up before and one while it runs: each spoils only its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_a_panic_or_a_caller_that_left_spoils_only_its_own() {
    let process = local::mutex(&local::Names::default(), &TaskTracker::new());
    let ran = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&ran);
    let execute = each(move |_, input: u64| {
        let ran = Arc::clone(&counted);
        async move {
            assert_ne!(input, 3, "meant to happen: an operation panics");
            ran.fetch_add(1, Ordering::SeqCst);
            input * 10
        }
    });
    let holder = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let tasks = TaskTracker::new();
    let combiner = Combiner::start(process.clone(), name(), options(64), execute, &tasks);
    let submit = |input| {
        let combiner = combiner.clone();
        tokio::spawn(async move { combiner.submit(input, soon()).await })
    };
    let callers: Vec<_> = (0..6).map(submit).collect();
    until("one waits for the lock", || process.stats().snapshot().waiting_now == 1).await;
    callers[4].abort();
    let too_late = combiner.submit(7, Instant::now()).await;
    assert_eq!(too_late, Err(SubmitError::TimedOut));
    until("the caller left", || callers[4].is_finished()).await;
    assert_eq!(holder.release().await, ReleaseOutcome::Released);
    for (input, caller) in (0..).zip(callers) {
        match (input, caller.await) {
            (4, answer) => assert!(answer.is_err(), "it was aborted"),
            (3, answer) => assert_eq!(answer.expect("no panic"), Err(SubmitError::Unknown)),
            (_, answer) => assert_eq!(answer.expect("no panic"), Ok(input * 10)),
        }
    }
    assert_eq!(ran.load(Ordering::SeqCst), 4, "what was taken back has run");
    // It goes on, and what it held is free.
    assert_eq!(combiner.submit(8, soon()).await, Ok(80));
    drop(combiner);
    tasks.close();
    timeout(PATIENCE, tasks.wait()).await.expect("its task ends");
    let guard = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}

/// A backend that never answers.
struct Away;

#[async_trait]
impl LeaseStore for Away {
    async fn acquire(&self, _name: &LockName, _token: &Token, _lease: Duration) -> AcquireResult {
        std::future::pending().await
    }

    async fn renew(&self, _name: &LockName, _token: &Token, _lease: Duration) -> StoreResult<bool> {
        std::future::pending().await
    }

    async fn release(&self, _name: &LockName, _token: &Token) -> StoreResult<bool> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn all_operations_that_wait_are_told_that_the_backend_is_away() {
    let process = LeasedMutex::start(Arc::new(Away), &local::CAPABILITIES, &TaskTracker::new());
    let execute = each(|_, (): ()| async {});
    let tasks = TaskTracker::new();
    let combiner = Combiner::start(process, name(), options(64), execute, &tasks);
    let deadline = soon();
    for answer in join_all((0..100).map(|_| combiner.submit((), deadline))).await {
        let is_told = matches!(answer, Err(SubmitError::NotLocked(AcquireError::Unavailable(_))));
        assert!(is_told, "{answer:?}");
    }
}

#[tokio::test]
async fn what_cannot_wait_is_refused_and_not_run() {
    let process = local::mutex(&local::Names::default(), &TaskTracker::new());
    let holder = process.acquire(&name(), at_once(LONG_LEASE)).await.expect("granted");
    let ran = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&ran);
    let execute = each(move |_, (): ()| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    let one = CombineOptions { queued_max: 1, ..options(64) };
    let combiner = Combiner::start(process.clone(), name(), one, execute, &TaskTracker::new());
    let until_soon = Instant::now() + Duration::from_millis(200);
    let first = {
        let combiner = combiner.clone();
        tokio::spawn(async move { combiner.submit((), until_soon).await })
    };
    until("the first waits for the lock", || process.stats().snapshot().waiting_now == 1).await;
    let (second, third) =
        tokio::join!(combiner.submit((), until_soon), combiner.submit((), until_soon));
    assert_eq!((second, third), (Err(SubmitError::TimedOut), Err(SubmitError::QueueFull)));
    let first = first.await.expect("no panic");
    let refused = [SubmitError::TimedOut, SubmitError::NotLocked(AcquireError::TimedOut)];
    assert!(refused.contains(first.as_ref().expect_err("the lock is held")), "{first:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(holder.release().await, ReleaseOutcome::Released);
}

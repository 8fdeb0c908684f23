//! Combining: what many callers want to do under one lock is done in one batch under one hold.
//!
//! **How it works.** [`Combiner::submit`] puts an operation into a queue and waits for its answer.
//! One task takes the lock, takes what has come meanwhile, up to a bound, out of the queue, and gives
//! all of it to the caller's [`Executor`], which can make one script or one statement of it. Passing
//! a lock on saves the way to the backend; combining saves most of the work under the lock, too.
//!
//! **What can go wrong.** An operation whose executor panicked or did not answer may have been done:
//! [`SubmitError::Unknown`]. An executor that runs operations one by one should run them with
//! [`each`], so that a panic in one spoils only its own.
//!
//! **When to use it.** When many callers of one process change the same thing, and the change of many
//! costs hardly more than that of one. With a `batch_max` of 1 it is off: each operation has a hold
//! of its own.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::guard::Hold;
use crate::{AcquireError, AcquireOptions, Fence, Guard, LockName, Mutex, Wait};

/// How operations are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CombineOptions {
    /// The lease of each hold; see [`AcquireOptions::lease`].
    pub lease: Duration,
    /// How many operations run under one hold at most; 1 switches combining off.
    pub batch_max: usize,
    /// How many operations may wait at most.
    pub queued_max: usize,
}

/// Runs a batch. It answers each operation by [`Operation::answer`]; the others are answered with
/// [`SubmitError::Unknown`] when it has ended.
pub type Executor<I, O> =
    Arc<dyn Fn(HeldFor, Vec<Operation<I, O>>) -> BoxFuture<'static, ()> + Send + Sync>;

/// The hold under which a batch runs.
#[derive(Clone)]
pub struct HeldFor {
    /// As [`Guard::fence`].
    pub fence: Option<Fence>,
    /// As [`Guard::lost`].
    pub lost: CancellationToken,
    hold: Arc<Hold>,
}

impl HeldFor {
    fn of(guard: &Guard) -> Self {
        Self { fence: guard.fence(), lost: guard.lost(), hold: Arc::clone(&guard.hold) }
    }

    /// As [`Guard::is_lost`]: to be asked before each write. After a pause of the whole process the
    /// clock knows that the hold is over, and the signal not yet.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled() || self.hold.is_over_by_the_clock()
    }
}

impl fmt::Debug for HeldFor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HeldFor")
            .field("fence", &self.fence)
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

/// One operation of a batch.
#[derive(Debug)]
pub struct Operation<I, O> {
    input: Option<I>,
    reply: oneshot::Sender<Result<O, SubmitError>>,
}

impl<I, O> Operation<I, O> {
    /// What the caller submitted; `None` if it was taken before.
    pub fn take_input(&mut self) -> Option<I> {
        self.input.take()
    }

    /// Tells the caller what came of it. Who has gone is not told.
    pub fn answer(self, output: O) {
        drop(self.reply.send(Ok(output)));
    }
}

/// Why an operation has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Too many operations wait; it was not run.
    #[error("too many operations are waiting")]
    QueueFull,
    /// Its time was over before it was begun; it was not run.
    #[error("the operation was not begun in time")]
    TimedOut,
    /// There was no lock for it; it was not run.
    #[error("no lock for the operation: {0}")]
    NotLocked(AcquireError),
    /// It was begun, and may or may not have been done.
    #[error("it is not known whether the operation was done")]
    Unknown,
}

/// Combines what is submitted for one name. Clones share one queue.
pub struct Combiner<I, O> {
    queue: mpsc::Sender<Queued<I, O>>,
}

impl<I, O> Clone for Combiner<I, O> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

struct Queued<I, O> {
    operation: Operation<I, O>,
    state: Arc<AtomicU8>,
    until: Instant,
}

const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Only one of the two can happen: the batch begins it, or the caller takes it back.
fn claim(state: &AtomicU8, next: u8) -> bool {
    state.compare_exchange(WAITS, next, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Takes the operation back when its caller goes away before it was begun.
struct Withdraw(Arc<AtomicU8>);

impl Drop for Withdraw {
    fn drop(&mut self) {
        claim(&self.0, WITHDRAWN);
    }
}

impl<I: Send + 'static, O: Send + 'static> Combiner<I, O> {
    /// Starts its task on `tasks`; it ends with the last clone, after what was submitted is done.
    pub fn start(
        mutex: Arc<dyn Mutex>,
        name: LockName,
        options: CombineOptions,
        execute: Executor<I, O>,
        tasks: &TaskTracker,
    ) -> Self {
        let (queue, queued) = mpsc::channel(options.queued_max.max(1));
        tasks.spawn(run(mutex, name, options, execute, queued));
        Self { queue }
    }

    /// Has `input` run under the lock, and answers what came of it, by `until` at the latest.
    /// Dropping the future takes the operation back unless it has been begun.
    ///
    /// # Errors
    /// See [`SubmitError`]; only after `Unknown` something may have been done.
    pub async fn submit(&self, input: I, until: Instant) -> Result<O, SubmitError> {
        let (reply, answer) = oneshot::channel();
        let state = Arc::new(AtomicU8::new(WAITS));
        let withdraw = Withdraw(Arc::clone(&state));
        let operation = Operation { input: Some(input), reply };
        let queued = Queued { operation, state, until };
        self.queue.try_send(queued).map_err(|_| SubmitError::QueueFull)?;
        match timeout_at(until, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(SubmitError::Unknown),
            Err(_) => {
                // When the lock was waited for in vain, the other side has taken it back already.
                claim(&withdraw.0, WITHDRAWN);
                match withdraw.0.load(Ordering::Acquire) {
                    BEGUN => Err(SubmitError::Unknown),
                    _ => Err(SubmitError::TimedOut),
                }
            }
        }
    }
}

async fn run<I: Send + 'static, O: Send + 'static>(
    mutex: Arc<dyn Mutex>,
    name: LockName,
    options: CombineOptions,
    execute: Executor<I, O>,
    mut queued: mpsc::Receiver<Queued<I, O>>,
) {
    while let Some(first) = queued.recv().await {
        if first.state.load(Ordering::Acquire) == WITHDRAWN {
            continue;
        }
        let wait = Wait::Until(first.until);
        let acquired = mutex.acquire(&name, AcquireOptions { lease: options.lease, wait }).await;
        let guard = match acquired {
            Ok(guard) => guard,
            Err(error) => {
                if claim(&first.state, WITHDRAWN) {
                    drop(first.operation.reply.send(Err(SubmitError::NotLocked(error))));
                }
                continue;
            }
        };
        let mut batch = Vec::new();
        begin(&mut batch, first);
        while batch.len() < options.batch_max
            && let Ok(next) = queued.try_recv()
        {
            begin(&mut batch, next);
        }
        run_batch(&guard, &execute, batch).await;
        // Lost meanwhile or not: the executor could see it, and had the fence.
        let _ = guard.release().await;
    }
}

fn begin<I, O>(batch: &mut Vec<Operation<I, O>>, queued: Queued<I, O>) {
    if claim(&queued.state, BEGUN) {
        batch.push(queued.operation);
    }
}

async fn run_batch<I, O>(guard: &Guard, execute: &Executor<I, O>, batch: Vec<Operation<I, O>>) {
    if batch.is_empty() {
        return;
    }
    let held = HeldFor::of(guard);
    // Whoever was not answered learns it when its operation is dropped.
    let ran = AssertUnwindSafe(async { execute(held, batch).await }).catch_unwind().await;
    if ran.is_err() {
        tracing::error!("a batch of operations panicked");
    }
}

/// An executor that runs one operation after the other. A panic in one leaves the others alone.
pub fn each<I, O, F>(run: impl Fn(HeldFor, I) -> F + Send + Sync + 'static) -> Executor<I, O>
where
    I: Send + 'static,
    O: Send + 'static,
    F: Future<Output = O> + Send + 'static,
{
    let run = Arc::new(run);
    Arc::new(move |held, batch| {
        let run = Arc::clone(&run);
        Box::pin(async move {
            for mut operation in batch {
                let Some(input) = operation.take_input() else { continue };
                let (held, run) = (held.clone(), Arc::clone(&run));
                let one = AssertUnwindSafe(async move { run(held, input).await }).catch_unwind();
                match one.await {
                    Ok(output) => operation.answer(output),
                    Err(_) => tracing::error!("an operation panicked"),
                }
            }
        })
    })
}

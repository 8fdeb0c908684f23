//! Combining: the operations of many callers run as one batch under one hold of a lock.
//!
//! **How it works.** [`Combiner::submit`] puts an operation into a queue and waits for its answer.
//! One task acquires the lock, takes the operations that came meanwhile out of the queue, up to a
//! limit, and gives them to the caller's [`Executor`], which can make one script or one statement of
//! them. Hand-over saves the round trips to the backend; combining also saves most of the work under
//! the lock. The technique is flat combining (Hendler, Incze, Shavit, Tzafrir, 2010).
//!
//! **What can go wrong.** When an executor panics or does not answer, its operation may have been
//! done: [`SubmitError::Unknown`]. An executor that runs operations one by one should run them with
//! [`each`], so that a panic in one spoils only its own.
//!
//! **When to use it.** When many callers of one client change the same thing, and many changes at
//! once cost hardly more than one. A `batch_max` of 1 switches it off: each operation has a hold of
//! its own.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::guard::LostSignal;
use super::hold::Hold;
use crate::{AcquireError, AcquireOptions, Fence, Guard, LeasedMutex, LockName, Wait};

/// How operations are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CombineOptions {
    /// The lease of each hold; see [`AcquireOptions::lease`].
    pub lease: Duration,
    /// The most operations under one hold; 1 switches combining off.
    pub batch_max: usize,
    /// The most operations that may wait.
    pub queued_max: usize,
}

/// Runs a batch. It answers each operation by [`Operation::answer`]; when it has ended, operations
/// without an answer are answered with [`SubmitError::Unknown`].
pub type Executor<I, O> =
    Arc<dyn Fn(BatchHold, Vec<Operation<I, O>>) -> BoxFuture<'static, ()> + Send + Sync>;

/// The hold under which a batch runs.
#[derive(Clone)]
pub struct BatchHold {
    /// The fence of the hold: see [`Guard::fence`].
    pub fence: Option<Fence>,
    /// The lost signal of the hold: see [`Guard::lost`].
    pub lost: LostSignal,
    hold: Arc<Hold>,
}

impl BatchHold {
    fn of(guard: &Guard) -> Self {
        Self { fence: guard.fence(), lost: guard.lost(), hold: Arc::clone(&guard.hold) }
    }

    /// Whether the hold is over: see [`Guard::is_lost`]. Ask it before each write. After a pause of the process the
    /// clock shows that the hold is over before the signal fires.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled() || self.hold.is_over_by_the_clock()
    }
}

/// One operation of a batch.
#[derive(Debug)]
pub struct Operation<I, O> {
    input: Option<I>,
    reply: oneshot::Sender<Result<O, SubmitError>>,
}

impl<I, O> Operation<I, O> {
    /// Takes what the caller submitted; `None` if it was taken before.
    pub fn take_input(&mut self) -> Option<I> {
        self.input.take()
    }

    /// Sends the result to the caller, if it still waits.
    pub fn answer(self, output: O) {
        drop(self.reply.send(Ok(output)));
    }
}

/// Why an operation has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Too many operations wait; it was not run.
    #[error("too many operations are waiting")]
    QueueFull,
    /// Its time was over before it began; it was not run.
    #[error("the operation was not begun in time")]
    TimedOut,
    /// The lock was not granted; it was not run.
    #[error("no lock for the operation: {0}")]
    NotLocked(#[source] AcquireError),
    /// The operation began, and may or may not have been done.
    #[error("it is not known whether the operation was done")]
    Unknown,
}

/// Combines the operations for one name. Clones share one queue.
pub struct Combiner<I, O> {
    queue: mpsc::Sender<QueueEntry<I, O>>,
}

impl<I, O> Clone for Combiner<I, O> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

struct QueueEntry<I, O> {
    operation: Operation<I, O>,
    state: Arc<AtomicU8>,
    until: Instant,
}

const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Moves a waiting operation to `next`. Only one can win: the batch that begins it, or the caller that
/// withdraws it.
fn claim(state: &AtomicU8, next: u8) -> bool {
    state.compare_exchange(WAITS, next, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Withdraws the operation when its caller goes away before it began.
struct Withdraw(Arc<AtomicU8>);

impl Drop for Withdraw {
    fn drop(&mut self) {
        claim(&self.0, WITHDRAWN);
    }
}

impl<I: Send + 'static, O: Send + 'static> Combiner<I, O> {
    /// Starts its task on `tasks`; the task ends with the last clone, after all submitted operations
    /// are done.
    pub fn start(
        mutex: LeasedMutex,
        name: LockName,
        options: CombineOptions,
        execute: Executor<I, O>,
        tasks: &TaskTracker,
    ) -> Self {
        let (queue, queued) = mpsc::channel(options.queued_max.max(1));
        tasks.spawn(run(mutex, name, options, execute, queued));
        Self { queue }
    }

    /// Runs `input` under the lock and returns its result, by `until` at the latest. Dropping the
    /// future withdraws the operation unless it has begun.
    ///
    /// # Errors
    /// See [`SubmitError`]; only after `Unknown` may something have been done.
    pub async fn submit(&self, input: I, until: Instant) -> Result<O, SubmitError> {
        let (reply, answer) = oneshot::channel();
        let state = Arc::new(AtomicU8::new(WAITS));
        let withdraw = Withdraw(Arc::clone(&state));
        let operation = Operation { input: Some(input), reply };
        let queued = QueueEntry { operation, state, until };
        self.queue.try_send(queued).map_err(|_| SubmitError::QueueFull)?;
        match timeout_at(until, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(SubmitError::Unknown),
            Err(_) => {
                // When the lock was not granted in time, the task has withdrawn it already.
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
    mutex: LeasedMutex,
    name: LockName,
    options: CombineOptions,
    execute: Executor<I, O>,
    mut queued: mpsc::Receiver<QueueEntry<I, O>>,
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
                refuse(first, error.clone());
                // As the waiters of a lock are told: each would wait as long in vain.
                while matches!(error, AcquireError::Unavailable(_))
                    && let Ok(next) = queued.try_recv()
                {
                    refuse(next, error.clone());
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
        // The executor could see a loss, and had the fence.
        let _ = guard.release().await;
    }
}

/// Tells the caller that the lock was not granted, unless the caller has gone.
fn refuse<I, O>(queued: QueueEntry<I, O>, why: AcquireError) {
    if claim(&queued.state, WITHDRAWN) {
        drop(queued.operation.reply.send(Err(SubmitError::NotLocked(why))));
    }
}

fn begin<I, O>(batch: &mut Vec<Operation<I, O>>, queued: QueueEntry<I, O>) {
    if claim(&queued.state, BEGUN) {
        batch.push(queued.operation);
    }
}

async fn run_batch<I, O>(guard: &Guard, execute: &Executor<I, O>, batch: Vec<Operation<I, O>>) {
    if batch.is_empty() {
        return;
    }
    let held = BatchHold::of(guard);
    // A caller without an answer gets `Unknown` when its operation is dropped.
    let ran = AssertUnwindSafe(async { execute(held, batch).await }).catch_unwind().await;
    if ran.is_err() {
        tracing::error!("a batch of operations panicked");
    }
}

/// An executor that runs one operation after the other. A panic in one does not affect the others.
pub fn each<I, O, F>(run: impl Fn(BatchHold, I) -> F + Send + Sync + 'static) -> Executor<I, O>
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
                let held = held.clone();
                let run = Arc::clone(&run);
                let one = AssertUnwindSafe(async move { run(held, input).await }).catch_unwind();
                match one.await {
                    Ok(output) => operation.answer(output),
                    Err(_) => tracing::error!("an operation panicked"),
                }
            }
        })
    })
}

//! Runs of `leaselock`: callers of two clients want one name, over a table in memory whose answers come late, get lost or are
//! errors. Some callers give up at any moment, some drop their guards.
//!
//! What holds in each run:
//! * of two guards that are not lost, there is never one too many;
//! * fences rise, and the callers of one client get theirs in the order in which they came;
//! * who does not give up gets the lock: no caller is forgotten while the name is free;
//! * a holder whose renewals fail is told;
//! * the signal of a released guard stays as it was;
//! * when all have ended, nobody waits and nobody holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::join_all;

use crate::explore::reach;
use crate::leaselock::store::{AcquireResult, BackendError, LeaseStore, StoreResult, Token};
use crate::leaselock::{
    AcquireError, AcquireOptions, Fence, Guard, LeasedMutex, LockName, ReleaseOutcome, Wait, local,
};
use crate::random::{below, once_in};
use crate::task::{JoinHandle, TaskTracker, wait_or_leave, yield_now};
use crate::threads::Mutex;
use crate::time::{Duration, Instant, sleep};

/// The lease of each hold.
const LEASE: Duration = Duration::from_secs(3);
/// Longer than all callers together need.
const PATIENCE: Duration = Duration::from_secs(36_000);
/// Callers of the first client, and of the second.
const CALLERS: [usize; 2] = [4, 2];

/// A table of names whose answers come late, get lost or are errors.
struct FaultyNames {
    names: local::Names,
    has_faults: bool,
    /// Holders that wait for the loss of their holds: all renewals fail.
    cuts: AtomicU32,
}

impl FaultyNames {
    /// Waits a few steps, and in some runs for a time.
    async fn pause(&self) {
        for _ in 0..below(3) {
            yield_now().await;
        }
        if self.has_faults && once_in(8) {
            sleep(Duration::from_millis(u64::from(below(900)))).await;
        }
    }

    fn fails(&self) -> bool {
        self.has_faults && once_in(8)
    }

    /// The answer on its way back.
    async fn answer<T>(&self, answer: StoreResult<T>) -> StoreResult<T> {
        self.pause().await;
        if self.fails() { Err(BackendError::new("the answer is lost")) } else { answer }
    }
}

#[async_trait]
impl LeaseStore for FaultyNames {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        self.pause().await;
        let granted = self.names.acquire(name, token, lease).await;
        self.answer(granted).await
    }

    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        self.pause().await;
        if self.cuts.load(Ordering::Relaxed) > 0 {
            return Err(BackendError::new("cut off"));
        }
        let renewed = self.names.renew(name, token, lease).await;
        self.answer(renewed).await
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        self.pause().await;
        let released = self.names.release(name, token).await;
        self.answer(released).await
    }

    async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        self.names.raise_fence(name, at_least).await
    }
}

/// A guard that is in use; `None` when its use is over.
type Used = Arc<Mutex<Option<Guard>>>;

/// The guards of a run that are in use.
#[derive(Default)]
struct Holders(Mutex<Vec<(Fence, Used)>>);

impl Holders {
    /// Takes note of a guard, and looks at the others.
    fn enter(&self, fence: Fence, guard: Guard) -> Used {
        let is_lost = guard.is_lost();
        let holder = Arc::new(Mutex::new(Some(guard)));
        let mut holders = self.0.lock().expect("no holder has panicked");
        for (other, one) in &*holders {
            assert_ne!(*other, fence, "two holders have one fence");
            let one = one.lock().expect("no holder has panicked");
            let is_over = is_lost || one.as_ref().is_none_or(Guard::is_lost);
            assert!(is_over, "{other} holds the name, and so does {fence}");
        }
        holders.push((fence, Arc::clone(&holder)));
        holder
    }

    fn leave(&self, fence: Fence, holder: &Mutex<Option<Guard>>) -> Guard {
        let guard = holder.lock().expect("no holder has panicked").take();
        let mut holders = self.0.lock().expect("no holder has panicked");
        holders.retain(|(other, _)| *other != fence);
        guard.expect("it is in use until now")
    }
}

/// What all callers of a run share.
struct Run {
    store: Arc<FaultyNames>,
    holders: Holders,
    tasks: TaskTracker,
    name: LockName,
}

/// What became of a caller.
enum CallerEnd {
    GaveUp,
    Held(Fence),
}

impl Run {
    fn new(has_faults: bool) -> Arc<Self> {
        let names = local::Names::default();
        let store = FaultyNames { names, has_faults, cuts: AtomicU32::new(0) };
        Arc::new(Self {
            store: Arc::new(store),
            holders: Holders::default(),
            tasks: TaskTracker::new(),
            name: LockName::new("name").expect("a name"),
        })
    }

    fn client(&self) -> LeasedMutex {
        let store: Arc<dyn LeaseStore> = Arc::<FaultyNames>::clone(&self.store);
        LeasedMutex::start(store, &local::CAPABILITIES, &self.tasks)
    }

    /// Starts callers of a client, who come in this order.
    fn callers(self: &Arc<Self>, client: &LeasedMutex, count: usize) -> Vec<JoinHandle<CallerEnd>> {
        let options = AcquireOptions { lease: LEASE, wait: Wait::Until(Instant::now() + PATIENCE) };
        let mut callers = Vec::new();
        for _ in 0..count {
            let run = Arc::clone(self);
            let client = client.clone();
            let acquired = async move { client.acquire(&run.name, options).await };
            let mut acquired = acquired.boxed();
            // It has its place in the queue from here on.
            let first = (&mut acquired).now_or_never();
            let run = Arc::clone(self);
            callers.push(crate::spawn(async move {
                let acquired = match first {
                    Some(acquired) => Some(acquired),
                    None => wait_or_leave(acquired, 3).await,
                };
                run.hold(acquired).await
            }));
        }
        callers
    }

    /// Uses a guard for a while.
    async fn hold(&self, acquired: Option<Result<Guard, AcquireError>>) -> CallerEnd {
        let guard = match acquired {
            None => {
                reach("gave up", 1);
                return CallerEnd::GaveUp;
            }
            // Several answers in a row were lost or late.
            Some(Err(AcquireError::Unavailable(_))) => {
                reach("unavailable", 1);
                return CallerEnd::GaveUp;
            }
            Some(acquired) => acquired.expect("nobody waits for a name that is free"),
        };
        let signal = guard.lost();
        let fence = guard.fence().expect("this kind has fences");
        let holder = self.holders.enter(fence, guard);
        for _ in 0..below(4) {
            yield_now().await;
        }
        if once_in(3) {
            sleep(LEASE / 2 * (1 + below(3))).await;
        }
        if self.store.has_faults && once_in(8) {
            // Without renewals it is told, or this waits for ever.
            self.store.cuts.fetch_add(1, Ordering::Relaxed);
            signal.cancelled().await;
            self.store.cuts.fetch_sub(1, Ordering::Relaxed);
        }
        let guard = self.holders.leave(fence, &holder);
        if once_in(4) {
            drop(guard);
        } else if guard.release().await == ReleaseOutcome::Released {
            let was_lost = signal.is_cancelled();
            sleep(LEASE * 2).await;
            assert_eq!(signal.is_cancelled(), was_lost, "a released guard was lost");
        }
        CallerEnd::Held(fence)
    }
}

async fn run(has_faults: bool) {
    let run = Run::new(has_faults);
    let clients = CALLERS.map(|_| run.client());
    let mut callers = Vec::new();
    for (client, count) in clients.iter().zip(CALLERS) {
        callers.push(run.callers(client, count));
    }
    for of_client in callers {
        let ends = join_all(of_client).await;
        let fences: Vec<Fence> = ends
            .into_iter()
            .filter_map(|end| match end.expect("a caller does not panic") {
                CallerEnd::Held(fence) => Some(fence),
                CallerEnd::GaveUp => None,
            })
            .collect();
        assert!(fences.is_sorted(), "a later caller held before an earlier one: {fences:?}");
    }
    for client in &clients {
        let stats = client.stats().snapshot();
        assert_eq!(stats.waiting_now, 0, "a caller still waits");
        reach("handed over", stats.handed_over);
        reach("renewed", stats.renewals);
        reach("lost", stats.lost);
        reach("already lost", stats.already_lost);
    }
    drop(clients);
    // Dropped guards have released the name, and the leases of lost ones are over.
    run.tasks.close();
    run.tasks.wait().await;
    sleep(LEASE * 2).await;
    let token = Token::mint(false, 1);
    let free = run.store.names.acquire(&run.name, &token, LEASE).await;
    assert!(matches!(free, Ok(Some(_))), "the name is still held");
}

/// A run over a server that answers.
pub fn calm() {
    shuttle::future::block_on(run(false));
}

/// A run over a server whose answers come late, get lost or are errors.
pub fn faulty() {
    shuttle::future::block_on(run(true));
}

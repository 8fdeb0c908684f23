//! One acquire, from the call to the guard: wait in the queue, ask the backend, ask again, clean up.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backoff::{Backoff, WaitStrategy};
use super::guard::{Core, fences_for};
use super::hold::{Deadline, Hold, HoldState, Moment, Phase, WatchedHold};
use super::queue::{QueueHead, WakeReason};
use super::release::ReleaseJob;
use super::renewal::renew_at;
use super::stats::{count, protocol};
use super::store::{BackendError, Grant, Subscription, Token, ask};
use crate::threads::Mutex;
use crate::{AcquireError, AcquireOptions, Fence, Guard, LockName, Wait};

/// How many attempts in a row may stay without an answer before the backend counts as down.
const NO_ANSWERS_MAX: u32 = 3;

/// One acquire that is allowed to ask the backend.
pub(crate) struct Request {
    pub(crate) name: LockName,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
    pub(crate) asked_at: Instant,
    /// The head of this client's queue; `None` where its callers do not wait for each other.
    pub(crate) head: Option<QueueHead>,
    waits: bool,
    strategy: WaitStrategy,
    /// Whether it was counted as contended already.
    contended: bool,
}

/// Waits in the queue, then asks the backend. A caller may go away at any moment: see [`PendingAcquire`].
pub(crate) async fn acquire(
    core: &Arc<Core>,
    name: LockName,
    options: AcquireOptions,
) -> Result<Guard, AcquireError> {
    options.check()?;
    let asked_at = Instant::now();
    let (head, contended) = match options.wait {
        Wait::Contend { .. } => (None, false),
        wait => match enter_queue(core, &name, options.lease, wait).await? {
            (WakeReason::Head(head), contended) => (Some(head), contended),
            (WakeReason::Guard(guard), _) => {
                assert_eq!(guard.name(), &name, "a waiter gets the name that it asked for");
                assert!(!guard.over, "a guard that was handed over is live");
                let fence = guard.fence.map(Fence::get);
                protocol!("handed", name, guard.hold.token, fence = fence);
                core.stats.wait.add(asked_at.elapsed());
                return Ok(guard);
            }
            (WakeReason::Unavailable(why), _) => return Err(AcquireError::Unavailable(why)),
        },
    };
    let waits = options.wait != Wait::Never;
    let behind = head.as_ref().map_or(0, |_| core.queues.waiting(&name));
    let fences = if core.hands_over() { fences_for(behind) } else { 1 };
    let request = Request {
        token: Token::mint(waits, fences),
        name,
        lease: options.lease,
        waits,
        strategy: options.wait.strategy().unwrap_or_else(|| core.store.wait_strategy()),
        asked_at,
        contended,
        head,
    };
    let asking = PendingAcquire::start(core, request);
    match options.wait.deadline() {
        None => asking.await,
        Some(deadline) => timeout_at(deadline, asking).await.unwrap_or(Err(AcquireError::TimedOut)),
    }
}

/// Waits for the head of the queue, or for the lock itself, as `wait` says. The flag says whether
/// another contender got the name first.
async fn enter_queue(
    core: &Arc<Core>,
    name: &LockName,
    lease: Duration,
    wait: Wait,
) -> Result<(WakeReason, bool), AcquireError> {
    if let Some(head) = core.queues.try_enter(name) {
        return Ok((WakeReason::Head(head), false));
    }
    count(&core.stats.contended);
    let deadline = wait.deadline().ok_or(AcquireError::Busy)?;
    let called = timeout_at(deadline, core.queues.enter(name, lease)).await;
    let called = called.map_err(|_| AcquireError::TimedOut)??;
    Ok((called, true))
}

impl Guard {
    /// Re-enters: acquires the name once more for the owner of this guard. The name is free when all
    /// guards of the owner are released, in any order. Never waits: past the queue, in which the owner
    /// would wait for itself.
    ///
    /// # Errors
    /// `InvalidOptions` where the kind is not re-entrant, `Busy` when this hold is over.
    pub async fn enter_again(&self) -> Result<Self, AcquireError> {
        let Self { core, hold, .. } = self;
        if !core.capabilities.reentrant {
            let why = "this kind of lock is not re-entrant";
            return Err(AcquireError::InvalidOptions(why.to_owned()));
        }
        hold.locked().entered_again = true;
        let request = Request {
            name: hold.name.clone(),
            token: hold.token.again(),
            lease: hold.lease,
            waits: false,
            strategy: WaitStrategy::Backoff,
            asked_at: Instant::now(),
            contended: false,
            head: None,
        };
        let mut inner = PendingAcquire::start(core, request).await?;
        // The backend knows the first fence of the block only.
        inner.fence = self.fence;
        Ok(inner)
    }
}

/// A future that asks the backend on behalf of a caller.
///
/// While the caller waits, its own task polls it, which saves two wake-ups for each acquire. When the
/// caller goes away, a task of our own polls it to its end, because only this future knows what was
/// sent. A caller that neither polls nor drops it blocks the name in its own client, as a guard
/// would, and in other clients for one lease at most, since nothing renews its grant.
struct PendingAcquire {
    /// `None` once it has finished.
    left: Option<BoxFuture<'static, Result<Guard, AcquireError>>>,
    /// Dropping it signals the future that its caller has gone.
    caller: Option<oneshot::Sender<Infallible>>,
    tasks: TaskTracker,
    /// A future may be dropped where there is no runtime.
    runtime: Handle,
}

impl PendingAcquire {
    fn start(core: &Arc<Core>, request: Request) -> Self {
        let (caller, gone) = oneshot::channel();
        Self {
            left: Some(Box::pin(ask_until_granted(Arc::clone(core), request, gone))),
            caller: Some(caller),
            tasks: core.background.tasks.clone(),
            runtime: Handle::current(),
        }
    }
}

impl Future for PendingAcquire {
    type Output = Result<Guard, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Taken out, so that one that panics is not polled again.
        let mut left = self.left.take().expect("nobody polls a future that has ended");
        let polled = left.as_mut().poll(context);
        if polled.is_pending() {
            self.left = Some(left);
        }
        polled
    }
}

impl Drop for PendingAcquire {
    fn drop(&mut self) {
        self.caller = None;
        if let Some(left) = self.left.take() {
            // A guard that is granted after all is dropped in that task, which gives it back.
            self.tasks.spawn_on(async { drop(left.await) }, &self.runtime);
        }
    }
}

/// The number of the next hold: all holds of the process share a schedule.
static HOLDS: AtomicU64 = AtomicU64::new(0);

/// Asks until the name is granted, refused for good or no longer wanted.
async fn ask_until_granted(
    core: Arc<Core>,
    request: Request,
    mut caller_gone: oneshot::Receiver<Infallible>,
) -> Result<Guard, AcquireError> {
    let mut backoff = Backoff::new(request.strategy);
    let mut asking = Asking::new(core, request);
    loop {
        asking.request.token.next_attempt();
        let sent_at = Moment::now();
        match asking.ask(sent_at).await {
            AfterAttempt::Granted(grant) => return Ok(asking.into_guard(grant, sent_at)),
            AfterAttempt::Ended(why) => return Err(asking.give_up(why)),
            AfterAttempt::AtOnce => continue,
            AfterAttempt::Wait => {}
        }
        tokio::select! {
            biased;
            _ = &mut caller_gone => return Err(asking.give_up(AcquireError::TimedOut)),
            () = backoff.wait_or_be_notified(&mut asking.notifications, asking.request.lease) => {}
        }
        if let Some(grant) = asking.handed_over(sent_at) {
            return Ok(asking.into_guard(grant, sent_at));
        }
    }
}

/// A request between its attempts. When it ends, its subscription does before the next caller is the head.
struct Asking {
    notifications: Option<Subscription>,
    request: Request,
    core: Arc<Core>,
    no_answers_in_a_row: u32,
    /// Whether the backend may have something of the request, which has to be removed if nothing is granted.
    may_be_held: bool,
}

/// What follows an attempt.
enum AfterAttempt {
    Granted(Grant),
    /// No further attempt.
    Ended(AcquireError),
    /// Another attempt.
    AtOnce,
    /// Another attempt after a notification or a pause.
    Wait,
}

impl Asking {
    fn new(core: Arc<Core>, request: Request) -> Self {
        let notifications = match request.strategy {
            WaitStrategy::Notified => core.store.listen(&request.name, &request.token),
            _ => None,
        };
        // An entry in a queue at the backend has to be removed as well.
        let may_be_held = core.store.queues() || (request.waits && notifications.is_some());
        Self { notifications, request, core, no_answers_in_a_row: 0, may_be_held }
    }

    /// Makes one attempt. A repeated one has the same token, so it makes no second hold where an earlier one was granted
    /// and only its answer was lost.
    async fn ask(&mut self, sent_at: Moment) -> AfterAttempt {
        protocol!(
            "ask",
            self.request.name,
            self.request.token,
            process = Arc::as_ptr(&self.core).addr(),
            lease_ms = self.request.lease.as_millis(),
            listens = self.request.waits && self.notifications.is_some(),
        );
        let Request { name, token, lease, .. } = &self.request;
        match ask(*lease, self.core.store.acquire(name, token, *lease)).await {
            Ok(Some(_)) if Deadline::of(sent_at, self.request.lease).has_passed() => {
                self.unanswered(BackendError::new("the grant came after its deadline"))
            }
            Ok(Some(grant)) => AfterAttempt::Granted(grant),
            Ok(None) => self.refused().await,
            Err(why) => self.unanswered(why),
        }
    }

    /// Another client has the name.
    async fn refused(&mut self) -> AfterAttempt {
        protocol!("refused", self.request.name, self.request.token);
        self.no_answers_in_a_row = 0;
        if !std::mem::replace(&mut self.request.contended, true) {
            count(&self.core.stats.contended);
        }
        if !self.request.waits {
            return AfterAttempt::Ended(AcquireError::Busy);
        }
        if self.notifications.is_some() || self.request.strategy != WaitStrategy::Notified {
            return AfterAttempt::Wait;
        }
        let Request { name, token, lease, .. } = &self.request;
        let watched = ask(*lease, self.core.store.watch(name, token)).await;
        self.notifications = watched.ok().flatten();
        if self.notifications.is_none() {
            return AfterAttempt::Wait;
        }
        self.may_be_held = true;
        // This attempt sees a name that became free before the subscription began.
        AfterAttempt::AtOnce
    }

    /// The backend may have granted the name or not.
    fn unanswered(&mut self, why: BackendError) -> AfterAttempt {
        protocol!("unanswered", self.request.name, self.request.token);
        self.may_be_held = true;
        // The link that carries notifications may be the one that broke.
        self.notifications = None;
        self.no_answers_in_a_row += 1;
        if self.no_answers_in_a_row < NO_ANSWERS_MAX {
            return AfterAttempt::Wait;
        }
        if let Some(head) = &self.request.head {
            head.fail_waiters(&why);
        }
        AfterAttempt::Ended(AcquireError::Unavailable(why))
    }

    /// The grant of a release, for a whole lease, after the attempt at `sent_at` was refused. One that comes when half
    /// of it is over is not used: the next attempt renews it, or finds that it is gone.
    fn handed_over(&mut self, sent_at: Moment) -> Option<Grant> {
        let lease = self.request.lease;
        let grant = self.notifications.as_mut()?.granted(self.request.token.attempt())?;
        if Deadline::of(sent_at, lease).left() <= lease / 2 {
            return None;
        }
        count(&self.core.stats.handed_over_by_others);
        Some(grant)
    }

    /// Ends without a guard.
    fn give_up(self, why: AcquireError) -> AcquireError {
        if self.may_be_held {
            self.core.background.release(ReleaseJob {
                name: self.request.name,
                token: self.request.token,
                lease: self.request.lease,
                give_up_at: Instant::now() + self.request.lease,
                was_held: false,
                head: None,
            });
        }
        why
    }

    /// Makes a guard of a grant, and has the scheduler renew it.
    fn into_guard(self, grant: Grant, sent_at: Moment) -> Guard {
        let Self { notifications, request, core, .. } = self;
        let Request { name, token, lease, head, .. } = request;
        assert!(grant.fences > 0, "a grant has at least one fence, or none at all");
        assert!(grant.fence.is_none_or(|fence| fence <= Fence::MAX), "{:?}", grant.fence);
        // Where several can hold a name, the next caller of this client may ask at once.
        let head = head.filter(|_| !core.store.shared());
        let now = Instant::now();
        count(&core.stats.acquired);
        core.stats.wait.add(now - request.asked_at);
        protocol!(
            "holds",
            name,
            token,
            fence = grant.fence.map(Fence::get),
            fences = grant.fences,
            left_us = Deadline::of(sent_at, lease).left().as_micros(),
        );
        let lost = CancellationToken::new();
        let hold = Arc::new(Hold {
            id: HOLDS.fetch_add(1, Ordering::Relaxed),
            name,
            token,
            lease,
            store: Arc::clone(&core.store),
            stats: Arc::clone(&core.stats),
            state: Mutex::new(HoldState {
                phase: Phase::Held,
                deadline: Deadline::of(sent_at, lease),
                due: renew_at(sent_at.instant, lease),
                renews_alone: false,
                head,
                lost: lost.clone(),
                grant,
                hand_overs: 0,
                entered_again: false,
                notifications,
            }),
        });
        let scheduler = core.background.scheduler();
        scheduler.renewals.watch(&hold);
        core.store.watch_hold(WatchedHold::of(&hold));
        Guard { hold, core, scheduler, fence: grant.fence, lost, since: now, over: false }
    }
}

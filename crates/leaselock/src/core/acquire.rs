//! One acquire from the call to the guard: in line, asking, asking again, and cleaning up after it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::backoff::{Manner, Pauses};
use super::hand_over::fences_for;
use super::leased::Core;
use super::queue::{Called, Turn};
use super::release::ReleaseJob;
use super::stats::count;
use super::store::{Grant, Token, Unanswered, Wakeups, ask, local_deadline};
use crate::{AcquireError, AcquireOptions, Guard, LockName, Wait};

/// How often an acquire is sent in a row without an answer before the backend counts as down.
const UNANSWERED_MAX: u32 = 3;

/// One acquire that has its turn and may ask the backend.
pub(crate) struct Request {
    pub(crate) name: LockName,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
    pub(crate) asked_at: Instant,
    /// The right to ask for this process; `None` where nobody of it has to wait for another.
    pub(crate) turn: Option<Turn>,
    waits: bool,
    manner: Manner,
    /// Whether it was counted as contended already.
    contended: bool,
}

/// What came of asking the backend once.
enum Reply {
    Granted(Grant),
    HeldByOther,
    Unanswered(String),
}

/// Stands in line, then asks. A caller may go away at any moment: see [`Asking`].
pub(crate) async fn acquire(
    core: &Arc<Core>,
    name: LockName,
    options: AcquireOptions,
) -> Result<Guard, AcquireError> {
    options.check()?;
    let asked_at = Instant::now();
    let (turn, contended) = match options.wait {
        Wait::Contend { .. } => (None, false),
        wait => match stand_in_line(core, &name, options.lease, wait).await? {
            (Called::Turn(turn), contended) => (Some(turn), contended),
            (Called::Guard(guard), _) => {
                core.stats.wait.add(asked_at.elapsed());
                return Ok(guard);
            }
            (Called::Unavailable(why), _) => return Err(AcquireError::Unavailable(why)),
        },
    };
    let waits = options.wait != Wait::Never;
    let behind = turn.as_ref().map_or(0, |_| core.lines.waiting(&name));
    let request = Request {
        token: Token::mint(waits, fences_for(core, behind)),
        name,
        lease: options.lease,
        waits,
        manner: options.wait.manner().unwrap_or_else(|| core.store.manner()),
        asked_at,
        contended,
        turn,
    };
    let asking = Asking::start(core, request);
    match options.wait.deadline() {
        None => asking.await,
        Some(deadline) => timeout_at(deadline, asking).await.unwrap_or(Err(AcquireError::TimedOut)),
    }
}

/// Waits for the turn to ask, or for the lock itself, as `wait` says; tells whether somebody else
/// had it.
async fn stand_in_line(
    core: &Arc<Core>,
    name: &LockName,
    lease: Duration,
    wait: Wait,
) -> Result<(Called, bool), AcquireError> {
    if let Some(turn) = core.lines.try_enter(name) {
        return Ok((Called::Turn(turn), false));
    }
    count(&core.stats.contended);
    let deadline = wait.deadline().ok_or(AcquireError::Busy)?;
    let called = timeout_at(deadline, core.lines.enter(name, lease)).await;
    let called = called.map_err(|_| AcquireError::TimedOut)??;
    Ok((called, true))
}

/// One more hold of an owner that has the name: past the line, in which it would wait for itself.
pub(crate) async fn enter_again(outer: &Guard) -> Result<Guard, AcquireError> {
    let Guard { core, hold, .. } = outer;
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
        manner: Manner::Backoff,
        asked_at: Instant::now(),
        contended: false,
        turn: None,
    };
    let mut inner = Asking::start(core, request).await?;
    // The backend knows the first fence of the block only.
    inner.fence = outer.fence;
    Ok(inner)
}

/// Asking on behalf of a caller. While the caller waits, its own task does it, which spares two
/// wake-ups for each acquire. When the caller goes away, a task of our own does what is left: only
/// the future knows what was sent, so it has to come to its end. A caller that neither polls it nor
/// drops it holds up its own process for as long, as it would with a guard, and others for a lease
/// at most, since what it was granted meanwhile is not renewed.
struct Asking {
    /// `None` when it has come to its end.
    left: Option<BoxFuture<'static, Result<Guard, AcquireError>>>,
    /// Dropping it tells the future that its caller has gone.
    caller: Option<oneshot::Sender<Infallible>>,
    tasks: TaskTracker,
    /// A future may be dropped where there is no runtime.
    runtime: Handle,
}

impl Asking {
    fn start(core: &Arc<Core>, request: Request) -> Self {
        let (caller, gone) = oneshot::channel();
        Self {
            left: Some(Box::pin(ask_until_granted(Arc::clone(core), request, gone))),
            caller: Some(caller),
            tasks: core.tasks.clone(),
            runtime: Handle::current(),
        }
    }
}

impl Future for Asking {
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

impl Drop for Asking {
    fn drop(&mut self) {
        self.caller = None;
        if let Some(left) = self.left.take() {
            // A guard that comes after all is dropped there, which gives it back.
            self.tasks.spawn_on(async { drop(left.await) }, &self.runtime);
        }
    }
}

/// Asks until the name is granted, refused for good or no longer wanted.
async fn ask_until_granted(
    core: Arc<Core>,
    mut request: Request,
    mut caller_gone: oneshot::Receiver<Infallible>,
) -> Result<Guard, AcquireError> {
    let mut pauses = Pauses::new(request.manner);
    let mut wakeups = match request.manner {
        Manner::Notified => core.store.listen(&request.name, &request.token),
        _ => None,
    };
    let mut unanswered_in_a_row = 0;
    // So may a place in the queue, which has to be given back as well.
    let mut may_be_held = core.store.queues() || (request.waits && wakeups.is_some());
    let refusal = loop {
        request.token.next_look();
        let sent_at = Instant::now();
        match ask_once(&core, &request, sent_at).await {
            Reply::Granted(grant) => {
                return Ok(core.guard(request, grant, sent_at, wakeups));
            }
            Reply::HeldByOther => {
                unanswered_in_a_row = 0;
                if !std::mem::replace(&mut request.contended, true) {
                    count(&core.stats.contended);
                }
                if !request.waits {
                    break AcquireError::Busy;
                }
                // A name that became free before the watch began is seen by one more look.
                if wakeups.is_none() && request.manner == Manner::Notified {
                    wakeups = watch(&core, &request).await;
                    if wakeups.is_some() {
                        may_be_held = true;
                        continue;
                    }
                }
            }
            Reply::Unanswered(why) => {
                may_be_held = true;
                // The link that would have told us may be the one that broke.
                wakeups = None;
                unanswered_in_a_row += 1;
                if unanswered_in_a_row == UNANSWERED_MAX {
                    if let Some(turn) = &request.turn {
                        turn.tell_unavailable(&why);
                    }
                    break AcquireError::Unavailable(why);
                }
            }
        }
        tokio::select! {
            biased;
            _ = &mut caller_gone => break AcquireError::TimedOut,
            () = pauses.pass_or_be_told(&mut wakeups, request.lease) => {}
        }
        let look = request.token.look();
        if let Some(grant) = wakeups.as_mut().and_then(|told| told.granted(look))
            && local_deadline(sent_at, request.lease) > Instant::now() + request.lease / 2
        {
            // Granted after the look at `sent_at` was refused, for a whole lease. One that comes when
            // half of it is over is not believed: the next look renews it, or finds that it is gone.
            count(&core.stats.handed_over_by_others);
            return Ok(core.guard(request, grant, sent_at, wakeups));
        }
    };
    if may_be_held {
        core.releases.submit(ReleaseJob {
            name: request.name,
            token: request.token,
            lease: request.lease,
            give_up_at: Instant::now() + request.lease,
            was_held: false,
            turn: None,
        });
    }
    Err(refusal)
}

/// Listens for the name, if its kind can and the backend answers.
async fn watch(core: &Core, request: &Request) -> Option<Box<dyn Wakeups>> {
    let Request { name, token, lease, .. } = request;
    ask(*lease, core.store.watch(name, token)).await.ok().flatten()
}

/// Asks the backend once. Asking again with the same token after an answer that did not come is no
/// second hold, should the first have been granted.
async fn ask_once(core: &Core, request: &Request, sent_at: Instant) -> Reply {
    let Request { name, token, lease, .. } = request;
    match ask(*lease, core.store.acquire(name, token, *lease)).await {
        Ok(Some(_)) if Instant::now() >= local_deadline(sent_at, *lease) => {
            Reply::Unanswered("the grant came after its deadline".to_owned())
        }
        Ok(Some(grant)) => Reply::Granted(grant),
        Ok(None) => Reply::HeldByOther,
        Err(Unanswered(why)) => Reply::Unanswered(why),
    }
}

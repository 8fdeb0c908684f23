//! What a kind with a lease needs from its backend, and the arithmetic of leases.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, timeout};

use crate::{Fence, LockName, Manner};

/// The longest that any command to the backend may take.
const COMMAND_TIMEOUT_MAX: Duration = Duration::from_millis(500);

/// So many commands that all run into their time-out must fit into one lease.
const COMMAND_TIMEOUTS_PER_LEASE: u32 = 3;

/// One part in so many by which the backend's clock may run faster than ours.
const CLOCK_DRIFT_PARTS: u32 = 100;

/// Taken off every deadline for timer granularity, here and at the backend, and for a late wake-up.
const DEADLINE_MARGIN: Duration = Duration::from_millis(10);

/// What a backend must be able to do with a name. Each is atomic at the backend and may be sent
/// again without harm after an answer that did not come. Time-outs are the caller's.
pub(crate) trait LeaseStore: Send + Sync + 'static {
    /// Grants the name to `token` for `lease` and mints a fence, where the kind has fences, unless
    /// someone else has the name (`None`). If `token` has it already, the lease starts anew and the
    /// fence is the same.
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>>;

    /// Starts the lease anew if `token` has the name; otherwise changes nothing (`false`).
    fn renew<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, bool>;

    /// Frees the name if `token` has it; otherwise changes nothing (`false`).
    fn release<'a>(&'a self, name: &'a LockName, token: &'a Token) -> StoreFuture<'a, bool>;

    /// Whether [`renew_together`](Self::renew_together) works.
    fn renews_together(&self) -> bool {
        false
    }

    /// Several renewals in one command, each as by [`renew`](Self::renew); the answers in the same
    /// order. Where it is not possible it is not asked for.
    fn renew_together<'a>(&'a self, _renewals: &'a [Renewal]) -> StoreFuture<'a, Vec<bool>> {
        Box::pin(async { Err(Unanswered("this kind renews one hold at a time".to_owned())) })
    }

    /// Makes the next fence of `name` higher than `at_least`. Kinds without fences have none to raise.
    fn raise_fence<'a>(&'a self, _name: &'a LockName, _at_least: Fence) -> StoreFuture<'a, ()> {
        Box::pin(async { Err(Unanswered("this kind has no fences".to_owned())) })
    }

    /// Starts to listen for the name: what happens from the answer on is not missed. `None`: this
    /// kind cannot tell, so its contender looks again after growing pauses.
    fn watch<'a>(
        &'a self,
        _name: &'a LockName,
        _token: &'a Token,
    ) -> StoreFuture<'a, Option<Box<dyn Wakeups>>> {
        Box::pin(async { Ok(None) })
    }

    /// How a contender of this kind waits, unless its caller says otherwise.
    fn manner(&self) -> Manner {
        Manner::Notified
    }

    /// The same without asking the backend, where that costs nothing: `None` if it would. An
    /// acquire listens so before it first asks, and its hold goes on listening.
    fn listen(&self, _name: &LockName, _token: &Token) -> Option<Box<dyn Wakeups>> {
        None
    }

    /// Whether several can hold a name at the same time. Then callers of one process wait for each
    /// other only while they ask, not while they hold.
    fn shared(&self) -> bool {
        false
    }

    /// Whether an acquire that was refused leaves a place in a queue behind, which a release with
    /// the same token takes out again.
    fn queues(&self) -> bool {
        false
    }
}

/// One hold to be renewed.
pub(crate) struct Renewal {
    pub(crate) name: LockName,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
}

/// Tells a contender when to look at a name again.
pub(crate) trait Wakeups: Send {
    /// Returns `true` when the name may have become free since the watch began or since the last
    /// return, and `false` when it cannot tell any more. What comes between two calls is kept for
    /// the next one.
    fn next(&mut self) -> BoxFuture<'_, bool>;

    /// The grant that came with the wake-up, if a release has granted the name to us: for the place in
    /// the queue that this look of ours took, so after that look was refused, and for the lease that
    /// it named. A grant for an earlier look is dropped: it is over, since a later look was refused.
    fn granted(&mut self, _look: u32) -> Option<Grant> {
        None
    }

    /// Whether another process waits for what is held here, as far as was told, or whether that
    /// could not be told any more.
    fn others_wait(&self) -> bool {
        false
    }
}

/// What an acquire got.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    /// `None` where the kind has no fences.
    pub(crate) fence: Option<Fence>,
    /// How many fences from that one on are ours: the hold can be handed over once for each further
    /// one. Nobody else gets one of them.
    pub(crate) fences: u32,
    /// Whether another process waits for the name.
    pub(crate) others_wait: bool,
}

impl Grant {
    /// A grant with a fence.
    pub(crate) fn fenced(fence: u64) -> Self {
        Self { fence: Some(Fence(fence)), fences: 1, others_wait: false }
    }

    /// A grant with up to so many fences, as far as there are any.
    pub(crate) fn block(first: u64, fences: u32, others_wait: bool) -> Self {
        let left = (Fence::MAX.get() + 1).saturating_sub(first);
        let fences = fences.min(u32::try_from(left).unwrap_or(u32::MAX));
        Self { fence: Some(Fence(first)), fences, others_wait }
    }

    /// A grant of a kind that has no fences.
    pub(crate) const UNFENCED: Self = Self { fence: None, fences: 1, others_wait: false };
}

/// The answer of a backend, or why there is none: then the command may or may not have run.
pub(crate) type StoreFuture<'a, T> = BoxFuture<'a, Result<T, Unanswered>>;

/// Why a backend gave no usable answer, for people to read.
pub(crate) struct Unanswered(pub(crate) String);

/// The random identity of one hold, minted for each acquire: 32 hexadecimal digits.
#[derive(Clone)]
pub(crate) struct Token {
    hold: Arc<str>,
    owner: Arc<str>,
    waits: bool,
    fences: u32,
    look: u32,
}

impl Token {
    /// A new one, whose acquire `waits` or gives up when it is refused, and would like so many
    /// fences, at least one.
    pub(crate) fn mint(waits: bool, fences: u32) -> Self {
        let hold = random();
        Self { owner: Arc::clone(&hold), hold, waits, fences, look: 0 }
    }

    /// One more hold of the same owner, for kinds that are re-entrant.
    pub(crate) fn again(&self) -> Self {
        Self { hold: random(), owner: Arc::clone(&self.owner), waits: false, fences: 1, look: 0 }
    }

    /// Counts a look that is about to be sent.
    pub(crate) fn next_look(&mut self) {
        self.look += 1;
    }

    /// The number of the last look that was sent, from 1 on. A waiter leaves it in the queue, and a
    /// grant names it: so an old grant can be told from a new one without a clock.
    pub(crate) fn look(&self) -> u32 {
        self.look
    }

    /// Whether its acquire was sent before, so that it may stand in a queue or have the lock.
    pub(crate) fn looks_again(&self) -> bool {
        self.look > 1
    }

    /// Whether its acquire stays when it is refused, so that it is worth to tell it later.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// How many fences its acquire would like.
    pub(crate) fn fences(&self) -> u32 {
        self.fences
    }

    /// The hold's own identity, to be kept.
    pub(crate) fn shared(&self) -> &Arc<str> {
        &self.hold
    }

    /// The hold's own identity.
    pub(crate) fn as_str(&self) -> &str {
        &self.hold
    }

    /// The token of the first hold of those that belong together; its own if it is the first.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }
}

fn random() -> Arc<str> {
    format!("{:032x}", rand::random::<u128>()).into()
}

/// Until when a lease whose command was sent at `sent_at` surely lasts, by our clock.
pub(crate) fn local_deadline(sent_at: Instant, lease: Duration) -> Instant {
    sent_at + (lease - lease / CLOCK_DRIFT_PARTS).saturating_sub(DEADLINE_MARGIN)
}

/// Waits for a backend's answer, but not longer than a command for such a lease may take.
pub(crate) async fn ask<T>(
    lease: Duration,
    answer: impl Future<Output = Result<T, Unanswered>>,
) -> Result<T, Unanswered> {
    let limit = COMMAND_TIMEOUT_MAX.min(lease / COMMAND_TIMEOUTS_PER_LEASE);
    match timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(Unanswered(format!("no answer within {limit:?}"))),
    }
}

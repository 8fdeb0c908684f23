//! What a kind with a lease needs from its backend, and the arithmetic of leases.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, timeout};

use super::{Fence, LockName};

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
pub(super) trait LeaseStore: Send + Sync + 'static {
    /// Grants the name to `token` for `lease` and mints a fence, unless someone else has it
    /// (`None`). If `token` has it already, the lease starts anew and the fence is the same.
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Fence>>;

    /// Starts the lease anew if `token` has the name; otherwise changes nothing (`false`).
    fn renew<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, bool>;

    /// Frees the name if `token` has it; otherwise changes nothing (`false`).
    fn release<'a>(&'a self, name: &'a LockName, token: &'a Token) -> StoreFuture<'a, bool>;

    /// Makes the next fence of `name` higher than `at_least`.
    fn raise_fence<'a>(&'a self, name: &'a LockName, at_least: Fence) -> StoreFuture<'a, ()>;
}

/// The answer of a backend, or why there is none: then the command may or may not have run.
pub(super) type StoreFuture<'a, T> = BoxFuture<'a, Result<T, Unanswered>>;

/// Why a backend gave no usable answer, for people to read.
pub(super) struct Unanswered(pub(super) String);

/// The random owner of one hold, minted for each acquire: 32 hexadecimal digits.
#[derive(Clone)]
pub(super) struct Token(Arc<str>);

impl Token {
    pub(super) fn mint() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()).into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Until when a lease whose command was sent at `sent_at` surely lasts, by our clock.
pub(super) fn local_deadline(sent_at: Instant, lease: Duration) -> Instant {
    sent_at + (lease - lease / CLOCK_DRIFT_PARTS).saturating_sub(DEADLINE_MARGIN)
}

/// Waits for a backend's answer, but not longer than a command for such a lease may take.
pub(super) async fn ask<T>(
    lease: Duration,
    answer: impl Future<Output = Result<T, Unanswered>>,
) -> Result<T, Unanswered> {
    let limit = COMMAND_TIMEOUT_MAX.min(lease / COMMAND_TIMEOUTS_PER_LEASE);
    match timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(Unanswered(format!("no answer within {limit:?}"))),
    }
}

//! A countdown latch: waiters go on once a number has been counted down to zero.

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::{Capabilities, CommandError, LockName};

/// A number per name that only falls, down to zero. A name without a number counts as zero, so a
/// waiter that comes late goes on at once.
pub trait CountdownLatch: Send + Sync + 'static {
    /// What this kind promises, as data.
    fn capabilities(&self) -> &'static Capabilities;

    /// Sets the number to `count`. While an earlier number is not down to zero, this changes nothing
    /// and answers `false`. Setting zero is allowed and changes nothing.
    fn set<'a>(
        &'a self,
        name: &'a LockName,
        count: u64,
    ) -> BoxFuture<'a, Result<bool, CommandError>>;

    /// Counts down by one and answers the rest. At zero it stays at zero.
    fn count_down<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<u64, CommandError>>;

    /// The present number.
    fn count<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<u64, CommandError>>;

    /// Waits for zero: `true` once it is reached, `false` if it is not by `until`.
    fn wait<'a>(
        &'a self,
        name: &'a LockName,
        until: Instant,
    ) -> BoxFuture<'a, Result<bool, CommandError>>;
}

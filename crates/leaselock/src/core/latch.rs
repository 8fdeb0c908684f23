//! A countdown latch: waiters go on once a number has been counted down to zero.

use async_trait::async_trait;
use tokio::time::Instant;

use crate::{Capabilities, CommandError, LockName};

/// A number per name that only falls, down to zero. A name without a number counts as zero, so a
/// waiter that comes late goes on at once.
#[async_trait]
pub trait CountdownLatch: Send + Sync + 'static {
    /// What this kind promises, as data.
    fn capabilities(&self) -> &'static Capabilities;

    /// Sets the number to `count`. While an earlier number is not down to zero, this changes nothing
    /// and returns `false`. Setting zero is allowed and changes nothing.
    async fn set(&self, name: &LockName, count: u64) -> Result<bool, CommandError>;

    /// Counts down by one and returns the rest. At zero it stays at zero.
    async fn count_down(&self, name: &LockName) -> Result<u64, CommandError>;

    /// The present number.
    async fn count(&self, name: &LockName) -> Result<u64, CommandError>;

    /// Waits for zero: `true` once it is reached, `false` if it is not by `until`.
    async fn wait(&self, name: &LockName, until: Instant) -> Result<bool, CommandError>;
}

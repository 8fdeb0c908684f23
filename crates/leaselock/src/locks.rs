//! Locks by name with defaults: what most programs need.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    AcquireError, AcquireOptions, Guard, LEASE_MAX, LEASE_MIN, LeasedMutex, LockName, Wait,
};

/// The lease unless [`Locks::with_lease`] sets another one: how long a name stays taken after its
/// holder has died.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(10);

/// How long [`Locks::lock`] waits unless [`Locks::with_wait_max`] sets another limit.
pub const WAIT_MAX_DEFAULT: Duration = Duration::from_secs(60);

/// The longest wait of [`Locks::lock`].
const WAIT_LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Locks by name, with a lease and a limit of waiting that are set once. Cheap to clone; all clones
/// are one lock object.
///
/// `redis::connect` makes them from a URL. [`Locks::new`] takes a lock of any kind.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leaselock::{Locks, local};
///
/// let locks = Locks::new(local::mutex(&local::Names::default(), &Default::default()));
/// let guard = locks.lock("nightly:report").await?;
/// assert!(locks.try_lock("nightly:report").await?.is_none());
/// let _ = guard.release().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Locks {
    mutex: LeasedMutex,
    lease: Duration,
    wait_max: Duration,
}

impl Locks {
    /// Takes a lock of any kind.
    #[must_use]
    pub fn new(mutex: LeasedMutex) -> Self {
        Self { mutex, lease: LEASE_DEFAULT, wait_max: WAIT_MAX_DEFAULT }
    }

    /// Sets the lease, from [`LEASE_MIN`] to [`LEASE_MAX`]: a value outside is moved to the limit.
    /// The guard renews it, so it does not limit your work.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease: lease.clamp(LEASE_MIN, LEASE_MAX), ..self }
    }

    /// Sets how long [`lock`](Self::lock) waits, at most a year.
    #[must_use]
    pub fn with_wait_max(self, wait_max: Duration) -> Self {
        Self { wait_max: wait_max.min(WAIT_LONGEST), ..self }
    }

    /// Acquires `name` and waits for it while another caller holds it.
    ///
    /// # Errors
    /// See [`AcquireError`]; nothing is held after any of them.
    pub async fn lock(&self, name: &str) -> Result<Guard, AcquireError> {
        self.acquire(name, Wait::Until(Instant::now() + self.wait_max)).await
    }

    /// Acquires `name` if it is free; `None` if another caller holds it or waits for it.
    ///
    /// # Errors
    /// See [`AcquireError`]; nothing is held after any of them.
    pub async fn try_lock(&self, name: &str) -> Result<Option<Guard>, AcquireError> {
        match self.acquire(name, Wait::Never).await {
            Ok(guard) => Ok(Some(guard)),
            Err(AcquireError::Busy) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The lock behind it, for all other options.
    #[must_use]
    pub fn mutex(&self) -> &LeasedMutex {
        &self.mutex
    }

    async fn acquire(&self, name: &str, wait: Wait) -> Result<Guard, AcquireError> {
        let options = AcquireOptions { lease: self.lease, wait };
        self.mutex.acquire(&LockName::new(name)?, options).await
    }
}

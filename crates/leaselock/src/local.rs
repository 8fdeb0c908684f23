//! `local`: a lock in memory. Callers of the same name exclude each other, but only inside one
//! process. It is the reference for the tests.
//!
//! **How it works.** A table in memory takes the part of the server, with the rules of every other
//! backend: owner tokens, leases that end, fences that rise. All locks made from one [`Names`]
//! share it. The lock for several names (`multi`) acquires the names one after the other. It uses
//! one order of names for all callers, so two callers cannot block each other. A caller that waits
//! for a name keeps the names that it already has. If the wait fails, all of them are released.
//!
//! **What can go wrong.** A second process has a table of its own, so both can hold the same name:
//! with two instances of a service it protects nothing.
//!
//! **When to use it.** Use it for data that belongs to one process. Also use it to find out whether
//! a fault is in a backend or in the code that all kinds share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::store::{AcquireResult, BackendError, Grant, LeaseStore, StoreResult, Token};
use crate::{Capabilities, Fence, Fencing, LeasedMutex, LockName, MultiMutex, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "token",
    backend: "local",
    summary: "a table in this process's memory",
    breaks_when: "A second process works on the same data",
    fencing: Fencing::Rising,
    waiting: Waiting::Polls,
    hands_over: true,
    between_processes: false,
    ..Capabilities::LEASED_MUTEX
};

/// What the lock for several names can and cannot do.
pub static MULTI_CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::MultiLock,
    kind: "multi",
    summary: "one name after the other in a fixed order, in this process's memory",
    ..CAPABILITIES
};

/// A table of names in this process. Clones share it.
#[derive(Clone, Default)]
pub struct Names {
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    holds: HashMap<LockName, Hold>,
    /// The last fence of all names together.
    last_fence: u64,
}

impl Table {
    /// The hold of the name, if `token` has it and its lease is not over.
    fn held(&mut self, name: &LockName, token: &Token) -> Option<&mut Hold> {
        let ours = |hold: &&mut Hold| hold.owner == token.as_str() && hold.until > Instant::now();
        self.holds.get_mut(name).filter(ours)
    }
}

struct Hold {
    owner: String,
    until: Instant,
    grant: Grant,
}

/// Makes a lock over `names`. Its background tasks run on `tasks`.
#[must_use]
pub fn mutex(names: &Names, tasks: &TaskTracker) -> LeasedMutex {
    LeasedMutex::start(Arc::new(names.clone()), &CAPABILITIES, tasks)
}

/// Makes a lock for several of `names` at once. It also excludes holders of one of them alone.
#[must_use]
pub fn multi(names: &Names, tasks: &TaskTracker) -> MultiMutex {
    MultiMutex::one_by_one(LeasedMutex::start(Arc::new(names.clone()), &MULTI_CAPABILITIES, tasks))
}

impl Names {
    fn locked(&self) -> MutexGuard<'_, Table> {
        // Nothing in here can panic half-way through a change.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grant(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let mut table = self.locked();
        let now = Instant::now();
        let until = now + lease;
        if let Some(hold) = table.holds.get_mut(name) {
            if hold.owner == token.as_str() {
                hold.until = until;
                return Ok(Some(hold.grant));
            }
            if hold.until > now {
                return Ok(None);
            }
        }
        let first = mint(table.last_fence)?;
        let grant = Grant::block(first, token.fences(), false);
        table.last_fence = first + u64::from(grant.fences) - 1;
        assert!(table.last_fence <= Fence::MAX.get(), "a block ends at the highest fence");
        table.holds.insert(name.clone(), Hold { owner: token.as_str().to_owned(), until, grant });
        Ok(Some(grant))
    }
}

/// The next fence: above the last one, and by the wall clock also above those of an earlier run.
fn mint(last: u64) -> StoreResult<u64> {
    let fence = now_us().max(last + 1);
    assert!(fence > last, "fences rise: {fence} after {last}");
    if fence > Fence::MAX.get() {
        return Err(BackendError::new("no fence is left"));
    }
    Ok(fence)
}

/// The wall clock, where fences begin that have no earlier one.
pub(crate) fn now_us() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
}

#[async_trait]
impl LeaseStore for Names {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        self.grant(name, token, lease)
    }

    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        let mut table = self.locked();
        let Some(hold) = table.held(name, token) else { return Ok(false) };
        hold.until = Instant::now() + lease;
        Ok(true)
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let mut table = self.locked();
        let held = table.held(name, token).is_some();
        if held {
            table.holds.remove(name);
        }
        Ok(held)
    }

    async fn raise_fence(&self, _name: &LockName, at_least: Fence) -> StoreResult<()> {
        let mut table = self.locked();
        table.last_fence = table.last_fence.max(at_least.get());
        assert!(table.last_fence >= at_least.get(), "the next fence is above {at_least}");
        Ok(())
    }
}

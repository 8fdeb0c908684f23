//! Several names at once, all or none.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use futures::future::{BoxFuture, join_all, select_all};

use super::store::BackendError;
use crate::{AcquireError, AcquireOptions, Fence, Guard, LeasedMutex, LockName, ReleaseOutcome};

/// How many names may be acquired together.
pub const NAMES_MAX: usize = 64;

/// Acquires several names over one lock.
///
/// Names that the backend can grant in one step form a group. All callers acquire the groups in one
/// fixed order, so opposite orders of two callers cannot block each other; when a group is not
/// granted, the groups before it are released.
#[derive(Clone, Debug)]
pub struct MultiMutex {
    mutex: LeasedMutex,
    together: GroupRule,
}

/// Which names the backend grants in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupRule {
    /// Each name alone.
    None,
    /// Names with one hash tag: they live in one slot.
    SameHashTag,
    /// All names, whatever they are.
    All,
}

impl MultiMutex {
    /// A lock that acquires the names one by one, for a backend that grants one name at a time.
    #[must_use]
    pub fn one_by_one(mutex: LeasedMutex) -> Self {
        Self { mutex, together: GroupRule::None }
    }

    /// A lock that acquires all names with one hash tag in one step. The store behind `mutex` gets
    /// groups of names: see [`LockName::parts`].
    #[must_use]
    pub fn by_hash_tag(mutex: LeasedMutex) -> Self {
        Self { mutex, together: GroupRule::SameHashTag }
    }

    /// A lock that acquires all names in one step. The store behind `mutex` gets one group: see
    /// [`LockName::parts`].
    #[must_use]
    pub fn all_at_once(mutex: LeasedMutex) -> Self {
        Self { mutex, together: GroupRule::All }
    }

    /// The lock that acquires the groups, for its counters.
    #[must_use]
    pub fn mutex(&self) -> &LeasedMutex {
        &self.mutex
    }

    /// Acquires all of `names`, 1 to [`NAMES_MAX`], in any order; a name that is given twice counts
    /// once. Waits as `options.wait` says, for all of them together. Dropping the future releases
    /// the names that were granted already.
    ///
    /// # Errors
    /// Those of [`LeasedMutex::acquire`]. Nothing is held after any of them, though the background may need
    /// a moment to release the names that were granted before.
    pub async fn acquire_all(
        &self,
        names: &[LockName],
        options: AcquireOptions,
    ) -> Result<MultiGuard, AcquireError> {
        let names: BTreeSet<&LockName> = names.iter().collect();
        if names.is_empty() || names.len() > NAMES_MAX {
            let why = format!("{} names, but 1 to {NAMES_MAX} can be acquired", names.len());
            return Err(AcquireError::InvalidOptions(why));
        }
        let mut groups: BTreeMap<&str, Vec<LockName>> = BTreeMap::new();
        for name in names {
            let group = match self.together {
                GroupRule::None => name.as_str(),
                GroupRule::All => "",
                GroupRule::SameHashTag => name.hash_tag().unwrap_or(name.as_str()),
            };
            groups.entry(group).or_default().push(name.clone());
        }
        // Dropping this releases the names that are held already.
        let mut held = MultiGuard { groups: Vec::with_capacity(groups.len()) };
        for (_, names) in groups {
            let guard = self.mutex.acquire(&LockName::group(&names), options).await?;
            held.groups.push(Group { names, guard });
        }
        if held.is_lost() {
            let why = "one name was lost while the others were waited for";
            return Err(AcquireError::Unavailable(BackendError::new(why)));
        }
        Ok(held)
    }
}

/// Proof of a hold of several names, as [`Guard`] is of one.
#[derive(Debug)]
#[must_use = "a dropped guard gives the locks back"]
pub struct MultiGuard {
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    names: Vec<LockName>,
    guard: Guard,
}

impl MultiGuard {
    /// The fence of one of the names, as [`Guard::fence`]. `None` for a name that is not held, and
    /// where the kind has no fences.
    #[must_use]
    pub fn fence(&self, name: &LockName) -> Option<Fence> {
        self.groups.iter().find(|group| group.names.contains(name))?.guard.fence()
    }

    /// Waits until the hold of any name is over without a release, like [`Guard::lost`].
    #[must_use]
    pub fn lost(&self) -> BoxFuture<'static, ()> {
        let lost = self.groups.iter().map(|group| group.guard.lost().cancelled_owned().boxed());
        select_all(lost).map(|_| ()).boxed()
    }

    /// Whether the hold of any name is over.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.groups.iter().any(|group| group.guard.is_lost())
    }

    /// Releases all names, as [`Guard::release`]. `Released` if every hold had lasted until then.
    pub async fn release(self) -> ReleaseOutcome {
        let outcomes = join_all(self.groups.into_iter().map(|group| group.guard.release())).await;
        if outcomes.contains(&ReleaseOutcome::AlreadyLost) {
            return ReleaseOutcome::AlreadyLost;
        }
        ReleaseOutcome::Released
    }
}

//! `reentrant` on `zookeeper`: `sequential`, whose owner may enter again.
//!
//! **How it works.** The first hold of an owner is that of `sequential`. The client counts the
//! owner's further holds by their tokens. These tokens never leave the client. Each further hold
//! is granted after the ensemble has confirmed that the owner's node still exists. The node is
//! deleted with the last hold.
//!
//! **What can go wrong.** It fails as `sequential` does. Entering again costs a write.
//!
//! **When to use it.** Use it when code that holds a name calls code that acquires the same name.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::task::TaskTracker;

use super::contenders::{Nodes, TokenSubscription, give_up};
use super::queue::Queue;
use super::{Base, Ensemble};
use crate::core::queue_role::QueueRole;
use crate::store::{AcquireResult, Grant, LeaseStore, StoreResult, Subscription, Token};
use crate::threads::locked;
use crate::{Capabilities, Fence, LeasedMutex, LockName};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "reentrant",
    summary: "an ephemeral sequential node per owner, with a count of its holds",
    reentrant: true,
    ..super::FAIR_MUTEX
};

/// Makes the lock. Connects when first used.
#[must_use]
pub fn mutex(ensemble: &Arc<Ensemble>, tasks: &TaskTracker) -> LeasedMutex {
    let base = Base::new(ensemble, CAPABILITIES.kind);
    let queue = Queue::start(base, QueueRole::Exclusive, tasks);
    let store = Reentrant { queue, holds: Mutex::default() };
    LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks)
}

struct Reentrant {
    queue: Arc<Queue>,
    /// The tokens of the holds that each owner has.
    holds: Mutex<HashMap<String, HashSet<String>>>,
}

impl Reentrant {
    fn has(&self, token: &Token) -> bool {
        locked(&self.holds).get(token.owner()).is_some_and(|holds| holds.contains(token.as_str()))
    }

    fn add(&self, token: &Token) {
        let mut holds = locked(&self.holds);
        holds.entry(token.owner().to_owned()).or_default().insert(token.as_str().to_owned());
    }

    /// Adds a hold to those of an owner, if it has any.
    fn join(&self, token: &Token) -> bool {
        let mut holds = locked(&self.holds);
        let Some(holds) = holds.get_mut(token.owner()).filter(|holds| !holds.is_empty()) else {
            return false;
        };
        holds.insert(token.as_str().to_owned());
        true
    }

    /// Takes a hold away: whether it was there, and whether others of its owner are.
    fn take(&self, token: &Token) -> (bool, bool) {
        let mut all = locked(&self.holds);
        let Some(holds) = all.get_mut(token.owner()) else { return (false, false) };
        let had = holds.remove(token.as_str());
        (had, !holds.is_empty())
    }
}

#[async_trait]
impl LeaseStore for Reentrant {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let owner = token.owner();
        if owner == token.as_str() {
            let fence = self.queue.enter(name, owner, lease).await?;
            if fence.is_some() {
                self.add(token);
            }
            return Ok(fence.map(Grant::fenced));
        }
        // Counted first: the last other hold may be released meanwhile.
        if !self.join(token) {
            return Ok(None);
        }
        if !self.queue.prove(owner, lease).await? {
            self.take(token);
            return Ok(None);
        }
        let contender = self.queue.contenders().get(owner);
        let fence = contender.and_then(|contender| contender.node?.fence);
        Ok(fence.map(Grant::fenced))
    }

    async fn renew(&self, _name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        if !self.has(token) {
            return Ok(false);
        }
        let is_there = self.queue.prove(token.owner(), lease).await?;
        if !is_there {
            // All holds of the owner have ended with its node.
            locked(&self.holds).remove(token.owner());
        }
        Ok(is_there)
    }

    async fn release(&self, _name: &LockName, token: &Token) -> StoreResult<bool> {
        let (had, others) = self.take(token);
        if others {
            return Ok(had);
        }
        // Also the node of a waiting contender, and after a release whose answer was lost.
        let left = give_up(&*self.queue, token.owner()).await?;
        locked(&self.holds).remove(token.owner());
        Ok(left)
    }

    async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        self.queue.raise_fence(name, at_least).await
    }

    async fn watch(&self, _name: &LockName, token: &Token) -> StoreResult<Option<Subscription>> {
        Ok(Some(TokenSubscription::to(self.queue.contenders(), token)))
    }

    fn queues(&self) -> bool {
        true
    }
}

//! Locks on one Redis server: the connection, the keys, the scripts.
//!
//! Keys of a name `N` with hash tag `T`, under the caller's prefix `P`:
//!
//! | key | holds | lives |
//! |---|---|---|
//! | `P` `lock:N` | the owner's token and its fence | as long as the lease |
//! | `P` `lock-of:{N}` | token and fence for a name without a hash tag | as long as the lease |
//! | `P` `queue:N` | the waiting contenders, with the times of their arrival and last attempt | seconds after the last attempt |
//! | `P` `fence:{T}` | the last fence that was minted | a day after the last acquire, and until the clock has passed it |
//!
//! The other kinds have such keys below `P` and their own name; their files describe further keys.
//!
//! All names with one hash tag share one fence counter: it has to be in their slot anyway, the
//! fences of names that guard the same data stay comparable, and thousands of short-lived names
//! leave one key behind instead of thousands.

mod compare;
mod connect;
pub mod countdown_latch;
pub mod counter;
pub mod expiring_semaphore;
pub mod fair;
mod independence;
pub mod multi;
pub mod plain;
pub mod read_write;
pub mod redlock;
pub mod reentrant;
mod script;
mod script_store;
pub mod semaphore;
mod server;
pub mod spin;
pub mod subscriber;
pub mod token;
mod tracker;

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::ConnectionLike;

pub(crate) use compare::Compare;
pub use connect::{ConnectError, KEY_PREFIX_DEFAULT, connect, locks};
pub(crate) use script::run;
use script::script;

use crate::{Capabilities, Fencing, InvalidName, LockName, Waiting};

/// A connection that can be cloned and used by many tasks at once, such as
/// redis-rs's [`ConnectionManager`](::redis::aio::ConnectionManager).
///
/// The locks set time-outs and repeat their commands themselves. The connection has to reconnect
/// after a break and to notice a dead link: set `TCP_NODELAY` and `TCP_USER_TIMEOUT` (or keep-alive),
/// or a link that swallows everything is never replaced.
pub trait Connection: ConnectionLike + Clone + Send + Sync + 'static {}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Connection for C {}

/// The beginning of the cards of mutexes on Redis: no fence, and waiters poll.
pub(crate) const MUTEX: Capabilities = Capabilities {
    backend: "redis",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or the holder is paused beyond its lease",
    ..Capabilities::LEASED_MUTEX
};

/// The beginning of the cards of kinds with fences, whose waiters are notified.
const FENCED_MUTEX: Capabilities =
    Capabilities { fencing: Fencing::Rising, waiting: Waiting::Notified, ..MUTEX };

/// How long a fence counter is kept without an acquire, and longer while it is ahead of the clock.
/// Afterwards it starts again from the clock, which has passed it by then; so nothing is lost, and
/// an unused name leaves no key behind.
const FENCE_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a contender keeps its position in a queue after its last attempt. Far above the longest
/// pause between two attempts and the longest command.
const WAITER_ALIVE: Duration = Duration::from_millis(1_500);

/// Where the keys of names are: see the table above.
#[derive(Clone)]
pub(crate) struct Keys {
    prefix: Arc<str>,
}

impl Keys {
    /// Takes a prefix for all keys. Braces would move the hash tag, so they are refused.
    pub(crate) fn new(prefix: &str) -> Result<Self, InvalidName> {
        if !prefix.is_empty() {
            let checked = LockName::new(prefix)?;
            if checked.hash_tag().is_some() {
                return Err(InvalidName("a key prefix cannot contain a hash tag"));
            }
        }
        Ok(Self { prefix: prefix.into() })
    }

    /// The keys of another kind under the same prefix: kinds never meet in a key.
    pub(crate) fn of_kind(prefix: &str, kind: &str) -> Result<Self, InvalidName> {
        Self::new(&format!("{prefix}{kind}:"))
    }

    /// The key of the hold. A name with a tag and the same name without never meet.
    pub(crate) fn lock(&self, name: &LockName) -> String {
        self.key("lock", name)
    }

    /// The key of something else about the name, in the same slot.
    pub(crate) fn key(&self, word: &str, name: &LockName) -> String {
        let prefix = &*self.prefix;
        match name.hash_tag() {
            Some(_) => [prefix, word, ":", name.as_str()].concat(),
            None => [prefix, word, "-of:{", name.as_str(), "}"].concat(),
        }
    }

    /// The keys that scripts with a queue use: the hold, the fence counter and the queue.
    pub(crate) fn all(&self, name: &LockName) -> [String; 3] {
        [self.lock(name), self.fence(name), self.key("queue", name)]
    }

    /// The key of the fence counter, in the same slot.
    pub(crate) fn fence(&self, name: &LockName) -> String {
        [&*self.prefix, "fence:{", tag(name), "}"].concat()
    }
}

/// The hash tag, which chooses the slot of a name's keys. All names of a group have one hash tag.
fn tag(name: &LockName) -> &str {
    name.hash_tag().unwrap_or(name.as_str())
}

#[cfg(test)]
mod tests {
    use super::{Keys, LockName};

    #[test]
    fn keys_of_a_name_share_a_slot_and_names_never_share_a_key() {
        let keys = Keys::new("test:").expect("a prefix");
        let name = |text| LockName::new(text).expect("a name");
        let tagged = name("{invoice:12}:write");
        assert_eq!(keys.lock(&tagged), "test:lock:{invoice:12}:write");
        assert_eq!(keys.fence(&tagged), "test:fence:{invoice:12}");
        assert_eq!(keys.lock(&name("a")), "test:lock-of:{a}");
        assert_eq!(keys.lock(&name("{a}")), "test:lock:{a}");
        assert_eq!(keys.fence(&name("a")), "test:fence:{a}");
    }

    #[test]
    fn a_prefix_cannot_move_the_slot() {
        assert!(Keys::new("").is_ok());
        assert!(Keys::new("{tagged}:").is_err());
        assert!(Keys::new("two words").is_err());
    }
}

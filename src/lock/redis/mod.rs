//! Locks on one Redis server (or one hash slot of a cluster): the connection, the keys, the scripts.
//!
//! Keys of a name `N` with hash tag `T`, under the caller's prefix `P`:
//!
//! | key | holds | lives |
//! |---|---|---|
//! | `P` `lock:N` | the owner's token and its fence | as long as the lease |
//! | `P` `lock-of:{N}` | the same for a name that came without a hash tag | as long as the lease |
//! | `P` `queue:N`, `P` `said:N` | who waits, by arrival, and what each said last | seconds after the last look |
//! | `P` `fence:{T}` | the last fence that was minted | a day after the last acquire |
//!
//! The other kinds have the same below `P` and their name; what else they keep stands in their files.
//!
//! All names with one hash tag share one fence counter: it has to be in their slot anyway, the
//! fences of names that guard the same data stay comparable, and thousands of short-lived names
//! leave one key behind instead of thousands.

pub mod countdown_latch;
pub mod counter;
pub mod expiring_semaphore;
pub mod fair;
pub mod getset;
pub mod multi;
pub mod read_write;
pub mod redlock;
pub mod reentrant;
pub mod semaphore;
pub mod setnx;
pub mod setnx_expire;
pub mod spin;
pub mod subscriber;
pub mod token;

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{ErrorKind, FromRedisValue, Script, ServerErrorKind};

use super::lease::{Renewal, Unanswered};
use super::{CommandError, InvalidName, LockName};

/// A connection that can be cloned and used by many tasks at once, such as
/// redis-rs's [`ConnectionManager`](::redis::aio::ConnectionManager).
///
/// The locks bound and resend their commands themselves. What the connection has to do is to come
/// back after a break, and to notice a dead link: set `TCP_NODELAY` and `TCP_USER_TIMEOUT` (or
/// keep-alive), since a link that swallows everything is otherwise never replaced.
pub trait Connection: ConnectionLike + Clone + Send + Sync + 'static {}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Connection for C {}

/// How long a fence counter is kept without an acquire. One that is gone starts again from the
/// clock, which has passed it by then, so nothing is lost; and a name that nobody uses any more
/// leaves no key behind.
const FENCE_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// For how long a waiter that is not seen keeps its place in a queue. Far above the longest pause
/// between two looks and the longest command.
const WAITER_ALIVE: Duration = Duration::from_millis(1_500);

/// Where the keys of names are.
struct Keys {
    prefix: Arc<str>,
}

impl Keys {
    /// Takes a prefix for all keys. Braces would move the hash tag, so they are refused.
    fn new(prefix: &str) -> Result<Self, InvalidName> {
        if !prefix.is_empty() {
            let checked = LockName::new(prefix)?;
            if checked.hash_tag().is_some() {
                return Err(InvalidName("a key prefix cannot contain a hash tag"));
            }
        }
        Ok(Self { prefix: prefix.into() })
    }

    /// The keys of another kind under the same prefix: kinds never meet in a key.
    fn of_kind(prefix: &str, kind: &str) -> Result<Self, InvalidName> {
        Self::new(&format!("{prefix}{kind}:"))
    }

    /// The key of the hold. A name with a tag and the same name without never meet.
    fn lock(&self, name: &LockName) -> String {
        self.key("lock", name)
    }

    /// Something else about the name, in the same slot.
    fn key(&self, word: &str, name: &LockName) -> String {
        match name.hash_tag() {
            Some(_) => format!("{}{word}:{name}", self.prefix),
            None => format!("{}{word}-of:{{{name}}}", self.prefix),
        }
    }

    /// What scripts with a queue work on: the hold, the fence counter, the queue, and what those in
    /// it said.
    fn all(&self, name: &LockName) -> [String; 4] {
        [self.lock(name), self.fence(name), self.key("queue", name), self.key("said", name)]
    }

    /// The key of the fence counter, in the same slot.
    fn fence(&self, name: &LockName) -> String {
        let tag = name.hash_tag().unwrap_or(name.as_str());
        format!("{}fence:{{{tag}}}", self.prefix)
    }
}

/// Runs a script by its digest, loading it first where the server does not know it.
async fn run<C: Connection, T: FromRedisValue>(
    connection: &C,
    script: &Script,
    keys: &[impl AsRef<str>],
    arguments: &[&str],
) -> Result<T, Unanswered> {
    let mut invocation = script.prepare_invoke();
    for key in keys {
        invocation.key(key.as_ref());
    }
    for argument in arguments {
        invocation.arg(*argument);
    }
    // A clone is a handle to the same connection.
    invocation.invoke_async(&mut connection.clone()).await.map_err(unanswered)
}

/// The same for a primitive that holds nothing.
async fn run_command<C: Connection, T: FromRedisValue>(
    connection: &C,
    script: &Script,
    keys: &[&str],
    arguments: &[&str],
) -> Result<T, CommandError> {
    let mut invocation = script.prepare_invoke();
    invocation.key(keys).arg(arguments);
    invocation.invoke_async(&mut connection.clone()).await.map_err(refused_or_unanswered)
}

/// What an error means to one whose command is a single step: either the server says that it did
/// not do it, or nobody knows.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn refused_or_unanswered(error: ::redis::RedisError) -> CommandError {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => CommandError::Refused(error.to_string()),
        _ => CommandError::Unanswered(error.to_string()),
    }
}

/// Runs the script of a kind that renews by `KEYS[1]`, the token and the lease, once for each hold,
/// in one round trip.
async fn renew_together<C: Connection>(
    connection: &C,
    script: &Script,
    keys: &Keys,
    renewals: &[Renewal],
) -> Result<Vec<bool>, Unanswered> {
    let mut pipeline = ::redis::pipe();
    for Renewal { name, token, lease } in renewals {
        let call = pipeline.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(keys.lock(name));
        call.arg(token.as_str()).arg(lease.as_millis().to_string());
    }
    let mut redis = connection.clone();
    match pipeline.query_async(&mut redis).await {
        Err(error) if error.kind() == ServerErrorKind::NoScript.into() => {
            script.load_async(&mut redis).await.map_err(unanswered)?;
            pipeline.query_async(&mut redis).await.map_err(unanswered)
        }
        answer => answer.map_err(unanswered),
    }
}

/// What an error of the client means.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn unanswered(error: ::redis::RedisError) -> Unanswered {
    Unanswered(error.to_string())
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

//! `redlock` on `redis`: a majority of independent servers, in the five steps of its description.
//!
//! **How it works.** (1) Read the clock. (2) Ask all servers at once for the same key with the same
//! random token, each with a short time-out, so that a dead or slow server delays nobody. (3) The
//! lock is granted when a majority granted it and the time since (1) has not used up the lease,
//! less the clock drift. (4) The hold lasts for the rest of the lease since (1). (5) If the lock
//! was not granted in (3), release the key on all servers, also on those that did not answer, and
//! try again after a jittered pause. Renewal needs a majority as well, and never deletes or creates
//! a key. The algorithm is Salvatore Sanfilippo's ("Distributed locks with Redis").
//!
//! **What can go wrong.** A server that restarts without its data, or whose clock jumps ahead,
//! forgets its vote: a second majority is possible, and with it a second holder. As with every
//! lease, a holder may be paused beyond it. There is no fence: the counters of the servers rise
//! independently, and the highest one of a majority goes back when a server loses its data. So a
//! late write can be refused only by a store that has a condition of its own, independent of the
//! lock.
//!
//! **When to use it.** Use it to save work when a server may die, never to keep data right. The
//! locks on `etcd` and `zookeeper` have both the majority and the fence.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ::redis_connection::Script;
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::independence::Independence;
use super::{Connection, Keys, run};
use crate::store::{AcquireResult, BackendError, Grant, LeaseStore, StoreResult, Token};
use crate::{Capabilities, InvalidName, LEASE_MAX, LeasedMutex, LockName};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "redlock",
    summary: "a random owner token on a majority of independent servers, renewed, without a fence",
    breaks_when: "A server restarts without its data or its clock jumps ahead, or the holder is paused beyond its lease",
    survives_failover: true,
    ..super::MUTEX
};

/// The fewest servers that survive the death of one.
pub const SERVERS_MIN: usize = 3;

/// The most servers: more of them would make every acquire slower and hardly safer.
pub const SERVERS_MAX: usize = 9;

/// The longest that one server may take to answer.
const SERVER_TIMEOUT_MAX: Duration = Duration::from_millis(250);

/// How many time-outs of one server fit into a lease. More than commands fit into it, so that a
/// silent server does not make the whole command time out.
const SERVER_TIMEOUTS_PER_LEASE: u32 = 4;

static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("redlock_acquire.lua")));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("token_renew.lua")));
static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("redlock_release.lua")));
static UNDO: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("value_release.lua")));

/// Why the lock cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRedlock {
    /// The prefix is not valid.
    #[error(transparent)]
    Prefix(#[from] InvalidName),
    /// There are fewer than [`SERVERS_MIN`] or more than [`SERVERS_MAX`] servers.
    #[error("{0} servers, but a majority needs {SERVERS_MIN} to {SERVERS_MAX}")]
    Servers(usize),
}

/// Makes the lock over one connection to each server; the other arguments are those of
/// [`token::mutex`](super::token::mutex). The servers must not replicate each other or be nodes of a
/// cluster, which the first acquire refuses, and should keep
/// what they acknowledged over a restart (`appendfsync always`), or stay away for a lease after one.
///
/// # Errors
/// When the prefix is not valid, or there are too few or too many servers.
pub fn mutex<C: Connection>(
    connections: Vec<C>,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidRedlock> {
    if !(SERVERS_MIN..=SERVERS_MAX).contains(&connections.len()) {
        return Err(InvalidRedlock::Servers(connections.len()));
    }
    let store = RedlockStore {
        connections,
        keys: Keys::of_kind(key_prefix, CAPABILITIES.kind)?,
        tasks: tasks.clone(),
        tries: AtomicU64::new(0),
        independence: Independence::new(),
    };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct RedlockStore<C> {
    connections: Vec<C>,
    keys: Keys,
    tasks: TaskTracker,
    /// The number of attempts so far. Each attempt writes its number beside the token, so that a
    /// command that arrives late cannot undo a later attempt of the same acquire.
    tries: AtomicU64,
    independence: Independence,
}

/// The answers of the servers.
#[derive(Default)]
struct Votes {
    yes: usize,
    no: usize,
    /// Why the last server without an answer gave none.
    silence: Option<String>,
}

impl<C: Connection> RedlockStore<C> {
    fn majority(&self) -> usize {
        self.connections.len() / 2 + 1
    }

    /// Sends a script to all servers at once. Each command goes on for its time-out at most, whether
    /// or not somebody waits for the answers.
    fn send_all<const N: usize>(
        &self,
        script: &'static Script,
        name: &LockName,
        arguments: [String; N],
        lease: Duration,
    ) -> FuturesUnordered<JoinHandle<StoreResult<bool>>> {
        let limit = SERVER_TIMEOUT_MAX.min(lease / SERVER_TIMEOUTS_PER_LEASE);
        let key = Arc::new(self.keys.lock(name));
        let arguments = Arc::new(arguments);
        let send = |connection: &C| {
            let connection = connection.clone();
            let key = Arc::clone(&key);
            let arguments = Arc::clone(&arguments);
            self.tasks.spawn(async move {
                let arguments = arguments.each_ref().map(|text| &**text);
                let answer = timeout(limit, run(&connection, script, &[&**key], &arguments)).await;
                answer.unwrap_or_else(|_| {
                    Err(BackendError::new(format!("no answer within {limit:?}")))
                })
            })
        };
        self.connections.iter().map(send).collect()
    }

    /// Counts answers until the outcome is certain.
    async fn count(&self, mut answers: FuturesUnordered<JoinHandle<StoreResult<bool>>>) -> Votes {
        let mut votes = Votes::default();
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(Ok(true)) => votes.yes += 1,
                Ok(Ok(false)) => votes.no += 1,
                Ok(Err(error)) => votes.silence = Some(error.to_string()),
                Err(ended) => votes.silence = Some(ended.to_string()),
            }
            if self.is_certain(&votes) {
                break;
            }
        }
        votes
    }

    /// Whether a majority said yes, or can no longer say yes.
    fn is_certain(&self, votes: &Votes) -> bool {
        votes.yes >= self.majority() || votes.no > self.connections.len() - self.majority()
    }

    /// Yes if a majority said yes, no if it no longer can; otherwise an error.
    fn decide(&self, votes: Votes) -> StoreResult<bool> {
        if self.is_certain(&votes) {
            return Ok(votes.yes >= self.majority());
        }
        let spoke = votes.yes + votes.no;
        let all = self.connections.len();
        let why = votes.silence.unwrap_or_default();
        Err(BackendError::new(format!("{spoke} of {all} servers answered; {why}")))
    }
}

#[async_trait]
impl<C: Connection> LeaseStore for RedlockStore<C> {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let limit = SERVER_TIMEOUT_MAX.min(lease / SERVER_TIMEOUTS_PER_LEASE);
        self.independence.check(&self.connections, limit).await?;
        let number = self.tries.fetch_add(1, Ordering::Relaxed).to_string();
        let value = format!("{}:{number}", token.as_str());
        let arguments = [token.as_str().to_owned(), number, lease.as_millis().to_string()];
        let sent = self.send_all(&ACQUIRE, name, arguments, lease);
        let votes = self.count(sent).await;
        if votes.yes >= self.majority() {
            return Ok(Some(Grant::UNFENCED));
        }
        // Also on servers without an answer: they may have granted it.
        drop(self.send_all(&UNDO, name, [value], lease));
        // A majority answered, but its votes went to several contenders.
        if votes.yes + votes.no >= self.majority() {
            return Ok(None);
        }
        self.decide(votes).map(|_| None)
    }

    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        let arguments = [token.as_str().to_owned(), lease.as_millis().to_string()];
        let sent = self.send_all(&RENEW, name, arguments, lease);
        self.decide(self.count(sent).await)
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let arguments = [token.as_str().to_owned()];
        let sent = self.send_all(&RELEASE, name, arguments, LEASE_MAX);
        self.decide(self.count(sent).await)
    }
}

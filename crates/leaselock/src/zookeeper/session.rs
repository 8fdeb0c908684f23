//! The sessions of one process: a few, by the length of the leases they carry.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio_util::task::AbortOnDropHandle;
use zookeeper_client::Client;

use super::super::LEASE_MAX;
use super::{InvalidName, LockName};
use crate::store::{BackendError, StoreResult, ask};
use crate::threads::locked;

/// The shortest session. A shorter one would end with every hiccup of a busy machine, and it only
/// matters to others after this process has died.
const SESSION_MIN: Duration = Duration::from_millis(1_500);

/// Where the servers are, and this process's sessions with them. All kinds of a service share one.
pub struct Ensemble {
    hosts: Arc<str>,
    prefix: String,
    /// By their length in milliseconds. Lengths double, so there are at most eleven.
    sessions: Mutex<BTreeMap<u64, Session>>,
}

struct Session {
    pending: PendingSession,
    /// Does nothing, and ends with the runtime that runs the session: the client does not tell of that.
    runtime: AbortOnDropHandle<()>,
}

/// A session that is being opened, or is open.
type PendingSession = Shared<BoxFuture<'static, Result<Client, String>>>;

impl Ensemble {
    /// `hosts` is what ZooKeeper calls a connect string: `host:port,host:port`, perhaps with a path
    /// behind it that exists already. All nodes begin with `prefix`. Connects when first used.
    ///
    /// # Errors
    /// When the prefix cannot be part of a path.
    pub fn new(hosts: &str, prefix: &str) -> Result<Arc<Self>, InvalidName> {
        if !prefix.is_empty() {
            LockName::new(prefix)?;
        }
        if prefix.contains('/') || prefix.starts_with('.') {
            return Err(InvalidName("a prefix of nodes cannot contain / or begin with a dot"));
        }
        let sessions = Mutex::default();
        Ok(Arc::new(Self { hosts: hosts.into(), prefix: prefix.to_owned(), sessions }))
    }

    /// Asks for a sign of life, in the session that carries such leases.
    ///
    /// # Errors
    /// When there is none within half a second.
    pub async fn ping(&self, lease: Duration) -> Result<(), String> {
        let answer = async {
            let session = self.session(lease).await?;
            session.check_stat("/").await.map(drop).map_err(BackendError::of)
        };
        ask(LEASE_MAX, answer).await.map_err(|error| error.to_string())
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A live session that is long enough for holds of this lease, opened if there is none.
    pub(super) async fn session(&self, lease: Duration) -> StoreResult<Client> {
        let client = self.connecting(session_for(lease)).await.map_err(BackendError::new)?;
        let negotiated = client.session_timeout();
        if negotiated < shortest_for(lease) {
            return Err(BackendError::new(format!(
                "the server ends sessions after {negotiated:?}, too soon for a lease of {lease:?}: \
                 raise its maxSessionTimeout"
            )));
        }
        Ok(client)
    }

    fn connecting(&self, length: Duration) -> PendingSession {
        let key = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let mut sessions = locked(&self.sessions);
        if let Some(open) = sessions.get(&key).filter(|session| session.is_usable()) {
            return open.pending.clone();
        }
        let connector = Client::connector().with_session_timeout(length).with_fail_eagerly();
        let hosts = Arc::clone(&self.hosts);
        // A task of its own: callers are less patient than a handshake may take.
        let task = tokio::spawn(async move { connector.connect(&hosts).await });
        let opened = async move {
            match task.await {
                Ok(Ok(client)) => Ok(client),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("the session's task was ended with its runtime".to_owned()),
            }
        };
        let pending = opened.boxed().shared();
        let runtime = AbortOnDropHandle::new(tokio::spawn(std::future::pending()));
        sessions.insert(key, Session { pending: pending.clone(), runtime });
        pending
    }
}

impl Session {
    fn is_usable(&self) -> bool {
        let works = match self.pending.peek() {
            None => true,
            Some(Ok(client)) => !client.state().is_terminated(),
            Some(Err(_)) => false,
        };
        works && !self.runtime.is_finished()
    }
}

/// How long a session has to be at least. A server of an ensemble tells the leader of its sessions
/// twice in a tick, and the client speaks up after a seventh of its session, so the leader may count
/// from that much before our command.
fn shortest_for(lease: Duration) -> Duration {
    lease + lease / 2
}

/// The session to ask for: the next one of a few lengths, so that there are only a few sessions.
fn session_for(lease: Duration) -> Duration {
    let mut length = SESSION_MIN;
    while length < shortest_for(lease) {
        length *= 2;
    }
    length
}

impl fmt::Debug for Ensemble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ensemble")
            .field("hosts", &self.hosts)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::LEASE_MIN;
    use super::{LEASE_MAX, SESSION_MIN, session_for};

    #[test]
    fn a_session_outlives_its_leases_by_half() {
        assert_eq!(session_for(LEASE_MIN), SESSION_MIN);
        assert_eq!(session_for(Duration::from_secs(4)), Duration::from_secs(6));
        assert!(session_for(LEASE_MAX) >= LEASE_MAX * 3 / 2);
    }
}

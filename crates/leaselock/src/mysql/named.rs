//! `named` on `mysql`: the server's own `GET_LOCK`, on a session that does nothing else.
//!
//! **How it works.** One session per lock object holds all its names. `GET_LOCK(name, 0)` acquires,
//! and `RELEASE_LOCK` releases. MySQL lets a session take a name that this session already holds.
//! So the process also keeps its own holds in memory. The names are hashed. Without the hash, two
//! different names could be the same lock, because the server allows only 64 characters and ignores
//! case.
//!
//! **What can go wrong.** The holds live exactly as long as the session. When it is killed or
//! breaks, *all* its names are free at once, before any holder knows; the next renewal finds out.
//! When the holder's machine vanishes, the names stay taken until the server ends the session. This
//! happens after the longest lease that the session has had, or after [`SESSION_IDLE_MIN`] (60 s),
//! whichever is longer. There is no fence, and a replica knows nothing of these locks.
//!
//! **When to use it.** Use it to keep two copies of a job apart, when running twice wastes work but
//! does no harm.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{ConnectOptions, MySqlConnection, Row};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::store::{AcquireResult, BackendError, Grant, LeaseStore, StoreResult, Token};
use crate::{Capabilities, Fencing, LeasedMutex, LockName, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "named",
    backend: "mysql",
    summary: "GET_LOCK on one session of its own, names hashed",
    breaks_when: "The session breaks or is killed, or the server fails over; there is no fence",
    lost_signal: false,
    fencing: Fencing::None,
    waiting: Waiting::Polls,
    expires: false,
    ..Capabilities::LEASED_MUTEX
};

/// How long the server keeps a session, and so its holds, without a command, unless one of the holds
/// has a longer lease. The renewal of a hold is a command.
pub const SESSION_IDLE_MIN: Duration = Duration::from_secs(60);

/// Makes the lock. Connects when first used.
///
/// `options` is asked before each command, such as `move || pool.connect_options()`. When it answers
/// another value than before, the server was replaced: the session ends with all its holds, and the
/// next one is opened there. `namespace` keeps its names apart from others on the same server, where
/// named locks know no databases. `session_idle_min` is [`SESSION_IDLE_MIN`] but for tests, in whole
/// seconds.
#[must_use]
pub fn mutex(
    options: impl Fn() -> Arc<MySqlConnectOptions> + Send + Sync + 'static,
    namespace: &str,
    session_idle_min: Duration,
    tasks: &TaskTracker,
) -> LeasedMutex {
    let namespace = namespace.to_owned();
    let session = Mutex::default();
    let store = NamedStore { options: Box::new(options), namespace, session_idle_min, session };
    LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks)
}

struct NamedStore {
    options: Box<dyn Fn() -> Arc<MySqlConnectOptions> + Send + Sync>,
    namespace: String,
    session_idle_min: Duration,
    session: Mutex<Session>,
}

#[derive(Default)]
struct Session {
    /// Taken out while a command runs. A command that fails or is cancelled ends the session, since
    /// its effect is unknown.
    connection: Option<MySqlConnection>,
    /// The server that it was opened to.
    opened_to: Option<Arc<MySqlConnectOptions>>,
    /// How long the server keeps it without a command.
    idle_max: Duration,
    /// The names that this session holds.
    holds: HashMap<LockName, Hold>,
}

struct Hold {
    /// The token of the holder.
    token: String,
    /// The server's connection that has the name. A vtgate of Vitess keeps one for these functions alone.
    connection: i64,
}

impl NamedStore {
    /// The name of the lock at the server: 64 characters without upper case, different for different names.
    fn server_name(&self, name: &LockName) -> String {
        let digest = Sha256::new().chain_update(&self.namespace).chain_update([0]);
        let digest = digest.chain_update(name.as_str()).finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Ends a session with a server that was replaced: others take the locks on its successor.
    fn leave_replaced(&self, session: &mut Session) {
        let options = (self.options)();
        if !session.opened_to.as_ref().is_some_and(|opened| Arc::ptr_eq(opened, &options)) {
            session.connection = None;
        }
    }

    /// Opens the session if there is none, and makes the server keep it for this lease at least.
    async fn prepare(&self, session: &mut Session, lease: Duration) -> sqlx::Result<()> {
        self.leave_replaced(session);
        let (mut connection, idle_max) = match session.connection.take() {
            Some(connection) => (connection, session.idle_max),
            None => {
                session.holds.clear();
                let options = (self.options)();
                let connection = options.connect().await?;
                session.opened_to = Some(options);
                (connection, Duration::ZERO)
            }
        };
        session.idle_max = idle_max.max(lease).max(self.session_idle_min);
        if session.idle_max > idle_max {
            let seconds = session.idle_max.as_millis().div_ceil(1_000);
            let statement = format!("SET SESSION wait_timeout = {seconds}");
            sqlx::query(&statement).execute(&mut connection).await?;
        }
        session.connection = Some(connection);
        Ok(())
    }

    /// Runs lock functions on the session, each with the name as its first argument, and returns their answers. Each
    /// function is a column by itself: otherwise a vtgate of Vitess would ask another connection.
    async fn ask(
        &self,
        session: &mut Session,
        functions: &str,
        name: &LockName,
    ) -> sqlx::Result<Vec<Option<i64>>> {
        let Some(mut connection) = session.connection.take() else {
            return Ok(Vec::new());
        };
        let name = self.server_name(name);
        let places = functions.matches('?').count();
        let query = (0..places).fold(sqlx::query(functions), |query, _| query.bind(&name));
        let row = query.fetch_one(&mut connection).await?;
        session.connection = Some(connection);
        // The engines differ in whether the number of a connection has a sign.
        (0..row.len()).map(|column| row.try_get_unchecked(column)).collect()
    }
}

impl Session {
    /// Whether `token` has the name, and the session in which it got it is still there.
    fn has(&self, name: &LockName, token: &Token) -> bool {
        let owner = self.holds.get(name).map(|hold| hold.token.as_str());
        self.connection.is_some() && owner == Some(token.as_str())
    }
}

#[async_trait]
impl LeaseStore for NamedStore {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let mut session = self.session.lock().await;
        self.prepare(&mut session, lease).await.map_err(BackendError::of)?;
        if session.holds.contains_key(name) {
            return Ok(session.has(name, token).then_some(Grant::UNFENCED));
        }
        let asked = self.ask(&mut session, "SELECT GET_LOCK(?, 0), IS_USED_LOCK(?)", name);
        let [Some(1), Some(connection)] = asked.await.map_err(BackendError::of)?[..] else {
            return Ok(None);
        };
        let hold = Hold { token: token.as_str().to_owned(), connection };
        session.holds.insert(name.clone(), hold);
        Ok(Some(Grant::UNFENCED))
    }

    async fn renew(&self, name: &LockName, token: &Token, _lease: Duration) -> StoreResult<bool> {
        let mut session = self.session.lock().await;
        self.leave_replaced(&mut session);
        if !session.has(name, token) {
            return Ok(false);
        }
        let held = session.holds.get(name).map(|hold| hold.connection);
        let asked = self.ask(&mut session, "SELECT IS_USED_LOCK(?)", name);
        Ok(asked.await.map_err(BackendError::of)? == [held])
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let mut session = self.session.lock().await;
        if !session.has(name, token) {
            return Ok(false);
        }
        let freed = self.ask(&mut session, "SELECT RELEASE_LOCK(?)", name).await;
        session.holds.remove(name);
        Ok(freed.map_err(BackendError::of)? == [Some(1)])
    }
}

//! Whether this instance can work: probes of the servers that it depends on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use mysql_connection::Database;
use tokio::sync::Mutex;
use tokio::time::Instant;

use gates::redis_store::{Durability, RedisClient, Topology};
use ledger::schema::{self, Condition, SchemaState};
use ledger::single_flight::SingleFlight;
use mysql_connection::replication::{self, Replication};
use shop_domain::outcome::Dependency;

/// How long a dependency may take to answer a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long Redis may take to say how it writes to disk.
const DURABILITY_TIMEOUT: Duration = Duration::from_millis(300);

/// How old a promise about queued orders may be. Anybody may ask for it without a token, so Redis is not asked for
/// each request.
const PROMISE_AGE_MAX: Duration = Duration::from_secs(2);

/// The key of the ledger's replication among the dependencies.
const REPLICATION: &str = "mysql_replication";

/// A probe of a server; its error is a sentence for the operator.
pub type Probe = Box<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The servers to probe.
pub struct Readiness {
    pool: Database,
    redis: RedisClient,
    /// Replicas that have a queued order before it is answered.
    queue_replicas_min: u32,
    lock_servers: Vec<(Dependency, Probe)>,
    probes: SingleFlight<(), ProbeResults>,
    /// The last promise, and when Redis was asked for it.
    promise: Mutex<Option<(Instant, String)>>,
}

/// The results of the probes.
#[derive(Clone, Debug)]
pub struct ProbeResults {
    /// The schema, compared with this program; `None` when the ledger did not answer.
    pub schema: Option<SchemaState>,
    /// `ok` or the fault, by the name of the server.
    pub dependencies: BTreeMap<String, String>,
    /// How the ledger is replicated; `None` when it does not answer.
    pub ledger: Option<Replication>,
    /// What stands behind the address of Redis; `None` when it does not answer.
    pub redis: Option<Topology>,
}

impl Readiness {
    /// Makes the probes of the ledger, Redis and the configured lock servers.
    pub fn new(
        pool: Database,
        redis: RedisClient,
        queue_replicas_min: u32,
        lock_servers: Vec<(Dependency, Probe)>,
    ) -> Self {
        Self {
            pool,
            redis,
            queue_replicas_min,
            lock_servers,
            probes: SingleFlight::default(),
            promise: Mutex::new(None),
        }
    }

    /// Probes all servers at once; takes a second at most. Anybody may ask without a token, so all who ask meanwhile
    /// share one probe: they leave the connections to the ledger to purchases.
    pub async fn probe(self: &Arc<Self>) -> ProbeResults {
        let readiness = Arc::clone(self);
        self.probes.run((), || async move { Box::pin(readiness.probe_all()).await }).await
    }

    async fn probe_all(&self) -> ProbeResults {
        let lock_servers = self
            .lock_servers
            .iter()
            .map(async |(dependency, probe)| (dependency.as_str(), probed(probe()).await.0));
        let (
            (mysql, condition),
            (unread, replication),
            (redis, redis_condition),
            (_, topology),
            lock_servers,
        ) = tokio::join!(
            probed(schema::condition(&self.pool)),
            probed(replication::read_from(&self.pool)),
            probed(self.redis.condition()),
            probed(self.redis.topology()),
            join_all(lock_servers),
        );
        let fault = redis_condition.and_then(|condition| condition.fault());
        let redis = fault.map_or(redis, str::to_owned);
        let mysql = match condition {
            Some(Condition { writable: false, .. }) => "read-only".to_owned(),
            _ => mysql,
        };
        let named = [(Dependency::Mysql.as_str(), mysql), (Dependency::Redis.as_str(), redis)];
        let mut dependencies: BTreeMap<_, _> = named
            .into_iter()
            .chain(lock_servers)
            .map(|(name, state)| (name.to_owned(), state))
            .collect();
        // Only where the ledger is replicated, so that there is something to lose.
        let replicated = replication.as_ref().filter(|found| **found != Replication::None);
        if let Some(replication) = replicated {
            let state = replication.fault().map_or(unread, str::to_owned);
            dependencies.insert(REPLICATION.to_owned(), state);
        }
        let schema = condition.map(|condition| condition.schema);
        ProbeResults { schema, dependencies, ledger: replication, redis: topology }
    }

    /// How safe a queued order is while it waits in Redis, in a sentence, by the settings of Redis, which are
    /// read at most once in [`PROMISE_AGE_MAX`].
    pub async fn redis_promise(&self) -> String {
        // Callers wait for one question, at most `DURABILITY_TIMEOUT`.
        let mut last = self.promise.lock().await;
        if let Some((asked_at, promise)) = &*last
            && asked_at.elapsed() < PROMISE_AGE_MAX
        {
            return promise.clone();
        }
        let promise = self.ask_promise().await;
        *last = Some((Instant::now(), promise.clone()));
        promise
    }

    async fn ask_promise(&self) -> String {
        let asked = tokio::time::timeout(DURABILITY_TIMEOUT, Durability::ask(&self.redis)).await;
        let durability = asked.ok().and_then(Result::ok).unwrap_or(Durability::Unknown);
        durability.promise(self.queue_replicas_min)
    }
}

/// The state of a dependency for the page, and its answer. Errors of clients can contain addresses,
/// so they go to the log and not to the page.
async fn probed<T, E: std::fmt::Display>(
    probe: impl Future<Output = Result<T, E>>,
) -> (String, Option<T>) {
    match tokio::time::timeout(PROBE_TIMEOUT, probe).await {
        Ok(Ok(answer)) => ("ok".to_owned(), Some(answer)),
        Ok(Err(error)) => {
            tracing::debug!(%error, "dependency does not answer its probe");
            ("does not answer".to_owned(), None)
        }
        Err(_) => ("too slow".to_owned(), None),
    }
}

//! The primary that Sentinels name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use redis::{
    AsyncConnectionConfig, ConnectionInfo, ErrorKind, RedisError, RedisResult, from_redis_value,
};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::address;
use crate::node::Node;
use crate::shared_look::SharedLook;

/// How long the Sentinels may take to answer, and the primary to tell its role.
const ANSWER_MAX: Duration = Duration::from_millis(700);
/// How often the Sentinels are asked while the primary works: a primary that is cut off from them
/// may have a successor.
pub(crate) const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// The Sentinels, and the primary that they named last.
pub(crate) struct Sentinels {
    sentinels: Vec<Node>,
    name: String,
    /// How to log in to the primary, wherever it is.
    pub(crate) server: ConnectionInfo,
    config: AsyncConnectionConfig,
    /// Servers that were primary, by their addresses: a connection is not made twice.
    known: Mutex<BTreeMap<String, Node>>,
    primary: watch::Sender<Option<Node>>,
    resolving: SharedLook<Node>,
}

impl Sentinels {
    pub(crate) fn new(
        sentinels: Vec<ConnectionInfo>,
        name: String,
        server: ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<Self> {
        let sentinels = sentinels.into_iter().map(|info| Node::new(info, config));
        Ok(Self {
            sentinels: sentinels.collect::<RedisResult<_>>()?,
            name,
            server,
            config: config.clone(),
            known: Mutex::default(),
            primary: watch::Sender::new(None),
            resolving: SharedLook::new(),
        })
    }

    /// The primary, as far as it is known.
    pub(crate) fn known_primary(&self) -> Option<Node> {
        self.primary.borrow().clone()
    }

    /// The primary; asks the Sentinels if it is not known.
    pub(crate) async fn primary(&self) -> RedisResult<Node> {
        match self.known_primary() {
            Some(primary) => Ok(primary),
            None => self.resolve(None).await,
        }
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Option<Node>> {
        self.primary.subscribe()
    }

    /// Asks the Sentinels again, unless another caller has found a successor of `failed` meanwhile.
    pub(crate) async fn resolve(&self, failed: Option<&Node>) -> RedisResult<Node> {
        self.resolving.share(self.find(failed)).await
    }

    /// A known primary is left only if most of all Sentinels name another one: a few that are cut off
    /// with an old primary may name that. Without a known primary any Sentinel is believed.
    async fn find(&self, failed: Option<&Node>) -> RedisResult<Node> {
        if let Some(primary) = self.known_primary()
            && failed.is_none_or(|failed| !failed.is(&primary))
        {
            return Ok(primary);
        }
        let known = self.known_primary();
        let (votes, answered) = self.votes().await;
        for ((host, port), count) in votes {
            let node = self.node(&host, port)?;
            let may_follow =
                self.is_majority(count) || known.as_ref().is_none_or(|known| known.is(&node));
            if may_follow && is_primary(&node).await {
                self.set(&node);
                return Ok(node);
            }
        }
        // The old one is as good as none, and may be primary again.
        let why = format!(
            "{answered} of {} Sentinels answer, and a majority has to name another primary",
            self.sentinels.len()
        );
        Err(RedisError::from((ErrorKind::ClusterConnectionNotFound, "no primary", why)))
    }

    /// Follows a failover that no command has noticed: takes the primary that most Sentinels name.
    pub(crate) async fn look(&self) {
        let Some(present) = self.known_primary() else { return };
        let (votes, _) = self.votes().await;
        let Some(((host, port), count)) = votes.into_iter().next() else { return };
        if !self.is_majority(count) {
            return;
        }
        let Ok(named) = self.node(&host, port) else { return };
        if !named.is(&present) && is_primary(&named).await {
            tracing::info!(primary = named.name(), "Redis: the Sentinels name another primary");
            self.set(&named);
        }
    }

    /// Whether `count` is a majority of all Sentinels, silent ones included.
    fn is_majority(&self, count: usize) -> bool {
        count * 2 > self.sentinels.len()
    }

    /// The addresses that the Sentinels name, the most named first, and how many answered.
    async fn votes(&self) -> (Vec<((String, u16), usize)>, usize) {
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let question = &question;
        let ask = async |sentinel: &Node| {
            let answer = timeout(ANSWER_MAX, sentinel.ask(question)).await.ok()?.ok()?;
            from_redis_value::<Option<(String, u16)>>(answer).ok().flatten()
        };
        let answers = join_all(self.sentinels.iter().map(ask)).await;
        let mut votes: BTreeMap<(String, u16), usize> = BTreeMap::new();
        for named in answers.into_iter().flatten() {
            *votes.entry(named).or_default() += 1;
        }
        let answered = votes.values().sum();
        let mut votes: Vec<_> = votes.into_iter().collect();
        votes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        (votes, answered)
    }

    fn set(&self, node: &Node) {
        self.primary.send_if_modified(|primary| {
            let changed = primary.as_ref().is_none_or(|primary| !primary.is(node));
            if changed {
                *primary = Some(node.clone());
            }
            changed
        });
    }

    fn node(&self, host: &str, port: u16) -> RedisResult<Node> {
        let info = address::at(&self.server, host, port);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = known.get(&info.addr().to_string()) {
            return Ok(node.clone());
        }
        let node = Node::new(info, &self.config)?;
        known.insert(node.name().to_owned(), node.clone());
        Ok(node)
    }
}

/// Keeps asking the Sentinels until nobody uses the connection any more.
pub(crate) async fn keep(sentinels: std::sync::Weak<Sentinels>) {
    loop {
        tokio::time::sleep(LOOK_PERIOD.mul_f64(rand::random_range(0.8..=1.2))).await;
        let Some(sentinels): Option<Arc<Sentinels>> = sentinels.upgrade() else { return };
        sentinels.look().await;
    }
}

async fn is_primary(node: &Node) -> bool {
    let role = async {
        let role: Vec<redis::Value> = from_redis_value(node.ask(&redis::cmd("ROLE")).await?)?;
        RedisResult::Ok(
            matches!(role.first(), Some(redis::Value::BulkString(word)) if word == b"master"),
        )
    };
    timeout(ANSWER_MAX, role).await.is_ok_and(|role| role.unwrap_or(false))
}

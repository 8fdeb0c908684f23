//! The connection that everything shares, how a command finds its server, and when it is sent again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::join_all;
use redis::aio::ConnectionLike;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisFuture, RedisResult, Value};
use tokio::task::AbortHandle;
use tokio::time::timeout_at;

use crate::address::{Address, InvalidAddress, Shape, invalid};
use crate::cluster::{self, Cluster, unreachable_cluster};
use crate::node::Node;
use crate::own::OwnConnections;
use crate::refusal::{Failure, Refusal, slot_stays_open, unknown_in_pipeline};
use crate::sentinel::{self, Sentinels};
use crate::slot::{Slot, slot_of};

/// Redirections that a command follows before it pauses.
const REDIRECTIONS_MAX: u32 = 4;
/// The first and the longest pause before a command that did not run is sent again.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Time limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long connecting to a server may take.
    pub connect_timeout: Duration,
    /// How long a command may stay without an answer; then its result is unknown.
    pub command_timeout: Duration,
    /// How long a command that did not run is sent again: while a slot moves or a primary is
    /// replaced. A caller that gives up earlier ends it.
    pub retry_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(1),
            command_timeout: Duration::from_secs(1),
            retry_max: Duration::from_millis(2_500),
        }
    }
}

/// The connection. Clones share it. It connects when it is first used, and again after a loss.
///
/// A command is sent again only if it certainly did not run: its server answered that another one
/// has the slot (MOVED, ASK), that the slot moves or has no server (TRYAGAIN, CLUSTERDOWN), that it
/// is a replica (READONLY) or still loads its data, or no connection could be made. Every other
/// error means that the result is unknown, and is the caller's.
#[derive(Clone)]
pub struct SharedConnection {
    inner: Arc<Inner>,
}

struct Inner {
    servers: Servers,
    options: Options,
    /// The task that follows changes of the servers; `None` where none is needed yet.
    keeper: Mutex<Option<AbortHandle>>,
    own: Arc<OwnConnections>,
}

pub(crate) enum Servers {
    Single(Node),
    Sentinel(Arc<Sentinels>),
    Cluster(Arc<Cluster>),
}

impl SharedConnection {
    /// Makes a connection that connects when it is first used.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn new(address: &Address, options: Options) -> Result<Self, InvalidAddress> {
        let config = config(options);
        let servers = || -> RedisResult<Servers> {
            Ok(match address.0.clone() {
                Shape::Single(info) => Servers::Single(Node::new(info, &config)?),
                Shape::Sentinel { sentinels, name, server } => {
                    Servers::Sentinel(Arc::new(Sentinels::new(sentinels, name, server, &config)?))
                }
                Shape::Cluster { seeds } => {
                    Servers::Cluster(Arc::new(Cluster::new(seeds, &config)?))
                }
            })
        };
        let servers = servers().map_err(invalid)?;
        Ok(Self::of(servers, options))
    }

    fn of(servers: Servers, options: Options) -> Self {
        let keeper = Mutex::default();
        let own = Arc::default();
        Self { inner: Arc::new(Inner { servers, options, keeper, own }) }
    }

    pub(crate) fn servers(&self) -> &Servers {
        &self.inner.servers
    }

    pub(crate) fn own_connections(&self) -> &Arc<OwnConnections> {
        &self.inner.own
    }

    /// How long a command may stay without an answer.
    pub(crate) fn command_timeout(&self) -> Duration {
        self.inner.options.command_timeout
    }

    fn tries(&self) -> Tries {
        Tries::until(Instant::now() + self.inner.options.retry_max)
    }

    /// Starts the task that follows changes of the servers, unless it runs: it ends with its runtime.
    pub(crate) fn keep(&self) {
        let mut keeper = self.inner.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.as_ref().is_none_or(AbortHandle::is_finished) {
            let task = match &self.inner.servers {
                Servers::Single(_) => return,
                Servers::Sentinel(sentinels) => {
                    tokio::spawn(sentinel::keep(Arc::downgrade(sentinels)))
                }
                Servers::Cluster(cluster) => tokio::spawn(cluster::keep(Arc::downgrade(cluster))),
            };
            *keeper = Some(task.abort_handle());
        }
    }

    /// The server that has the slot now, or any primary.
    pub(crate) async fn server_of(&self, slot: Option<Slot>) -> RedisResult<Node> {
        match &self.inner.servers {
            Servers::Single(node) => Ok(node.clone()),
            Servers::Sentinel(sentinels) => sentinels.primary().await,
            Servers::Cluster(cluster) => cluster.owner(slot).await,
        }
    }

    /// What follows from a refusal: the server that was named instead, and whether to ask it first.
    async fn follow(&self, refusal: &Refusal, node: Option<&Node>) -> Option<(Node, bool)> {
        match (&self.inner.servers, refusal) {
            (Servers::Cluster(cluster), Refusal::Moved(address)) => {
                let named = cluster.named(address, node?).ok()?;
                cluster.wake(Some(&named));
                return Some((named, false));
            }
            (Servers::Cluster(cluster), Refusal::Ask(address)) => {
                return Some((cluster.named(address, node?).ok()?, true));
            }
            (Servers::Cluster(cluster), Refusal::Later | Refusal::SlotOpen) => cluster.wake(None),
            // An error comes again with the next try.
            (Servers::Cluster(cluster), _) => drop(cluster.look().await),
            (Servers::Sentinel(sentinels), Refusal::Demoted | Refusal::NotConnected) => {
                if let Some(node) = node {
                    node.give_up();
                }
                let _ = sentinels.resolve(node).await;
            }
            (Servers::Single(node), Refusal::Demoted) => node.give_up(),
            _ => {}
        }
        None
    }

    /// Sends a command to the server of its slot in the way of `exchange`, and again while no server
    /// runs it.
    pub(crate) async fn exchange(
        &self,
        exchange: &impl Exchange,
        command: &Cmd,
    ) -> RedisResult<Value> {
        if let Servers::Single(node) = &self.inner.servers {
            let answer = exchange.send(node, false).await;
            if Refusal::of(&answer) != Some(Refusal::Demoted) {
                return answer.map_err(Failure::into_error);
            }
            // Perhaps another server has the address by now.
            node.give_up();
            return exchange.send(node, false).await.map_err(Failure::into_error);
        }
        self.keep();
        let slot = match &self.inner.servers {
            Servers::Cluster(_) => slot_of(command),
            _ => None,
        };
        self.routed(exchange, slot).await.map_err(Failure::into_error)
    }

    async fn routed(&self, exchange: &impl Exchange, slot: Option<Slot>) -> Result<Value, Failure> {
        let mut tries = self.tries();
        let mut named = None;
        loop {
            let found = match named.take() {
                Some(found) => Ok(found),
                None => self.server_of(slot).await.map(|node| (node, false)),
            };
            let (node, answer) = match found {
                Ok((node, ask)) => (Some(node.clone()), exchange.send(&node, ask).await),
                Err(error) => (None, Err(Failure::NotConnected(error))),
            };
            let Some(refusal) = Refusal::of(&answer) else {
                if answer.is_err() {
                    self.suspect();
                }
                return answer;
            };
            if refusal == Refusal::SlotOpen
                && let (Servers::Cluster(cluster), Some(slot)) = (&self.inner.servers, slot)
                && cluster.open_slots.stays_open(slot)
            {
                return Ok(slot_stays_open(slot));
            }
            if !tries.again(&refusal).await {
                return answer;
            }
            named = tries.in_time(self.follow(&refusal, node.as_ref())).await;
        }
    }

    /// Looks whether other servers have taken over.
    fn suspect(&self) {
        if let Servers::Cluster(cluster) = &self.inner.servers {
            cluster.wake(None);
        }
    }

    async fn request_all(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        if let Servers::Single(node) = &self.inner.servers {
            return node.pipeline(pipeline, offset, count).await.map_err(Failure::into_error);
        }
        self.keep();
        if pipeline.is_transaction() {
            let slot = pipeline.cmd_iter().find_map(slot_of);
            let node = self.server_of(slot).await?;
            let answer = node.pipeline(pipeline, offset, count).await;
            return answer.map_err(Failure::into_error);
        }
        self.in_parts(pipeline).await
    }

    /// Sends the commands of a pipeline to their servers, one pipeline for each server. A command
    /// that did not run is sent again; one whose result is unknown is answered by an error `UNKNOWN`
    /// in its place, unless the results of all are.
    async fn in_parts(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
        let mut parts: Vec<(Node, Vec<usize>)> = Vec::new();
        let mut answers: Vec<Option<Result<Value, Failure>>> =
            commands.iter().map(|_| None).collect();
        for (index, command) in commands.iter().enumerate() {
            match self.server_of(slot_of(command)).await {
                Ok(node) => match parts.iter_mut().find(|(other, _)| other.is(&node)) {
                    Some((_, part)) => part.push(index),
                    None => parts.push((node, vec![index])),
                },
                Err(error) => answers[index] = Some(Err(Failure::NotConnected(error))),
            }
        }
        let send = async |(node, part): (Node, Vec<usize>)| {
            let mut own = Pipeline::with_capacity(part.len());
            for index in &part {
                own.add_command(commands[*index].clone());
            }
            let answer = node.pipeline(&own, 0, part.len()).await;
            (part, answer)
        };
        for (part, answer) in join_all(parts.into_iter().map(send)).await {
            match answer {
                Ok(values) => {
                    for (index, value) in part.into_iter().zip(values) {
                        answers[index] = Some(Ok(value));
                    }
                }
                Err(failure) => {
                    self.suspect();
                    for index in part {
                        answers[index] = Some(Err(failure.clone()));
                    }
                }
            }
        }
        let again = answers.into_iter().enumerate().map(async |(index, answer)| {
            let answer = answer.expect("every command was sent or has failed");
            match Refusal::of(&answer) {
                Some(_) => self.routed(commands[index], slot_of(commands[index])).await,
                None => answer,
            }
        });
        let mut answers = join_all(again).await;
        if !answers.is_empty() && answers.iter().all(Result::is_err) {
            let first = answers.swap_remove(0);
            return first.map(|value| vec![value]).map_err(Failure::into_error);
        }
        let in_place = |failure: Failure| unknown_in_pipeline(&failure.into_error());
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(in_place)).collect())
    }
}

fn config(options: Options) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(options.connect_timeout))
        .set_response_timeout(Some(options.command_timeout))
}

/// A connection to one server by the settings of a client of redis-rs.
impl From<Client> for SharedConnection {
    fn from(client: Client) -> Self {
        let options = Options::default();
        Self::of(Servers::Single(Node::of_client(client, &config(options))), options)
    }
}

impl From<&SharedConnection> for SharedConnection {
    fn from(connection: &SharedConnection) -> Self {
        connection.clone()
    }
}

impl ConnectionLike for SharedConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.exchange(command, command).boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.request_all(pipeline, offset, count).boxed()
    }

    /// The database of the URL.
    fn get_db(&self) -> i64 {
        match &self.inner.servers {
            Servers::Single(node) => node.info().redis_settings().db(),
            Servers::Sentinel(sentinels) => sentinels.server.redis_settings().db(),
            // A cluster has no other.
            Servers::Cluster(_) => 0,
        }
    }
}

/// A way of sending a command to one server and getting its answer.
pub(crate) trait Exchange: Sync {
    /// Sends it. `asked_first` has the server run it although the slot is not its own yet.
    fn send(
        &self,
        node: &Node,
        asked_first: bool,
    ) -> impl Future<Output = Result<Value, Failure>> + Send;
}

/// When a command that did not run is sent again.
struct Tries {
    until: Instant,
    pause: Duration,
    redirections: u32,
}

impl Tries {
    /// Until a time.
    fn until(until: Instant) -> Self {
        Self { until, pause: PAUSE_FIRST, redirections: 0 }
    }

    /// Whether to try again, after a pause if need be.
    async fn again(&mut self, refusal: &Refusal) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let is_redirected = matches!(refusal, Refusal::Moved(_) | Refusal::Ask(_));
        if is_redirected && self.redirections < REDIRECTIONS_MAX {
            self.redirections += 1;
            return true;
        }
        let pause = self.pause.mul_f64(rand::random_range(0.5..=1.0)).min(left);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        tokio::time::sleep(pause).await;
        true
    }

    /// Waits for the server to try next, no longer than there is time for tries.
    async fn in_time<T>(&self, next: impl Future<Output = Option<T>>) -> Option<T> {
        timeout_at(self.until.into(), next).await.ok().flatten()
    }
}

impl Exchange for Cmd {
    async fn send(&self, node: &Node, asked: bool) -> Result<Value, Failure> {
        if asked { asked_first(node, self).await } else { node.command(self).await }
    }
}

/// Sends a command to the server that receives its slot, which runs it although the slot is not
/// its own yet.
async fn asked_first(node: &Node, command: &Cmd) -> Result<Value, Failure> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("ASKING").add_command(command.clone());
    let mut answers = node.pipeline(&pipeline, 0, 2).await?;
    match (answers.pop(), answers.pop()) {
        (Some(answer), Some(_)) => Ok(answer),
        _ => Err(Failure::Unknown(unreachable_cluster("no answer behind ASKING"))),
    }
}

//! Kinds with a queue: each contender makes one ephemeral sequential node in the directory of the
//! name, and its role decides by the nodes ahead of it whether it holds.
//!
//! A node is called `token-session-mark-number`. Token and session make it findable when the answer
//! to its creation was lost, and nobody else's; the mark tells readers from writers; the number is
//! the server's and gives the order.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use zookeeper_client::{Client, Error, MultiReadResult};

use super::contenders::{
    Ahead, Contender, Contenders, Node, Nodes, QUEUED_MAX, TokenSubscription, give_up,
};
use super::fence::{Place, fence, floor_of, raise};
use super::{Base, SEQUENTIAL, session_is_over};
use crate::core::queue_role::{Obstacle, QueueRole};
use crate::store::{
    AcquireResult, BackendError, Grant, LeaseStore, StoreResult, Subscription, Token,
};
use crate::{Fence, LockName};

/// How often a directory that the server has just removed is made again.
const MAKES_MAX: u32 = 3;

/// The store of all kinds with a queue.
pub(super) struct Queue {
    pub(super) base: Base,
    role: QueueRole,
    contenders: Arc<Contenders>,
}

/// The state of a name at one moment.
struct QueueState {
    floor: u64,
    names: Vec<String>,
}

impl Queue {
    pub(super) fn start(base: Base, role: QueueRole, tasks: &TaskTracker) -> Arc<Self> {
        Contenders::serve(tasks, |contenders| Self { base, role, contenders })
    }

    /// Puts the token into the queue, unless it is there already, and checks whether it holds.
    pub(super) async fn enter(
        &self,
        name: &LockName,
        token: &str,
        lease: Duration,
    ) -> StoreResult<Option<u64>> {
        let until = Instant::now() + lease;
        let client = self.base.ensemble.session(lease).await?;
        let directory = self.base.of(name);
        let contender =
            self.contenders.enter(token, &client, std::slice::from_ref(&directory), until);
        let stem = self.stem(token, &client);
        let found = match contender.node {
            Some(node) => Some(node),
            None if contender.unsure => find(&client, &directory, &stem).await?,
            None => None,
        };
        let (node, seen) = match found {
            Some(node) => (node, self.look(&client, &directory).await),
            None => self.join(&client, &directory, &stem).await?,
        };
        self.contenders.update(token, |contender| {
            contender.node = Some(node.clone());
            contender.unsure = false;
        });
        let seen = seen?;
        let Some(before) = standing_before(&node, &directory, seen.names) else {
            self.contenders.remove(token);
            return Err(BackendError::new("the node was deleted"));
        };
        let marks: Vec<char> = before.iter().map(|name| mark_of(name)).collect();
        let kept = match self.role.obstacle(&marks) {
            None => {
                // The first grant's fence stays, though the floor may have been raised since.
                let minted = fence(node.made_by, seen.floor)?;
                let granted = node.fence.unwrap_or(minted);
                let kept = self.contenders.update(token, |contender| {
                    contender.node = Some(Node { fence: Some(granted), ..node });
                    contender.until = until;
                });
                kept.then_some(Some(granted))
            }
            Some(obstacle) => {
                let ahead = match obstacle {
                    Obstacle::One(index) => Ahead::Node(format!("{directory}/{}", before[index])),
                    Obstacle::Any => Ahead::Children(directory),
                };
                let kept = self.contenders.update(token, |contender| {
                    contender.ahead = Some(ahead);
                    contender.until = until.max(Instant::now() + QUEUED_MAX);
                });
                kept.then_some(None)
            }
        };
        kept.ok_or_else(|| BackendError::new("the answer came after the end of its lease"))
    }

    /// The beginning of the names of all nodes of this token in this session.
    fn stem(&self, token: &str, client: &Client) -> String {
        format!("{token}-{:016x}-{}-", client.session_id().0, self.role.mark())
    }

    /// Makes a node and reads the queue, in one round trip.
    async fn join(
        &self,
        client: &Client,
        directory: &str,
        stem: &str,
    ) -> StoreResult<(Node, StoreResult<QueueState>)> {
        let prefix = format!("{directory}/{stem}");
        for _ in 0..MAKES_MAX {
            // Both are sent now, in this order.
            let creating = client.create(&prefix, b"", &SEQUENTIAL);
            let looking = self.look(client, directory);
            match tokio::join!(creating, looking) {
                (Ok((stat, _)), _) if stat.ephemeral_owner != client.session_id().0 => {
                    return Err(BackendError::new(
                        "the node belongs to another session".to_owned(),
                    ));
                }
                (Ok((stat, number)), seen) => {
                    let path = format!("{prefix}{number}");
                    return Ok((Node { path, made_by: stat.czxid, fence: None }, seen));
                }
                (Err(Error::NoNode), _) => self.base.make_directory(client, directory).await?,
                (Err(error), _) => return Err(BackendError::of(error)),
            }
        }
        Err(BackendError::new("the directory is removed again and again"))
    }

    /// Reads the fence floor and the queue. The call itself sends the request.
    fn look<'c>(
        &self,
        client: &'c Client,
        directory: &str,
    ) -> impl Future<Output = StoreResult<QueueState>> + Send + use<'c> {
        let mut reader = client.new_multi_reader();
        let added =
            reader.add_get_data(&self.base.path).and_then(|()| reader.add_get_children(directory));
        let reading = added.map(|()| reader.commit());
        async move {
            match reading.map_err(BackendError::of)?.await.map_err(BackendError::of)?.as_slice() {
                [base, MultiReadResult::Children { children }] => {
                    Ok(QueueState { floor: floor_of(base)?, names: children.clone() })
                }
                [_, MultiReadResult::Error { err }] => Err(BackendError::of(err.clone())),
                _ => Err(BackendError::new("the server answered something else")),
            }
        }
    }

    /// Proves by a write of the ensemble that the token's node is there.
    pub(super) async fn prove(&self, token: &str, lease: Duration) -> StoreResult<bool> {
        let until = Instant::now() + lease;
        let Some(contender) = self.contenders.get(token) else { return Ok(false) };
        let Some(node) = contender.node.filter(|node| node.fence.is_some()) else {
            return Ok(false);
        };
        let mut writer = contender.client.new_multi_writer();
        writer.add_check_version(&node.path, -1).map_err(BackendError::of)?;
        match writer.commit().await.map_err(Error::from) {
            Ok(_) => Ok(self
                .contenders
                .update(token, |contender| contender.until = contender.until.max(until))),
            Err(error) if error == Error::NoNode || session_is_over(&error) => {
                self.contenders.remove(token);
                Ok(false)
            }
            Err(error) => Err(BackendError::of(error)),
        }
    }
}

/// Finds a node whose creation was not answered.
async fn find(client: &Client, directory: &str, stem: &str) -> StoreResult<Option<Node>> {
    let Some(name) = names_with(client, directory, stem).await?.into_iter().next() else {
        return Ok(None);
    };
    let path = format!("{directory}/{name}");
    match client.check_stat(&path).await.map_err(BackendError::of)? {
        Some(stat) if stat.ephemeral_owner == client.session_id().0 => {
            Ok(Some(Node { path, made_by: stat.czxid, fence: None }))
        }
        _ => Ok(None),
    }
}

/// The names in a directory that begin with `stem`, the earliest first, from a server that has
/// caught up with the leader.
async fn names_with(client: &Client, directory: &str, stem: &str) -> StoreResult<Vec<String>> {
    let syncing = client.sync(directory);
    let listing = client.list_children(directory);
    let (synced, listed) = tokio::join!(syncing, listing);
    let mut names = match listed {
        Err(Error::NoNode) => return Ok(Vec::new()),
        listed => listed.map_err(BackendError::of)?,
    };
    synced.map_err(BackendError::of)?;
    names.retain(|name| name.starts_with(stem));
    names.sort_unstable();
    Ok(names)
}

/// The names before ours, the earliest first; `None` if ours is not among them.
fn standing_before(node: &Node, directory: &str, mut names: Vec<String>) -> Option<Vec<String>> {
    let own = node.path.strip_prefix(directory)?.strip_prefix('/')?;
    let number = number_of(own)?;
    if !names.iter().any(|name| name == own) {
        return None;
    }
    // The server's numbers go round: what counts is the distance to ours.
    let distance = |name: &str| number_of(name).map_or(0, |other| other.wrapping_sub(number));
    names.retain(|name| distance(name) < 0);
    names.sort_unstable_by_key(|name| distance(name));
    Some(names)
}

/// Token, session and mark, with a sign behind each.
const STEM_BYTES: usize = 32 + 1 + 16 + 1 + 1 + 1;

fn number_of(name: &str) -> Option<i32> {
    name.get(STEM_BYTES..)?.parse().ok()
}

fn mark_of(name: &str) -> char {
    name.as_bytes().get(STEM_BYTES - 2).map_or('?', |byte| char::from(*byte))
}

#[async_trait]
impl Nodes for Queue {
    async fn leave(&self, contender: &Contender, token: &str) -> StoreResult<bool> {
        let client = &contender.client;
        let paths = match (&contender.node, &*contender.paths) {
            (Some(node), _) => vec![node.path.clone()],
            (None, [directory]) if contender.unsure => {
                match names_with(client, directory, &self.stem(token, client)).await {
                    Ok(names) => names.iter().map(|name| format!("{directory}/{name}")).collect(),
                    Err(_) if client.state().is_terminated() => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            _ => Vec::new(),
        };
        let mut left = false;
        for path in paths {
            match client.delete(&path, None).await {
                Ok(()) => left = true,
                Err(Error::NoNode) => {}
                Err(error) if session_is_over(&error) => return Ok(false),
                Err(error) => return Err(BackendError::of(error)),
            }
        }
        Ok(left)
    }

    fn contenders(&self) -> &Arc<Contenders> {
        &self.contenders
    }
}

#[async_trait]
impl LeaseStore for Queue {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        Ok(self.enter(name, token.as_str(), lease).await?.map(Grant::fenced))
    }

    async fn renew(&self, _name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        self.prove(token.as_str(), lease).await
    }

    async fn release(&self, _name: &LockName, token: &Token) -> StoreResult<bool> {
        give_up(self, token.as_str()).await
    }

    async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        raise(&self.base, &Place::Directory(self.base.of(name)), at_least).await
    }

    async fn watch(&self, _name: &LockName, token: &Token) -> StoreResult<Option<Subscription>> {
        Ok(Some(TokenSubscription::to(&self.contenders, token)))
    }

    fn shared(&self) -> bool {
        self.role.shared()
    }

    fn queues(&self) -> bool {
        true
    }
}

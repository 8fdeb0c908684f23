//! Kinds whose hold is one ephemeral node per name, at the name itself: several names are taken in
//! one transaction, all or none.
//!
//! Beside them the transaction makes one node that is called by token and session. Nobody else has
//! it, and it is deleted together with the others: so whoever comes late with a deletion finds it
//! gone and deletes nothing, least of all the next holder's nodes at the same names.

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
use super::{Base, EPHEMERAL, session_is_over};
use crate::store::{
    AcquireResult, BackendError, Grant, LeaseStore, StoreResult, Subscription, Token,
};
use crate::{Fence, LockName};

/// The store of these kinds.
pub(super) struct FixedNodes {
    base: Base,
    contenders: Arc<Contenders>,
}

/// The state of the names at one moment: the transactions that made the nodes.
struct NodeState {
    floor: u64,
    /// Our own node.
    own: Option<i64>,
    /// The nodes at the names.
    at_names: Vec<Option<i64>>,
}

impl NodeState {
    /// The transaction that made them, if all are ours.
    fn made_by(&self) -> Option<i64> {
        self.own.filter(|own| self.at_names.iter().all(|made_by| *made_by == Some(*own)))
    }
}

impl FixedNodes {
    pub(super) fn start(base: Base, tasks: &TaskTracker) -> Arc<Self> {
        Contenders::serve(tasks, |contenders| Self { base, contenders })
    }

    async fn enter(
        &self,
        name: &LockName,
        token: &str,
        lease: Duration,
    ) -> StoreResult<Option<u64>> {
        let until = Instant::now() + lease;
        let client = self.base.ensemble.session(lease).await?;
        let own = format!("{}/.{token}-{:016x}", self.base.path, client.session_id().0);
        let at_names = name.parts().map(|name| self.base.of(&name));
        let paths: Vec<String> = std::iter::once(own).chain(at_names).collect();
        let contender = self.contenders.enter(token, &client, &paths, until);
        let seen = match contender.node {
            Some(_) => self.look(&client, &paths).await?,
            None => self.make(&client, &paths).await?,
        };
        let Some(made_by) = seen.made_by() else {
            if seen.own.is_some() {
                self.contenders.update(token, |contender| contender.until = Instant::now());
                return Err(BackendError::new("a node was deleted"));
            }
            let taken = seen.at_names.iter().position(Option::is_some).unwrap_or_default();
            self.contenders.update(token, |contender| {
                contender.node = None;
                contender.unsure = false;
                contender.ahead = paths.get(taken + 1).cloned().map(Ahead::Node);
                contender.until = until.max(Instant::now() + QUEUED_MAX);
            });
            return Ok(None);
        };
        let minted = fence(made_by, seen.floor)?;
        let granted = contender.node.and_then(|node| node.fence).unwrap_or(minted);
        let kept = self.contenders.update(token, |contender| {
            contender.unsure = false;
            contender.node = Some(Node { path: paths[0].clone(), made_by, fence: Some(granted) });
            contender.until = until;
        });
        if kept {
            Ok(Some(granted))
        } else {
            Err(BackendError::new("the answer came after the end of its lease"))
        }
    }

    /// Tries to make all nodes and reads the outcome, in one round trip. Nodes that an earlier attempt
    /// made, whose answer was lost, count as made.
    async fn make(&self, client: &Client, paths: &[String]) -> StoreResult<NodeState> {
        loop {
            let mut writer = client.new_multi_writer();
            for path in paths {
                writer.add_create(path, b"", &EPHEMERAL).map_err(BackendError::of)?;
            }
            // Both are sent now, in this order.
            let writing = writer.commit();
            let looking = self.look(client, paths);
            let (written, seen) = tokio::join!(writing, looking);
            match written.map_err(Error::from) {
                Ok(_) | Err(Error::NodeExists) => return seen,
                Err(Error::NoNode) => self.base.make(client).await?,
                Err(error) => return Err(BackendError::of(error)),
            }
        }
    }

    /// Reads the fence floor and the nodes. The call itself sends the request.
    fn look<'c>(
        &self,
        client: &'c Client,
        paths: &[String],
    ) -> impl Future<Output = StoreResult<NodeState>> + Send + use<'c> {
        let mut reader = client.new_multi_reader();
        let added = reader
            .add_get_data(&self.base.path)
            .and_then(|()| paths.iter().try_for_each(|path| reader.add_get_data(path)));
        let reading = added.map(|()| reader.commit());
        async move {
            let read = reading.map_err(BackendError::of)?.await.map_err(BackendError::of)?;
            let [base, own, at_names @ ..] = read.as_slice() else {
                return Err(BackendError::new("the server answered something else"));
            };
            let made_by = |node: &MultiReadResult| match node {
                MultiReadResult::Data { stat, .. } => Ok(Some(stat.czxid)),
                MultiReadResult::Error { err: Error::NoNode } => Ok(None),
                _ => Err(BackendError::new("a node could not be read")),
            };
            let at_names = at_names.iter().map(made_by).collect::<Result<_, _>>()?;
            Ok(NodeState { floor: floor_of(base)?, own: made_by(own)?, at_names })
        }
    }

    /// Proves that all nodes exist and are ours: by a write of the ensemble that fails when one is
    /// gone, and then by reading their owners.
    async fn prove(&self, token: &str, lease: Duration) -> StoreResult<bool> {
        let until = Instant::now() + lease;
        let Some(contender) = self.contenders.get(token) else { return Ok(false) };
        let Some(node) = contender.node else { return Ok(false) };
        let mut writer = contender.client.new_multi_writer();
        for path in &contender.paths {
            writer.add_check_version(path, -1).map_err(BackendError::of)?;
        }
        let writing = writer.commit();
        let looking = self.look(&contender.client, &contender.paths);
        let (written, seen) = tokio::join!(writing, looking);
        let ours = match written.map_err(Error::from) {
            Ok(_) => seen?.made_by() == Some(node.made_by),
            Err(error) if error == Error::NoNode || session_is_over(&error) => false,
            Err(error) => return Err(BackendError::of(error)),
        };
        if ours {
            return Ok(self
                .contenders
                .update(token, |contender| contender.until = contender.until.max(until)));
        }
        // Some of several may still be ours.
        self.contenders.update(token, |contender| contender.until = Instant::now());
        Ok(false)
    }
}

#[async_trait]
impl Nodes for FixedNodes {
    /// Reads first: a name that an operator freed may be somebody else's by now.
    async fn leave(&self, contender: &Contender, _token: &str) -> StoreResult<bool> {
        if contender.node.is_none() && !contender.unsure {
            return Ok(false);
        }
        let client = &contender.client;
        let syncing = client.sync(&contender.paths[0]);
        let looking = self.look(client, &contender.paths);
        let (synced, seen) = tokio::join!(syncing, looking);
        if client.state().is_terminated() {
            return Ok(false);
        }
        let seen = synced.map_err(BackendError::of).and(seen)?;
        if seen.own.is_none() {
            return Ok(false);
        }
        let mut writer = client.new_multi_writer();
        writer.add_delete(&contender.paths[0], None).map_err(BackendError::of)?;
        for (path, made_by) in contender.paths[1..].iter().zip(&seen.at_names) {
            if *made_by == seen.own {
                writer.add_delete(path, None).map_err(BackendError::of)?;
            }
        }
        match writer.commit().await.map_err(Error::from) {
            Ok(_) => Ok(seen.made_by().is_some()),
            // Another deletion of ours was faster.
            Err(Error::NoNode) => Ok(false),
            Err(error) if session_is_over(&error) => Ok(false),
            Err(error) => Err(BackendError::of(error)),
        }
    }

    fn contenders(&self) -> &Arc<Contenders> {
        &self.contenders
    }
}

#[async_trait]
impl LeaseStore for FixedNodes {
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
        let nodes = name.parts().map(|name| self.base.of(&name)).collect();
        raise(&self.base, &Place::Nodes(nodes), at_least).await
    }

    async fn watch(&self, _name: &LockName, token: &Token) -> StoreResult<Option<Subscription>> {
        Ok(Some(TokenSubscription::to(&self.contenders, token)))
    }
}

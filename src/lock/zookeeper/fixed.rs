//! Kinds whose hold is one ephemeral node per name, at the name itself: several names are taken in
//! one transaction, all or none. The nodes' data say whose they are.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use zookeeper_client::{Client, Error, MultiReadResult};

use super::super::lease::{Grant, LeaseStore, StoreFuture, Token, Unanswered, Wakeups};
use super::super::{Fence, LockName};
use super::fence::{fence, floor_of, raise};
use super::places::{Ahead, Leaves, Listening, Node, Place, Places, QUEUED};
use super::{Base, EPHEMERAL, session_is_over, unanswered};

/// The store of these kinds.
pub(super) struct Fixed {
    base: Base,
    places: Arc<Places>,
}

/// What stands at the names, all at the same moment.
struct Seen {
    floor: u64,
    /// Per name, the transaction that made the node, and whether the node is ours.
    nodes: Vec<Option<(i64, bool)>>,
}

impl Seen {
    /// The transaction that made them, if all are ours.
    fn made_by(&self) -> Option<i64> {
        let all_ours = self.nodes.iter().all(|node| node.is_some_and(|(_, ours)| ours));
        self.nodes.first().copied().flatten().filter(|_| all_ours).map(|(made_by, _)| made_by)
    }
}

impl Fixed {
    pub(super) fn start(base: Base, tasks: &TaskTracker) -> Arc<Self> {
        Places::serve(tasks, |places| Self { base, places })
    }

    async fn enter(
        &self,
        name: &LockName,
        token: &str,
        lease: Duration,
    ) -> Result<Option<u64>, Unanswered> {
        let until = Instant::now() + lease;
        let client = self.base.ensemble.session(lease).await?;
        let paths: Vec<String> = name.parts().map(|name| self.base.of(&name)).collect();
        let place = self.places.enter(token, &client, &paths, until);
        let seen = match place.node {
            Some(_) => self.look(&client, &paths, token).await?,
            None => self.make(&client, &paths, token).await?,
        };
        let granted = match seen.made_by() {
            Some(made_by) => {
                let minted = fence(made_by, seen.floor)?;
                Some((made_by, place.node.and_then(|node| node.fence).unwrap_or(minted)))
            }
            None => None,
        };
        let kept = self.places.update(token, |place| {
            place.unsure = false;
            let path = paths[0].clone();
            if let Some((made_by, fence)) = granted {
                place.node = Some(Node { path, made_by, fence: Some(fence) });
                place.until = until;
            } else {
                let taken = seen.nodes.iter().position(Option::is_some).unwrap_or_default();
                place.node = None;
                place.ahead = Some(Ahead::Node(paths[taken].clone()));
                place.until = until.max(Instant::now() + QUEUED);
            }
        });
        if !kept {
            return Err(Unanswered("the answer came after the end of its lease".to_owned()));
        }
        Ok(granted.map(|(_, fence)| fence))
    }

    /// Tries to make all nodes and looks what came of it, in one round trip: ours after an earlier
    /// try whose answer was lost look the same.
    async fn make(
        &self,
        client: &Client,
        paths: &[String],
        token: &str,
    ) -> Result<Seen, Unanswered> {
        loop {
            let mut writer = client.new_multi_writer();
            for path in paths {
                writer.add_create(path, token.as_bytes(), &EPHEMERAL).map_err(unanswered)?;
            }
            // Both are sent now, in this order.
            let writing = writer.commit();
            let looking = self.look(client, paths, token);
            let (written, seen) = tokio::join!(writing, looking);
            match written.map_err(Error::from) {
                Ok(_) | Err(Error::NodeExists) => return seen,
                Err(Error::NoNode) => self.base.make(client).await?,
                Err(error) => return Err(unanswered(error)),
            }
        }
    }

    /// Reads the fence floor and what stands at the names. The request is sent by the call itself.
    fn look<'c>(
        &self,
        client: &'c Client,
        paths: &[String],
        token: &str,
    ) -> impl Future<Output = Result<Seen, Unanswered>> + Send + use<'c> {
        let token = token.to_owned();
        let session = client.session_id().0;
        let mut reader = client.new_multi_reader();
        let added = reader
            .add_get_data(&self.base.path)
            .and_then(|()| paths.iter().try_for_each(|path| reader.add_get_data(path)));
        let reading = added.map(|()| reader.commit());
        async move {
            let read = reading.map_err(unanswered)?.await.map_err(unanswered)?;
            let (base, nodes) = read.split_first().ok_or_else(|| unanswered(Error::NoNode))?;
            let nodes = nodes.iter().map(|node| match node {
                MultiReadResult::Data { data, stat } => {
                    let ours = data == token.as_bytes() && stat.ephemeral_owner == session;
                    Ok(Some((stat.czxid, ours)))
                }
                MultiReadResult::Error { err: Error::NoNode } => Ok(None),
                _ => Err(Unanswered("a node could not be read".to_owned())),
            });
            Ok(Seen { floor: floor_of(base)?, nodes: nodes.collect::<Result<_, _>>()? })
        }
    }

    /// Proves that all nodes are there and ours: a write of the ensemble that fails when one is
    /// gone, and behind it a look at whose they are.
    async fn prove(&self, token: &str, lease: Duration) -> Result<bool, Unanswered> {
        let until = Instant::now() + lease;
        let Some(place) = self.places.get(token) else { return Ok(false) };
        let Some(node) = place.node else { return Ok(false) };
        let mut writer = place.client.new_multi_writer();
        for path in &place.paths {
            writer.add_check_version(path, -1).map_err(unanswered)?;
        }
        let writing = writer.commit();
        let looking = self.look(&place.client, &place.paths, token);
        let (written, seen) = tokio::join!(writing, looking);
        let ours = match written.map_err(Error::from) {
            Ok(_) => seen?.made_by() == Some(node.made_by),
            Err(error) if error == Error::NoNode || session_is_over(&error) => false,
            Err(error) => return Err(unanswered(error)),
        };
        if ours {
            return Ok(self.places.update(token, |place| place.until = place.until.max(until)));
        }
        // Some of several may still be ours.
        self.places.update(token, |place| place.until = Instant::now());
        Ok(false)
    }
}

impl Leaves for Fixed {
    /// Reads first, so that a node of somebody else is left alone.
    fn leave<'a>(&'a self, place: &'a Place, token: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            if place.node.is_none() && !place.unsure {
                return Ok(false);
            }
            let client = &place.client;
            let syncing = client.sync(&place.paths[0]);
            let looking = self.look(client, &place.paths, token);
            let (synced, seen) = tokio::join!(syncing, looking);
            let seen = match (synced, seen) {
                _ if client.state().is_terminated() => return Ok(false),
                (synced, seen) => synced.map_err(unanswered).and(seen)?,
            };
            let mut writer = client.new_multi_writer();
            let mut ours = place.paths.iter().zip(&seen.nodes);
            let count = ours.clone().filter(|(_, node)| node.is_some_and(|(_, ours)| ours)).count();
            if count == 0 {
                return Ok(false);
            }
            ours.try_for_each(|(path, node)| match node {
                Some((_, true)) => writer.add_delete(path, None),
                _ => Ok(()),
            })
            .map_err(unanswered)?;
            match writer.commit().await.map_err(Error::from) {
                Ok(_) => Ok(count == place.paths.len()),
                Err(error) if session_is_over(&error) => Ok(false),
                Err(error) => Err(unanswered(error)),
            }
        })
    }

    fn places(&self) -> &Arc<Places> {
        &self.places
    }
}

impl LeaseStore for Fixed {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(
            async move { Ok(self.enter(name, token.as_str(), lease).await?.map(Grant::fenced)) },
        )
    }

    fn renew<'a>(
        &'a self,
        _name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(self.prove(token.as_str(), lease))
    }

    fn release<'a>(&'a self, _name: &'a LockName, token: &'a Token) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let Some(place) = self.places.get(token.as_str()) else { return Ok(false) };
            let left = self.leave(&place, token.as_str()).await?;
            self.places.remove(token.as_str());
            Ok(left)
        })
    }

    fn raise_fence<'a>(&'a self, _name: &'a LockName, at_least: Fence) -> StoreFuture<'a, ()> {
        Box::pin(raise(&self.base, at_least))
    }

    fn watch<'a>(
        &'a self,
        _name: &'a LockName,
        token: &'a Token,
    ) -> StoreFuture<'a, Option<Box<dyn Wakeups>>> {
        Box::pin(async move { Ok(Some(Listening::to(&self.places, token))) })
    }
}

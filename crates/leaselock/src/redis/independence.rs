//! Checks that servers are independent of each other, as Redlock requires.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use ::redis::InfoDict;
use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::Connection;
use crate::store::{BackendError, StoreResult};
use crate::threads::locked;

/// The pause between a check that missed a server and the next check.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// The result of the checks of the servers until now.
pub(super) struct Independence {
    /// When the servers are asked next; `None` once all of them have told who they are.
    due: Mutex<Option<Instant>>,
}

impl Independence {
    pub(super) fn new() -> Self {
        Self { due: Mutex::new(Some(Instant::now())) }
    }

    /// Asks the servers who they are, until all of them have told. A server that does not answer
    /// within `limit` is asked again later.
    ///
    /// # Errors
    /// When one is a node of a cluster, when two are one server, or when they replicate each other:
    /// then one failure takes several votes.
    pub(super) async fn check<C: Connection>(
        &self,
        servers: &[C],
        limit: Duration,
    ) -> StoreResult<()> {
        let due = *locked(&self.due);
        if due.is_none_or(|due| Instant::now() < due) {
            return Ok(());
        }
        let look = async |server: &C| -> Option<InfoDict> {
            let mut server = server.clone();
            let command = ::redis::cmd("INFO");
            timeout(limit, command.query_async(&mut server)).await.ok()?.ok()
        };
        let infos = join_all(servers.iter().map(look)).await;
        let told: Vec<&InfoDict> = infos.iter().flatten().collect();
        if told.iter().any(|info| info.get::<u8>("cluster_enabled") == Some(1)) {
            return refused("a server of Redlock is a node of a cluster");
        }
        for field in ["run_id", "master_replid"] {
            let all = told.iter().filter_map(|info| info.get::<String>(field));
            let all: Vec<String> = all.collect();
            if all.iter().collect::<BTreeSet<_>>().len() < all.len() {
                return refused("two servers of Redlock are one, or replicate each other");
            }
        }
        let seen_all = told.len() == servers.len();
        *locked(&self.due) = (!seen_all).then(|| Instant::now() + LOOK_PERIOD);
        Ok(())
    }
}

fn refused(why: &str) -> StoreResult<()> {
    Err(BackendError::new(format!("{why}; each of them must be independent")))
}

//! Locks on ZooKeeper: the sessions, the paths, the fences.
//!
//! Below the caller's root there is one node per kind, whose data is the kind's fence floor, and below
//! that the names. Every hold and every queue position is an *ephemeral* node: it ends with the session
//! of the process that made it.
//!
//! **Leases.** ZooKeeper ends sessions, not holds. A hold's session is half as long again as its
//! lease, since the servers of an ensemble tell their leader of their sessions only now and then;
//! so the node outlives what our own clock says of the lease, and `lost` fires first. While this
//! process lives its holds also end with their own lease: what was not renewed is deleted
//! (`contenders.rs`).
//!
//! **Renewal** is a write of the ensemble that changes nothing and fails when the node is gone: no
//! server that was left behind can answer it. A node of another session is never taken for ours,
//! not even with our own token: its session may end at any moment.
//!
//! **Fences.** The number of the transaction that made the node: ZooKeeper counts all its writes
//! together, over all names, restarts and leaders. An ensemble that lost its data starts again from
//! nothing; then the floor is raised, and is added from then on.

mod contenders;
mod fence;
mod fixed;
mod queue;
mod session;

pub mod counter;
pub mod multi;
pub mod read_write;
pub mod reentrant;
pub mod semaphore;
pub mod sequential;
pub mod spin;

use std::sync::Arc;

use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

pub use session::Ensemble;

use crate::store::{BackendError, StoreResult};
use crate::{Capabilities, Fencing, InvalidName, LockName, Waiting};

/// The beginning of the cards of kinds that hold by a node: a fence, and waiters watch other nodes.
const FENCED_MUTEX: Capabilities = Capabilities {
    backend: "zookeeper",
    breaks_when: "The holder is paused beyond its lease, or most of the ensemble loses its data",
    fencing: Fencing::RisingWhileKept,
    waiting: Waiting::Notified,
    survives_failover: true,
    ..Capabilities::LEASED_MUTEX
};

/// The beginning of the cards of kinds with a queue: first come, first served.
const FAIR_MUTEX: Capabilities = Capabilities { fair_between_processes: true, ..FENCED_MUTEX };

/// Everybody who can reach the servers may change the nodes: protect the network.
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
const SEQUENTIAL: CreateOptions<'static> =
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
/// Removed by the server once it has been empty for about a minute.
const CONTAINER: CreateOptions<'static> = CreateMode::Container.with_acls(Acls::anyone_all());

/// The nodes of one kind.
struct Base {
    ensemble: Arc<Ensemble>,
    path: String,
}

impl Base {
    fn new(ensemble: &Arc<Ensemble>, kind: &str) -> Self {
        let path = format!("/{}{kind}", ensemble.prefix());
        Self { ensemble: Arc::clone(ensemble), path }
    }

    /// The path of a name.
    fn of(&self, name: &LockName) -> String {
        format!("{}/{}", self.path, component(name))
    }

    /// Makes the kind's node, which stays for ever.
    async fn make(&self, client: &Client) -> StoreResult<()> {
        made(client.create(&self.path, b"0", &PERSISTENT).await)
    }

    /// Makes the kind's node and the directory of a name.
    async fn make_directory(&self, client: &Client, path: &str) -> StoreResult<()> {
        self.make(client).await?;
        made(client.create(path, b"", &CONTAINER).await)
    }
}

fn made<T>(answer: Result<T, Error>) -> StoreResult<()> {
    match answer {
        Ok(_) | Err(Error::NodeExists) => Ok(()),
        Err(error) => Err(BackendError::of(error)),
    }
}

/// A name as one part of a path. Different names are different parts.
fn component(name: &LockName) -> String {
    let escaped = name.as_str().replace('%', "%25").replace('/', "%2F");
    match escaped.strip_prefix('.') {
        // `.` and `..` mean something else in a path.
        Some(rest) => format!("%2E{rest}"),
        None => escaped,
    }
}

/// Whether an answer says that the session is over, and its nodes with it.
fn session_is_over(error: &Error) -> bool {
    matches!(error, Error::SessionExpired | Error::ClientClosed | Error::AuthFailed)
}

//! What each kind of lock can and cannot do, as data.

use serde::Serialize;

#[cfg(feature = "etcd")]
use crate::etcd;
use crate::local;
#[cfg(feature = "mysql")]
use crate::mysql;
#[cfg(feature = "zookeeper")]
use crate::zookeeper;
#[cfg(feature = "redis")]
use crate::{demo, redis};

/// Lists cards, each group under the feature that it needs; `all()` stands for none.
macro_rules! cards {
    ($(#[$needs:meta] $($card:path),*;)*) => { &[$($(#[$needs] &$card,)*)*] };
}

/// The list of every kind on every backend that this build has, with what it can and cannot do.
pub static KINDS: &[&Capabilities] = cards![
    #[cfg(feature = "redis")]
    redis::token::CAPABILITIES,
    redis::reentrant::CAPABILITIES,
    redis::fair::CAPABILITIES,
    redis::plain::CAPABILITIES,
    redis::spin::CAPABILITIES,
    redis::redlock::CAPABILITIES;
    #[cfg(feature = "mysql")]
    mysql::table::CAPABILITIES,
    mysql::named::CAPABILITIES;
    #[cfg(feature = "etcd")]
    etcd::mutex::CAPABILITIES,
    etcd::read_write::CAPABILITIES,
    etcd::semaphore::CAPABILITIES;
    #[cfg(feature = "zookeeper")]
    zookeeper::sequential::CAPABILITIES,
    zookeeper::spin::CAPABILITIES,
    zookeeper::reentrant::CAPABILITIES,
    zookeeper::read_write::CAPABILITIES,
    zookeeper::semaphore::CAPABILITIES,
    zookeeper::multi::CAPABILITIES,
    zookeeper::counter::CAPABILITIES;
    #[cfg(all())]
    local::CAPABILITIES;
    #[cfg(feature = "redis")]
    demo::setnx_expire::CAPABILITIES,
    demo::setnx::CAPABILITIES,
    demo::getset::CAPABILITIES,
    redis::read_write::CAPABILITIES,
    redis::expiring_semaphore::CAPABILITIES,
    redis::semaphore::CAPABILITIES,
    redis::multi::CAPABILITIES;
    #[cfg(all())]
    local::MULTI_CAPABILITIES;
    #[cfg(feature = "redis")]
    redis::countdown_latch::CAPABILITIES,
    redis::counter::CAPABILITIES;
];

/// What one kind of lock on one backend can and cannot do.
///
/// A later version may have more fields, so a backend of your own begins with a constant and sets the
/// fields in which it differs: see [`store`](crate::store).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// What it can be used as.
    pub primitive: Primitive,
    /// The kind, such as `token`.
    pub kind: &'static str,
    /// The backend, such as `redis`.
    pub backend: &'static str,
    /// How it works, in one sentence.
    pub summary: &'static str,
    /// What can lead to two holders at once, in one sentence. A fence protects the data even then.
    pub breaks_when: &'static str,
    /// Whether the owner may acquire the name again while it holds it.
    pub reentrant: bool,
    /// Whether callers of one client are served first come, first served.
    pub fair_in_process: bool,
    /// Whether callers of different clients are served first come, first served.
    pub fair_between_processes: bool,
    /// Whether a guard renews its lease by itself.
    pub renewed: bool,
    /// Whether the guard's `lost` signal fires before anyone else can hold the name.
    pub lost_signal: bool,
    /// How far its fences can be trusted.
    pub fencing: Fencing,
    /// How a waiting client learns that the name has become free.
    pub waiting: Waiting,
    /// Whether waiters of one client pass the lock on without asking the backend.
    pub hands_over: bool,
    /// Whether the hold of a dead program ends by itself, at the latest with its lease.
    pub expires: bool,
    /// Whether it excludes other programs, too.
    pub between_processes: bool,
    /// Whether a hold survives the death of one server without a second holder.
    pub survives_failover: bool,
}

/// The values that cards begin with: a card fills in the texts, which are empty here, and says how it differs.
impl Capabilities {
    /// A mutex between programs, with a lease that its guard renews, and without a fence. Clients
    /// poll, and there is no order among them.
    pub const LEASED_MUTEX: Self = Self {
        primitive: Primitive::Mutex,
        kind: "",
        backend: "",
        summary: "",
        breaks_when: "",
        reentrant: false,
        fair_in_process: true,
        fair_between_processes: false,
        renewed: true,
        lost_signal: true,
        fencing: Fencing::None,
        waiting: Waiting::Polls,
        hands_over: false,
        expires: true,
        between_processes: true,
        survives_failover: false,
    };

    /// A number that clients share and no client holds: no order, no lease, no fence.
    pub const NUMBER: Self = Self {
        primitive: Primitive::SharedCounter,
        fair_in_process: false,
        renewed: false,
        lost_signal: false,
        expires: false,
        ..Self::LEASED_MUTEX
    };
}

/// What a kind can be used as. Only a mutex excludes everybody else by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Primitive {
    /// One holder.
    Mutex,
    /// Many readers or one writer: [`ReadWrite`](crate::ReadWrite).
    ReadWrite,
    /// A limited number of holders: a [`LeasedMutex`](crate::LeasedMutex) made with that number.
    Semaphore,
    /// Several names at once, all or none: [`MultiMutex`](crate::MultiMutex).
    MultiLock,
    /// Waiters go on when a number has been counted down to zero.
    CountdownLatch,
    /// A number that many change without losing an update:
    /// [`SharedCounter`](crate::SharedCounter).
    SharedCounter,
}

/// How far the fences of a kind can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Fencing {
    /// Every acquire gets a higher fence than all earlier ones, also after the backend lost its
    /// data, provided that the backend's clock has not been set back.
    Rising,
    /// Every acquire gets a higher fence than all earlier ones while the backend keeps its data.
    /// A backend that lost them starts again from a low number: then the fence has to be raised
    /// with [`LeasedMutex::raise_fence`](crate::LeasedMutex::raise_fence).
    RisingWhileKept,
    /// The kind has no fences.
    None,
}

/// How a client learns that a name has become free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// One contender per client asks again, with growing and jittered pauses.
    Polls,
    /// The release notifies the next contender.
    Notified,
}

#[cfg(test)]
mod tests {
    use super::KINDS;

    #[test]
    fn every_kind_has_its_own_texts() {
        for card in KINDS {
            let texts = [card.kind, card.backend, card.summary, card.breaks_when];
            assert!(texts.iter().all(|text| !text.is_empty()), "{card:?}");
        }
    }
}

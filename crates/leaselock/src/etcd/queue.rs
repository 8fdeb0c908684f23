//! The queue under a name: its keys, and what the store shows of it.

use super::api::TxnResponse;
use crate::core::queue_role::{Obstacle, QueueRole};
use crate::store::{BackendError, StoreResult, Token};
use crate::{InvalidName, LockName};

/// A contender in the queue, waiting or holding.
pub(super) struct Contender {
    pub(super) key: Vec<u8>,
    pub(super) create_revision: i64,
    /// The mark of its role.
    mark: char,
}

/// The state of a name in the store.
pub(super) struct View {
    /// The contenders in the order of arrival.
    pub(super) queue: Vec<Contender>,
    /// The floor of the fences, and the revision of its last change.
    pub(super) floor: Option<(u64, i64)>,
    /// The store's own revision at that moment.
    pub(super) revision: i64,
}

impl View {
    /// Reads the answer to a transaction whose last operations were those of `QueueStore::view`.
    pub(super) fn read(answer: TxnResponse) -> StoreResult<Self> {
        let revision = answer.header.ok_or_else(malformed)?.revision;
        let mut ranges = answer.responses.into_iter().rev().map(|operation| operation.range);
        let mut next = || ranges.next().flatten().ok_or_else(malformed);
        let floor = next()?;
        let queue = next()?;
        let floor = match floor.kvs.first() {
            None => None,
            Some(kv) => {
                let text = std::str::from_utf8(&kv.value).map_err(|_| malformed())?;
                Some((text.parse().map_err(|_| malformed())?, kv.mod_revision))
            }
        };
        let mut queue: Vec<Contender> = queue
            .kvs
            .into_iter()
            .filter_map(|kv| {
                let mark = mark_in(&kv.key)?;
                Some(Contender { key: kv.key, create_revision: kv.create_revision, mark })
            })
            .collect();
        queue.sort_by_key(|contender| contender.create_revision);
        Ok(Self { queue, floor, revision })
    }

    pub(super) fn index_of(&self, key: &[u8]) -> Option<usize> {
        self.queue.iter().position(|contender| contender.key == key)
    }

    /// What the contender with this index, of this role, waits for; `None` when it holds.
    pub(super) fn obstacle(&self, role: QueueRole, index: usize) -> Option<Obstacle> {
        let ahead: Vec<char> = self.queue[..index].iter().map(|contender| contender.mark).collect();
        role.obstacle(&ahead)
    }
}

/// The keys of one kind under one prefix.
pub(super) struct Keys {
    prefix: String,
    pub(super) floor: Vec<u8>,
}

impl Keys {
    pub(super) fn new(prefix: &str, kind: &str) -> Result<Self, InvalidName> {
        if !prefix.is_empty() {
            LockName::new(prefix)?;
        }
        let prefix = format!("{prefix}{kind}/");
        // Without a space, so it is in no queue.
        let floor = format!("{prefix}fences").into_bytes();
        Ok(Self { prefix, floor })
    }

    pub(super) fn contender(&self, name: &LockName, role: QueueRole, token: &Token) -> Vec<u8> {
        format!("{}{name} {}{}", self.prefix, role.mark(), token.as_str()).into_bytes()
    }

    /// From the first key of a name to the one after the last: `!` follows the space.
    pub(super) fn queue(&self, name: &LockName) -> (Vec<u8>, Vec<u8>) {
        let end = |end: char| format!("{}{name}{end}", self.prefix).into_bytes();
        (end(' '), end('!'))
    }
}

fn mark_in(key: &[u8]) -> Option<char> {
    let space = key.iter().rposition(|byte| *byte == b' ')?;
    key.get(space + 1).map(|byte| char::from(*byte))
}

/// The error for an answer that no etcd gives.
pub(super) fn malformed() -> BackendError {
    BackendError::new("etcd: the answer makes no sense")
}

//! The operations of a lock on a queue, for every kind.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::task::TaskTracker;
use tonic::{Code, Streaming};

use super::api::{
    Compare, DeleteRangeRequest, Header, LEASE_GRANT, LEASE_REVOKE, LeaseRequest, LeaseResponse,
    PutRequest, RANGE, RangeRequest, RangeResponse, RequestOp, TXN, TxnRequest, TxnResponse,
    WatchCreateRequest, WatchResponse,
};
use super::client::{Client, Member, backend_error};
use super::queue::{Keys, View, malformed};
use crate::core::queue_role::{Obstacle, QueueRole};
use crate::local::now_us;
use crate::store::{
    AcquireResult, BackendError, Grant, LeaseStore, Notifications, StoreResult, Subscription, Token,
};
use crate::{Capabilities, Fence, InvalidName, LeasedMutex, LockName};

/// The shortest lease of a contender. A waiting one renews its own at each attempt, and a second may
/// pass between two attempts.
const LEASE_SECONDS_MIN: i64 = 2;

/// How many times the floor is written again when others change it at the same time.
const RAISES_MAX: u32 = 5;

/// The operations of a lock whose contenders have one role.
pub(super) struct QueueStore {
    client: Client,
    keys: Keys,
    role: QueueRole,
}

impl QueueStore {
    /// Makes the lock of a kind whose contenders have this role.
    pub(super) fn start(
        client: Client,
        key_prefix: &str,
        role: QueueRole,
        capabilities: &'static Capabilities,
        tasks: &TaskTracker,
    ) -> Result<LeasedMutex, InvalidName> {
        let keys = Keys::new(key_prefix, capabilities.kind)?;
        Ok(LeasedMutex::start(Arc::new(Self { client, keys, role }), capabilities, tasks))
    }

    /// The requests for the state of a name: its queue, and the floor of the fences.
    fn view(&self, name: &LockName) -> Vec<RequestOp> {
        let (key, range_end) = self.keys.queue(name);
        let queue = RangeRequest { key, range_end, keys_only: true };
        let floor = RangeRequest { key: self.keys.floor.clone(), ..RangeRequest::default() };
        [queue, floor].map(|range| RequestOp { range: Some(range), ..RequestOp::default() }).into()
    }

    /// The fence of a contender: its revision above the floor. Makes the floor when there is none.
    async fn fence(&self, member: &Member<'_>, view: &View, revision: i64) -> StoreResult<Grant> {
        let floor = match view.floor {
            Some((floor, _)) => floor,
            None => {
                let now_us = now_us();
                let made = self.put_floor(member, 0, now_us).await?;
                // Another client was faster: the next attempt sees its floor.
                if !made {
                    return Err(BackendError::new("etcd: the floor of the fences was just made"));
                }
                now_us
            }
        };
        let fence = floor.saturating_add(unsigned(revision));
        if fence > Fence::MAX.get() {
            return Err(BackendError::new("etcd: no fence is left"));
        }
        Ok(Grant::fenced(fence))
    }

    /// Writes the floor if its last change is still that of revision `seen` (0: there was none).
    /// Returns whether it did.
    async fn put_floor(&self, member: &Member<'_>, seen: i64, floor: u64) -> StoreResult<bool> {
        let key = self.keys.floor.clone();
        let value = floor.to_string().into_bytes();
        let put = PutRequest { key: key.clone(), value, lease: 0 };
        let success = vec![RequestOp { put: Some(put), ..RequestOp::default() }];
        let request = TxnRequest { compare: vec![changed_at(key, seen)], success, failure: vec![] };
        let answer: TxnResponse = member.ask(TXN, request).await.map_err(backend_error)?;
        Ok(answer.succeeded)
    }
}

#[async_trait]
impl LeaseStore for QueueStore {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let id = lease_id(token);
        let key = self.keys.contender(name, self.role, token);
        let member = self.client.member();
        let grant = LeaseRequest { first: whole_seconds(lease), second: id };
        let renewed = match member.ask::<_, LeaseResponse>(LEASE_GRANT, grant).await {
            Ok(_) => None,
            // It exists: this is not the first attempt.
            Err(status) if status.code() == Code::FailedPrecondition => {
                Some(member.keep_alive(id).await.map_err(backend_error)?)
            }
            Err(status) => return Err(backend_error(status)),
        };
        if renewed.as_ref().is_some_and(|renewed| renewed.ttl_seconds <= 0) {
            return Err(BackendError::new("etcd: the queue position has just expired"));
        }
        let put = PutRequest { key: key.clone(), value: Vec::new(), lease: id };
        let put = RequestOp { put: Some(put), ..RequestOp::default() };
        let request = TxnRequest {
            compare: vec![changed_at(key.clone(), 0)],
            success: [vec![put], self.view(name)].concat(),
            failure: self.view(name),
        };
        let answer: TxnResponse = member.ask(TXN, request).await.map_err(backend_error)?;
        if let Some(renewed) = renewed {
            same_term(renewed.header.as_ref(), answer.header.as_ref())?;
        }
        let view = View::read(answer)?;
        let index = view.index_of(&key).ok_or_else(malformed)?;
        match view.obstacle(self.role, index) {
            Some(_) => Ok(None),
            None => {
                let revision = view.queue[index].create_revision;
                self.fence(&member, &view, revision).await.map(Some)
            }
        }
    }

    async fn renew(&self, name: &LockName, token: &Token, _lease: Duration) -> StoreResult<bool> {
        let member = self.client.member();
        let renewed = member.keep_alive(lease_id(token)).await.map_err(backend_error)?;
        let key = self.keys.contender(name, self.role, token);
        let request = RangeRequest { key, keys_only: true, ..RangeRequest::default() };
        let seen: RangeResponse = member.ask(RANGE, request).await.map_err(backend_error)?;
        if seen.kvs.is_empty() {
            return Ok(false);
        }
        same_term(renewed.header.as_ref(), seen.header.as_ref())?;
        if renewed.ttl_seconds <= 0 {
            return Err(BackendError::new("etcd: a key without its lease"));
        }
        Ok(true)
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let key = self.keys.contender(name, self.role, token);
        let member = self.client.member();
        let delete = DeleteRangeRequest { key: key.clone() };
        let delete = RequestOp { delete: Some(delete), ..RequestOp::default() };
        let request = TxnRequest {
            compare: vec![changed_at(key, 0)],
            success: vec![],
            failure: vec![delete],
        };
        let answer: TxnResponse = member.ask(TXN, request).await.map_err(backend_error)?;
        let deleted = !answer.succeeded;
        // Without its lease, an acquire that is still on its way cannot write the key any more.
        let revoke = LeaseRequest { first: lease_id(token), second: 0 };
        match member.ask::<_, LeaseResponse>(LEASE_REVOKE, revoke).await {
            Err(status) if !deleted && status.code() != Code::NotFound => {
                Err(backend_error(status))
            }
            // A lease that holds nothing ends by itself.
            _ => Ok(deleted),
        }
    }

    /// Raises the floor so far that contenders that wait already get a higher fence, too.
    async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        let member = self.client.member();
        for _ in 0..RAISES_MAX {
            let request = TxnRequest { success: self.view(name), ..TxnRequest::default() };
            let answer: TxnResponse = member.ask(TXN, request).await.map_err(backend_error)?;
            let view = View::read(answer)?;
            let (floor, seen) = view.floor.unwrap_or((now_us(), 0));
            // The floor's own change takes the next revision, and the next contender the one after.
            let oldest = view.queue.first().map_or(view.revision + 2, |p| p.create_revision);
            let wanted = (at_least.get() + 1).saturating_sub(unsigned(oldest));
            if wanted <= floor && seen != 0 {
                return Ok(());
            }
            if self.put_floor(&member, seen, floor.max(wanted)).await? {
                return Ok(());
            }
        }
        Err(BackendError::new("etcd: others raise the fences all the time"))
    }

    async fn watch(&self, name: &LockName, token: &Token) -> StoreResult<Option<Subscription>> {
        let member = self.client.member();
        let request = TxnRequest { success: self.view(name), ..TxnRequest::default() };
        let answer: TxnResponse = member.ask(TXN, request).await.map_err(backend_error)?;
        let view = View::read(answer)?;
        let own = self.keys.contender(name, self.role, token);
        // A key that has expired waits for nobody; the next attempt writes a new one.
        let Some(at) = view.index_of(&own) else { return Ok(None) };
        let (ahead, until_left) = match view.obstacle(self.role, at) {
            None => return Ok(None),
            Some(Obstacle::One(one)) => (&view.queue[one..=one], 0),
            Some(Obstacle::Any) => (&view.queue[..at], self.role.others_max()),
        };
        let (key, range_end) = match ahead {
            [one] => (one.key.clone(), Vec::new()),
            _ => self.keys.queue(name),
        };
        // From the revision on that was read, so nothing in between is missed.
        let start_revision = view.revision + 1;
        let create = WatchCreateRequest { key, range_end, start_revision, filters: vec![0] };
        let answers = member.watch(create).await.map_err(backend_error)?;
        let left = ahead.iter().map(|contender| contender.key.clone()).collect();
        let watching = AheadWatch { answers, left, until_left };
        Ok(Some(Box::new(watching)))
    }

    fn shared(&self) -> bool {
        self.role.shared()
    }

    fn queues(&self) -> bool {
        true
    }
}

/// Waits until only `until_left` of the contenders ahead are left.
struct AheadWatch {
    answers: Streaming<WatchResponse>,
    left: HashSet<Vec<u8>>,
    until_left: usize,
}

#[async_trait]
impl Notifications for AheadWatch {
    /// Notifies once: after that the queue has to be read again.
    async fn next(&mut self) -> bool {
        let waited = self.left.len() > self.until_left;
        while self.left.len() > self.until_left {
            let Ok(Some(answer)) = self.answers.message().await else { return false };
            if answer.canceled {
                return false;
            }
            for gone in answer.events.into_iter().filter_map(|event| event.kv) {
                self.left.remove(&gone.key);
            }
        }
        waited
    }
}

fn changed_at(key: Vec<u8>, revision: i64) -> Compare {
    Compare { result: 0, target: 2, key, mod_revision: Some(revision) }
}

/// Checks that both answers belong to one term: then the leader of the first answer was still the
/// leader when a quorum confirmed the second.
fn same_term(first: Option<&Header>, second: Option<&Header>) -> StoreResult<()> {
    match (first, second) {
        (Some(first), Some(second)) if first.raft_term == second.raft_term => Ok(()),
        _ => Err(BackendError::new("etcd: the leader has changed")),
    }
}

/// The lease of a token: one for all attempts of an acquire, so that a repeated attempt makes no
/// second lease.
fn lease_id(token: &Token) -> i64 {
    let digits = token.as_str().get(..15).unwrap_or_default();
    i64::from_str_radix(digits, 16).unwrap_or_default().max(1)
}

fn whole_seconds(lease: Duration) -> i64 {
    let seconds = i64::try_from(lease.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX);
    seconds.max(LEASE_SECONDS_MIN)
}

fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or_default()
}

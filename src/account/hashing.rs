//! The pool in which passwords are hashed: a few at once, and the requests that wait are served
//! round-robin by address, so that one address with a hundred requests does not delay another.
//!
//! When the queue is full, a new request replaces the newest request of the address with the most
//! waiting, if its own address has at least two fewer.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::{AccountError, password};

/// Requests that wait for a permit, of all addresses.
const WAITING_MAX: usize = 64;
/// Requests of one address that wait for a permit.
const WAITING_EACH_MAX: usize = 32;

/// The pool. Clones share it.
#[derive(Clone)]
pub struct HashingPool {
    permits: usize,
    queue: Arc<Mutex<Queue>>,
}

/// A permit to hash one password; dropping it lets the next request in.
pub struct HashingPermit {
    pool: HashingPool,
}

#[derive(Default)]
struct Queue {
    running: usize,
    waiting: usize,
    /// Addresses with waiting requests, in the order in which they are served.
    addresses: VecDeque<IpAddr>,
    by_address: HashMap<IpAddr, VecDeque<oneshot::Sender<HashingPermit>>>,
}

impl HashingPool {
    /// Makes a pool that hashes `permits` passwords at once.
    pub fn new(permits: usize) -> Self {
        Self { permits: permits.max(1), queue: Arc::default() }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// [`AccountError::HashingBusy`] when too many requests wait already, or when a request of an address
    /// with fewer waiting replaces this one.
    pub async fn acquire(&self, address: IpAddr) -> Result<HashingPermit, AccountError> {
        let granted = {
            let mut queue = self.queue();
            if queue.running < self.permits {
                queue.running += 1;
                return Ok(HashingPermit { pool: self.clone() });
            }
            queue.join(address)?
        };
        granted.await.map_err(|_| AccountError::HashingBusy)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HashingPermit {
    /// Hashes a new password.
    ///
    /// # Errors
    /// [`AccountError::HashingFailed`].
    pub async fn hash(self, password: String) -> Result<String, AccountError> {
        let hash = self.compute(move || password::hash(&password)).await;
        hash.flatten().ok_or(AccountError::HashingFailed)
    }

    /// Returns whether a password has this hash; `None` takes as long and is `false`.
    ///
    /// # Errors
    /// [`AccountError::HashingFailed`].
    pub async fn verify(
        self,
        password: String,
        hash: Option<String>,
    ) -> Result<bool, AccountError> {
        let verified = self.compute(move || password::verify(&password, hash.as_deref())).await;
        verified.ok_or(AccountError::HashingFailed)
    }

    /// Computes `work` off the event loop. The permit is held until the work has ended, even if
    /// the caller stops waiting; `None` when it panicked.
    async fn compute<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let computed = tokio::task::spawn_blocking(move || {
            let _permit = self;
            work()
        });
        computed.await.ok()
    }
}

impl Drop for HashingPermit {
    fn drop(&mut self) {
        let next = self.pool.queue().next();
        if let Some(next) = next {
            // A cancelled request drops the permit at once, which admits the next one.
            let _ = next.send(Self { pool: self.pool.clone() });
        }
    }
}

impl Queue {
    fn join(&mut self, address: IpAddr) -> Result<oneshot::Receiver<HashingPermit>, AccountError> {
        self.remove_cancelled(address);
        let mine = self.by_address.get(&address).map_or(0, VecDeque::len);
        if mine >= WAITING_EACH_MAX {
            return Err(AccountError::HashingBusy);
        }
        if self.waiting >= WAITING_MAX {
            let longest = self.by_address.iter().max_by_key(|(_, waiting)| waiting.len());
            let (longest, most) = longest
                .map(|(of, waiting)| (*of, waiting.len()))
                .ok_or(AccountError::HashingBusy)?;
            if most <= mine + 1 {
                return Err(AccountError::HashingBusy);
            }
            self.by_address.get_mut(&longest).and_then(VecDeque::pop_back);
            self.waiting -= 1;
        }
        if mine == 0 {
            self.addresses.push_back(address);
        }
        let (grant, granted) = oneshot::channel();
        self.by_address.entry(address).or_default().push_back(grant);
        self.waiting += 1;
        Ok(granted)
    }

    /// Removes the cancelled requests of an address.
    fn remove_cancelled(&mut self, address: IpAddr) {
        let Some(waiting) = self.by_address.get_mut(&address) else { return };
        let before = waiting.len();
        waiting.retain(|grant| !grant.is_closed());
        self.waiting -= before - waiting.len();
        if waiting.is_empty() {
            self.by_address.remove(&address);
            self.addresses.retain(|of| *of != address);
        }
    }

    /// Removes the request that is served next; `None` makes the permit free.
    fn next(&mut self) -> Option<oneshot::Sender<HashingPermit>> {
        while let Some(address) = self.addresses.pop_front() {
            let Some(waiting) = self.by_address.get_mut(&address) else { continue };
            let next = waiting.pop_front();
            if waiting.is_empty() {
                self.by_address.remove(&address);
            } else {
                self.addresses.push_back(address);
            }
            if next.is_some() {
                self.waiting -= 1;
                return next;
            }
        }
        self.running -= 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::task::JoinSet;

    use super::*;

    /// The numbers of requests that hash and that wait.
    fn counts(pool: &HashingPool) -> (usize, usize) {
        let queue = pool.queue();
        (queue.running, queue.waiting)
    }

    fn address(number: u8) -> IpAddr {
        Ipv4Addr::new(203, 0, 113, number).into()
    }

    /// Queues `count` requests of an address; each notes its number when it has a permit, and drops
    /// the permit.
    async fn join(
        pool: &HashingPool,
        waiting: &mut JoinSet<Result<(), AccountError>>,
        served: &Arc<Mutex<Vec<u8>>>,
        (number, count): (u8, usize),
    ) {
        for _ in 0..count {
            let (pool, served) = (pool.clone(), Arc::clone(served));
            waiting.spawn(async move {
                let permit = pool.acquire(address(number)).await?;
                served.lock().expect("no panic").push(number);
                drop(permit);
                Ok(())
            });
            // One task after the other on this thread: each is in the queue before the next one.
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_address_with_many_requests_does_not_delay_another() {
        let pool = HashingPool::new(1);
        let (mut waiting, served) = (JoinSet::new(), Arc::default());
        let permit = pool.acquire(address(1)).await.expect("the first");
        join(&pool, &mut waiting, &served, (1, 100)).await;
        join(&pool, &mut waiting, &served, (2, 1)).await;
        drop(permit);
        let ended = waiting.join_all().await;
        let served = served.lock().expect("no panic").clone();
        assert_eq!(served.iter().position(|number| *number == 2), Some(1), "{served:?}");
        assert_eq!(served.len(), WAITING_EACH_MAX + 1, "an address has no more waiting");
        let refused = ended.iter().filter(|ended| ended.is_err()).count();
        assert_eq!(refused, 100 - WAITING_EACH_MAX);
        assert_eq!(counts(&pool), (0, 0));
    }

    #[tokio::test]
    async fn a_full_queue_admits_an_address_with_fewer_waiting() {
        let pool = HashingPool::new(1);
        let (mut waiting, served) = (JoinSet::new(), Arc::default());
        let permit = pool.acquire(address(1)).await.expect("the first");
        for stranger in [1, 2] {
            join(&pool, &mut waiting, &served, (stranger, WAITING_EACH_MAX)).await;
        }
        assert_eq!(pool.queue().waiting, WAITING_MAX);
        join(&pool, &mut waiting, &served, (3, 1)).await;
        assert_eq!(pool.queue().waiting, WAITING_MAX, "one of the others gave way");
        drop(permit);
        waiting.join_all().await;
        let served = served.lock().expect("no panic").clone();
        assert_eq!(served.iter().position(|number| *number == 3), Some(2), "{served:?}");
    }

    #[tokio::test]
    async fn a_cancelled_request_holds_no_permit() {
        let pool = HashingPool::new(1);
        let (mut gone, served) = (JoinSet::new(), Arc::default());
        let permit = pool.acquire(address(1)).await.expect("the first");
        join(&pool, &mut gone, &served, (2, 5)).await;
        gone.shutdown().await;
        let (mut waiting, served) = (JoinSet::new(), Arc::default());
        join(&pool, &mut waiting, &served, (3, 1)).await;
        drop(permit);
        assert!(waiting.join_all().await.iter().all(Result::is_ok));
        assert_eq!(counts(&pool), (0, 0));
        let permit = pool.acquire(address(4)).await.expect("it is free");
        assert_eq!(permit.compute(|| 7).await, Some(7));
    }
}

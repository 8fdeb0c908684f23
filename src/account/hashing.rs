//! Where passwords are hashed: a few at once, and those who wait are served in turns by address, so
//! that nobody waits behind a stranger's hundred.
//!
//! When all places are taken, the newest of the address with the most gives way to an address that
//! has at least two fewer waiting.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Hashings that wait for a place, of all addresses.
const WAITING_MAX: usize = 64;
/// Hashings of one address that wait for a place.
const WAITING_EACH_MAX: usize = 32;

/// Too many wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// The place where passwords are hashed. Clones share it.
#[derive(Clone)]
pub struct Hashing {
    places: usize,
    line: Arc<Mutex<Line>>,
}

/// A place to hash one password; dropping it calls the next one.
pub struct Place {
    hashing: Hashing,
}

#[derive(Default)]
struct Line {
    running: usize,
    waiting: usize,
    /// Addresses that have somebody waiting, in the order of their turns.
    turns: VecDeque<IpAddr>,
    by_address: HashMap<IpAddr, VecDeque<oneshot::Sender<Place>>>,
}

impl Hashing {
    /// A place for `places` hashings at once.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self { places: places.max(1), line: Arc::default() }
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// When too many wait already, or when this one gives way to an address that has less waiting.
    pub async fn enter(&self, address: IpAddr) -> Result<Place, Busy> {
        let called = {
            let mut line = self.line();
            if line.running < self.places {
                line.running += 1;
                return Ok(Place { hashing: self.clone() });
            }
            line.join(address)?
        };
        called.await.map_err(|_| Busy)
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Computes `work` off the event loop. The place is taken until the work has ended, even if
    /// nobody waits for it any more; `None` when it panicked.
    pub async fn compute<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let computed = tokio::task::spawn_blocking(move || {
            let _place = self;
            work()
        });
        computed.await.ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = self.hashing.line().next();
        if let Some(next) = next {
            // Whoever has gone gives the place back at once, by dropping it.
            let _ = next.send(Self { hashing: self.hashing.clone() });
        }
    }
}

impl Line {
    fn join(&mut self, address: IpAddr) -> Result<oneshot::Receiver<Place>, Busy> {
        self.forget_gone(address);
        let mine = self.by_address.get(&address).map_or(0, VecDeque::len);
        if mine >= WAITING_EACH_MAX {
            return Err(Busy);
        }
        if self.waiting >= WAITING_MAX {
            let longest = self.by_address.iter().max_by_key(|(_, waiting)| waiting.len());
            let (longest, most) = longest.map(|(of, line)| (*of, line.len())).ok_or(Busy)?;
            if most <= mine + 1 {
                return Err(Busy);
            }
            self.by_address.get_mut(&longest).and_then(VecDeque::pop_back);
            self.waiting -= 1;
        }
        if mine == 0 {
            self.turns.push_back(address);
        }
        let (call, called) = oneshot::channel();
        self.by_address.entry(address).or_default().push_back(call);
        self.waiting += 1;
        Ok(called)
    }

    /// Forgets those of an address who do not wait any more.
    fn forget_gone(&mut self, address: IpAddr) {
        let Some(line) = self.by_address.get_mut(&address) else { return };
        let before = line.len();
        line.retain(|call| !call.is_closed());
        self.waiting -= before - line.len();
        if line.is_empty() {
            self.by_address.remove(&address);
            self.turns.retain(|of| *of != address);
        }
    }

    /// The one whose turn it is; the place is free when there is none.
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        while let Some(address) = self.turns.pop_front() {
            let Some(line) = self.by_address.get_mut(&address) else { continue };
            let next = line.pop_front();
            if line.is_empty() {
                self.by_address.remove(&address);
            } else {
                self.turns.push_back(address);
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

    /// How many hash and how many wait.
    fn counts(hashing: &Hashing) -> (usize, usize) {
        let line = hashing.line();
        (line.running, line.waiting)
    }

    fn address(number: u8) -> IpAddr {
        Ipv4Addr::new(203, 0, 113, number).into()
    }

    /// Lets `count` of an address join the line; each tells its number when it is called, and gives
    /// its place to the next one.
    async fn join(
        hashing: &Hashing,
        waiting: &mut JoinSet<Result<(), Busy>>,
        told: &Arc<Mutex<Vec<u8>>>,
        (number, count): (u8, usize),
    ) {
        for _ in 0..count {
            let (hashing, told) = (hashing.clone(), Arc::clone(told));
            waiting.spawn(async move {
                let place = hashing.enter(address(number)).await?;
                told.lock().expect("no panic").push(number);
                drop(place);
                Ok(())
            });
            // One task after the other on this thread: each is in the line before the next one.
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn nobody_waits_behind_a_strangers_hundred() {
        let hashing = Hashing::new(1);
        let (mut waiting, told) = (JoinSet::new(), Arc::default());
        let place = hashing.enter(address(1)).await.expect("the first");
        join(&hashing, &mut waiting, &told, (1, 100)).await;
        join(&hashing, &mut waiting, &told, (2, 1)).await;
        drop(place);
        let ended = waiting.join_all().await;
        let told = told.lock().expect("no panic").clone();
        assert_eq!(told.iter().position(|number| *number == 2), Some(1), "{told:?}");
        assert_eq!(told.len(), WAITING_EACH_MAX + 1, "an address has so many waiting");
        let refused = ended.iter().filter(|ended| ended.is_err()).count();
        assert_eq!(refused, 100 - WAITING_EACH_MAX);
        assert_eq!(counts(&hashing), (0, 0));
    }

    #[tokio::test]
    async fn a_full_line_has_room_for_an_address_that_has_less_waiting() {
        let hashing = Hashing::new(1);
        let (mut waiting, told) = (JoinSet::new(), Arc::default());
        let place = hashing.enter(address(1)).await.expect("the first");
        for stranger in [1, 2] {
            join(&hashing, &mut waiting, &told, (stranger, WAITING_EACH_MAX)).await;
        }
        assert_eq!(hashing.line().waiting, WAITING_MAX);
        join(&hashing, &mut waiting, &told, (3, 1)).await;
        assert_eq!(hashing.line().waiting, WAITING_MAX, "one of the others gave way");
        drop(place);
        waiting.join_all().await;
        let told = told.lock().expect("no panic").clone();
        assert_eq!(told.iter().position(|number| *number == 3), Some(2), "{told:?}");
    }

    #[tokio::test]
    async fn who_has_gone_leaves_no_place_taken() {
        let hashing = Hashing::new(1);
        let (mut gone, told) = (JoinSet::new(), Arc::default());
        let place = hashing.enter(address(1)).await.expect("the first");
        join(&hashing, &mut gone, &told, (2, 5)).await;
        gone.shutdown().await;
        let (mut waiting, told) = (JoinSet::new(), Arc::default());
        join(&hashing, &mut waiting, &told, (3, 1)).await;
        drop(place);
        assert!(waiting.join_all().await.iter().all(Result::is_ok));
        assert_eq!(counts(&hashing), (0, 0));
        let place = hashing.enter(address(4)).await.expect("it is free");
        assert_eq!(place.compute(|| 7).await, Some(7));
    }
}

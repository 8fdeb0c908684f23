//! Limits on open event streams: in all, by user and by address, so that no single client takes all
//! of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shop_domain::UserId;
use shop_metrics::Metrics;

/// Factor on `each_address` for streams with a session: an office or a phone network is one
/// address, and accounts cost next to nothing.
pub const SIGNED_IN_FACTOR: usize = 4;

/// The limits on open streams.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// Streams in all.
    pub all: usize,
    /// Streams of clients without a session, in all; the rest is kept for buyers.
    pub strangers: usize,
    /// Streams of one user.
    pub each_user: usize,
    /// Streams without a session from one address; with sessions, [`SIGNED_IN_FACTOR`] times as
    /// many.
    pub each_address: usize,
}

/// The client that opens a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watcher {
    /// A client with a token, and its address; `None` is an address that is not counted.
    User(UserId, Option<IpAddr>),
    /// A client without a token, and its address; `None` is an address that is not counted.
    Stranger(Option<IpAddr>),
}

/// The reason why no stream is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooManyStreams {
    /// Too many streams are open in all, for this kind of client.
    InTotal,
    /// This user, or this address, has too many streams.
    PerClient,
}

/// The open streams. Clones share them.
#[derive(Clone)]
pub struct StreamLimiter {
    limits: StreamLimits,
    open: Arc<Mutex<Open>>,
    metrics: Metrics,
}

/// The permit of one open stream; dropping it gives the permit back.
pub struct StreamPermit {
    limiter: StreamLimiter,
    watcher: Watcher,
}

#[derive(Default)]
struct Open {
    all: usize,
    strangers: usize,
    users: HashMap<UserId, usize>,
    addresses: HashMap<IpAddr, usize>,
    addresses_of_users: HashMap<IpAddr, usize>,
}

impl StreamLimiter {
    /// No stream is open yet.
    #[must_use]
    pub fn new(limits: StreamLimits, metrics: Metrics) -> Self {
        Self { limits, open: Arc::default(), metrics }
    }

    /// Counts a stream, if the limits allow it.
    pub(crate) fn take(&self, watcher: Watcher) -> Result<StreamPermit, TooManyStreams> {
        let limits = self.limits;
        let mut open = self.open();
        let is_stranger = matches!(watcher, Watcher::Stranger(_));
        if open.all >= limits.all || is_stranger && open.strangers >= limits.strangers {
            return Err(TooManyStreams::InTotal);
        }
        let counted = match watcher {
            Watcher::User(user, address) => {
                let counted = raise(&mut open.users, user, limits.each_user);
                let most = limits.each_address.saturating_mul(SIGNED_IN_FACTOR);
                let both = counted
                    && address.is_none_or(|it| raise(&mut open.addresses_of_users, it, most));
                if counted && !both {
                    lower(&mut open.users, &user);
                }
                both
            }
            Watcher::Stranger(Some(address)) => {
                raise(&mut open.addresses, address, limits.each_address)
            }
            Watcher::Stranger(None) => true,
        };
        if !counted {
            return Err(TooManyStreams::PerClient);
        }
        open.all += 1;
        open.strangers += usize::from(is_stranger);
        self.metrics.streams.inc();
        Ok(StreamPermit { limiter: self.clone(), watcher })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.limiter.metrics.streams.dec();
        let mut open = self.limiter.open();
        open.all -= 1;
        match self.watcher {
            Watcher::User(user, address) => {
                lower(&mut open.users, &user);
                if let Some(address) = address {
                    lower(&mut open.addresses_of_users, &address);
                }
            }
            Watcher::Stranger(address) => {
                open.strangers -= 1;
                if let Some(address) = address {
                    lower(&mut open.addresses, &address);
                }
            }
        }
    }
}

/// Adds one to the count of `key`, unless it is `most` already; whether it did.
fn raise<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: K, most: usize) -> bool {
    let count = counts.get(&key).copied().unwrap_or_default();
    if count >= most {
        return false;
    }
    counts.insert(key, count + 1);
    true
}

/// Subtracts one from the count of `key`; removes a key that reaches 0.
fn lower<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    let Some(count) = counts.get_mut(key) else { return };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_accounts_of_one_address_do_not_take_everything() {
        let limits = StreamLimits { all: 100, strangers: 50, each_user: 3, each_address: 2 };
        let limiter = StreamLimiter::new(limits, Metrics::new());
        let take = |id, address: &str| {
            let address = Some(address.parse().expect("an address"));
            limiter.take(Watcher::User(UserId::new(id).expect("positive"), address))
        };
        let most = i64::try_from(2 * SIGNED_IN_FACTOR).expect("a small number");
        let taken: Vec<_> = (1..=most).map(|id| take(id, "203.0.113.1").ok()).collect();
        assert!(taken.iter().all(Option::is_some));
        assert_eq!(take(most + 1, "203.0.113.1").err(), Some(TooManyStreams::PerClient));
        let elsewhere = take(most + 1, "203.0.113.2");
        let address = "203.0.113.1".parse().expect("an address");
        let stranger = limiter.take(Watcher::Stranger(Some(address)));
        assert!(elsewhere.is_ok() && stranger.is_ok());
        drop((taken, elsewhere, stranger));
        let open = limiter.open();
        assert_eq!((open.all, open.strangers), (0, 0));
        assert!(open.users.is_empty() && open.addresses_of_users.is_empty());
        assert!(open.addresses.is_empty(), "who has no stream is forgotten");
    }

    /// Strangers leave a share to buyers, who have no more than there is in all.
    #[test]
    fn nobody_has_more_than_there_is_room_for() {
        let limits = StreamLimits { all: 3, strangers: 1, each_user: 3, each_address: 3 };
        let limiter = StreamLimiter::new(limits, Metrics::new());
        let buyer = |id| limiter.take(Watcher::User(UserId::new(id).expect("positive"), None));
        let stranger = limiter.take(Watcher::Stranger(None));
        let another = limiter.take(Watcher::Stranger(None));
        assert_eq!(another.err(), Some(TooManyStreams::InTotal));
        let buyers = [buyer(1), buyer(2)];
        assert!(stranger.is_ok() && buyers.iter().all(Result::is_ok));
        assert_eq!(buyer(3).err(), Some(TooManyStreams::InTotal), "for those signed in, too");
        drop(stranger);
        assert!(buyer(3).is_ok(), "a closed stream no longer counts");
    }
}

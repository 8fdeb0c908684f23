//! Limits on open event streams: in all, by user and by address, so that no single client takes all
//! of them.

use std::collections::HashMap;
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

/// A group of streams that has a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamGroup {
    All,
    /// Without a session.
    Strangers,
    User(UserId),
    /// With a session, from one address.
    AddressOfUsers(IpAddr),
    /// Without a session, from one address.
    Address(IpAddr),
}

/// The open streams. Clones share them.
#[derive(Clone)]
pub struct StreamLimiter {
    limits: StreamLimits,
    open: Arc<Mutex<HashMap<StreamGroup, usize>>>,
    metrics: Metrics,
}

/// The permit of one open stream; dropping it gives the permit back.
pub struct StreamPermit {
    limiter: StreamLimiter,
    counted: Vec<StreamGroup>,
}

impl StreamLimiter {
    /// No stream is open yet.
    pub fn new(limits: StreamLimits, metrics: Metrics) -> Self {
        Self { limits, open: Arc::default(), metrics }
    }

    /// Counts one more stream. `user` is `None` without a session, and `address` is `None` where no address is counted.
    ///
    /// # Errors
    /// The group that is full.
    pub(crate) fn take(
        &self,
        user: Option<UserId>,
        address: Option<IpAddr>,
    ) -> Result<StreamPermit, StreamGroup> {
        let kind = user.map_or(StreamGroup::Strangers, StreamGroup::User);
        let mut counted = vec![StreamGroup::All, kind];
        counted.extend(address.map(|at| match user {
            Some(_) => StreamGroup::AddressOfUsers(at),
            None => StreamGroup::Address(at),
        }));
        let mut open = self.open();
        let is_full =
            |of: &&StreamGroup| open.get(*of).is_some_and(|count| *count >= self.most(**of));
        if let Some(full) = counted.iter().find(is_full) {
            return Err(*full);
        }
        for of in &counted {
            *open.entry(*of).or_default() += 1;
        }
        self.metrics.streams.inc();
        Ok(StreamPermit { limiter: self.clone(), counted })
    }

    fn most(&self, of: StreamGroup) -> usize {
        match of {
            StreamGroup::All => self.limits.all,
            StreamGroup::Strangers => self.limits.strangers,
            StreamGroup::User(_) => self.limits.each_user,
            StreamGroup::AddressOfUsers(_) => {
                self.limits.each_address.saturating_mul(SIGNED_IN_FACTOR)
            }
            StreamGroup::Address(_) => self.limits.each_address,
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<StreamGroup, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.limiter.metrics.streams.dec();
        let mut open = self.limiter.open();
        for of in &self.counted {
            // A client without a stream is forgotten.
            match open.remove(of) {
                Some(count) if count > 1 => open.insert(*of, count - 1),
                _ => None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: i64) -> Option<UserId> {
        Some(UserId::new(id).expect("positive"))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn many_accounts_of_one_address_do_not_take_everything() {
        let limits = StreamLimits { all: 100, strangers: 50, each_user: 3, each_address: 2 };
        let limiter = StreamLimiter::new(limits, Metrics::new());
        let (here, elsewhere) = (address("203.0.113.1"), address("203.0.113.2"));
        let most = i64::try_from(2 * SIGNED_IN_FACTOR).expect("a small number");
        let taken: Vec<_> = (1..=most).map(|id| limiter.take(user(id), Some(here)).ok()).collect();
        assert!(taken.iter().all(Option::is_some));
        let more = limiter.take(user(most + 1), Some(here)).err();
        assert_eq!(more, Some(StreamGroup::AddressOfUsers(here)));
        let elsewhere = limiter.take(user(most + 1), Some(elsewhere));
        let stranger = limiter.take(None, Some(here));
        assert!(elsewhere.is_ok() && stranger.is_ok());
        drop((taken, elsewhere, stranger));
        assert!(limiter.open().is_empty());
    }

    /// Strangers leave a share to buyers, who have no more than there is in all.
    #[test]
    fn nobody_has_more_than_there_is_room_for() {
        let limits = StreamLimits { all: 3, strangers: 1, each_user: 3, each_address: 3 };
        let limiter = StreamLimiter::new(limits, Metrics::new());
        let buyer = |id| limiter.take(user(id), None);
        let stranger = limiter.take(None, None);
        assert_eq!(limiter.take(None, None).err(), Some(StreamGroup::Strangers));
        let buyers = [buyer(1), buyer(2)];
        assert!(stranger.is_ok() && buyers.iter().all(Result::is_ok));
        assert_eq!(buyer(3).err(), Some(StreamGroup::All), "for those signed in, too");
        drop(stranger);
        assert!(buyer(3).is_ok(), "a closed stream no longer counts");
    }
}

//! How often one may ask: a bucket of tokens for each user, and for each address that wants a
//! password hashed.
//!
//! A bucket is one number, the time at which it will be full again (the *generic cell rate
//! algorithm*). A bucket that is full needs no memory, so what is remembered is bounded by who has
//! asked lately; the rest is swept when a shard is full.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use super::Web;
use super::address::{ClientAddress, household};
use super::problem::Problem;
use crate::domain::UserId;

/// Buckets that are remembered at once, of each kind.
const REMEMBERED_MAX: usize = 200_000;
/// Parts of the memory, each with a lock of its own.
const SHARDS: usize = 32;
const SECOND_NS: u64 = 1_000_000_000;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// How much one may ask.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// On average; 0 is no limit.
    pub per_second: u32,
    /// At once, after a pause.
    pub burst: u32,
}

/// The limits on how often one may ask.
pub struct Rates {
    users: Buckets<UserId>,
    addresses: Buckets<IpAddr>,
    loopback_exempt: bool,
}

impl Rates {
    /// Limits for users, and for addresses; `loopback_exempt` leaves this machine out of the
    /// latter.
    #[must_use]
    pub fn new(user: Rate, address: Rate, loopback_exempt: bool) -> Self {
        let (users, addresses) = (Buckets::new(user), Buckets::new(address));
        Self { users, addresses, loopback_exempt }
    }

    /// Counts a request of a user.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn user(&self, user: UserId) -> Result<(), Problem> {
        self.users.take(user).map_err(|wait_ns| limited("user", self.users.rate, wait_ns))
    }

    /// What an address is counted as; `None` when it is left out.
    #[must_use]
    pub fn counted(&self, address: IpAddr) -> Option<IpAddr> {
        let is_exempt = self.loopback_exempt && address.to_canonical().is_loopback();
        (!is_exempt).then(|| household(address))
    }

    /// Counts a costly request of an address.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn address(&self, address: IpAddr) -> Result<(), Problem> {
        let Some(address) = self.counted(address) else { return Ok(()) };
        let taken = self.addresses.take(address);
        taken.map_err(|wait_ns| limited("address", self.addresses.rate, wait_ns))
    }
}

fn limited(who: &str, rate: Rate, wait_ns: u64) -> Problem {
    let seconds = u32::try_from(wait_ns.div_ceil(SECOND_NS)).unwrap_or(u32::MAX).max(1);
    let window = rate.burst.div_ceil(rate.per_second.max(1)).max(1);
    let detail = format!("Too many requests of one {who}; nothing changed.");
    let policy = format!("\"{who}\";q={};w={window}", rate.burst);
    let left = format!("\"{who}\";r=0;t={seconds}");
    let mut problem =
        Problem::new(429, "rate_limited", "Too many requests", detail).retry_after(seconds);
    for (name, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, left)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            problem = problem.header(name, value);
        }
    }
    problem
}

/// A request whose address may still ask for something costly. Taken out of a request before its
/// body is read.
pub struct Costly;

impl<S> FromRequestParts<S> for Costly
where
    S: Send + Sync,
    Web: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Ok(ClientAddress(address)) = ClientAddress::from_request_parts(parts, state).await;
        let web = Web::from_ref(state);
        web.rates.address(address).inspect_err(|_| web.metrics.rate_limited("address"))?;
        Ok(Self)
    }
}

struct Buckets<K> {
    rate: Rate,
    started: Instant,
    hasher: RandomState,
    /// When each bucket will be full again, in nanoseconds since `started`.
    shards: Vec<Mutex<HashMap<K, u64>>>,
}

impl<K: Hash + Eq> Buckets<K> {
    fn new(rate: Rate) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { rate, started: Instant::now(), hasher: RandomState::new(), shards }
    }

    /// Takes a token, or says how many nanoseconds it takes until there is one.
    fn take(&self, key: K) -> Result<(), u64> {
        let now_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.take_at(key, now_ns)
    }

    fn take_at(&self, key: K, now_ns: u64) -> Result<(), u64> {
        let Some(interval_ns) = SECOND_NS.checked_div(self.rate.per_second.into()) else {
            return Ok(());
        };
        let tolerance_ns = interval_ns * u64::from(self.rate.burst.saturating_sub(1));
        let number = usize::try_from(self.hasher.hash_one(&key)).unwrap_or(0) % SHARDS;
        let mut shard = self.shards[number].lock().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= REMEMBERED_MAX / SHARDS {
            shard.retain(|_, full_ns| *full_ns > now_ns);
            // A flood of users: letting some ask anew is better than growing or refusing all.
            if shard.len() >= REMEMBERED_MAX / SHARDS {
                shard.clear();
            }
        }
        let full_ns = shard.entry(key).or_default();
        let from_ns = (*full_ns).max(now_ns);
        match (from_ns - now_ns).checked_sub(tolerance_ns) {
            Some(wait_ns) if wait_ns > 0 => Err(wait_ns),
            _ => {
                *full_ns = from_ns + interval_ns;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_burst_then_the_average() {
        let buckets = Buckets::new(Rate { per_second: 10, burst: 3 });
        let at = |ms: u64| buckets.take_at("me", ms * MS);
        assert_eq!([at(0), at(0), at(0)], [Ok(()); 3]);
        assert_eq!(at(0), Err(100 * MS));
        assert_eq!(at(99), Err(MS));
        assert_eq!((at(100), at(100)), (Ok(()), Err(100 * MS)));
        assert_eq!(buckets.take_at("another", 100 * MS), Ok(()));
        // After a pause the bucket is full, and not more than that.
        let late = (0..10).filter(|_| at(60_000).is_ok()).count();
        assert_eq!(late, 3);
    }

    #[test]
    fn no_rate_is_no_limit() {
        let buckets = Buckets::new(Rate { per_second: 0, burst: 0 });
        assert!((0..1_000).all(|_| buckets.take_at(1, 0).is_ok()));
    }

    #[test]
    fn memory_is_bounded() {
        let buckets = Buckets::new(Rate { per_second: 1, burst: 1 });
        for key in 0..3 * REMEMBERED_MAX {
            let _ = buckets.take_at(key, 0);
        }
        let remembered: usize = buckets
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len())
            .sum();
        assert!(remembered <= REMEMBERED_MAX, "{remembered}");
    }
}

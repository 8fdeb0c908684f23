//! Rate limits: a token bucket for each user, and for each address that asks for a password hash or
//! forges messages of a payment provider.
//!
//! A bucket is one number, the time at which it will be full again (the *generic cell rate
//! algorithm*, GCRA). A full bucket needs no memory, so the map holds recent clients only; full
//! buckets are removed when a shard of the map has reached its limit.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::address::{ClientAddress, Proxies, rate_limit_key};
use crate::problem::Problem;
use crate::problems;
use shop_domain::UserId;
use shop_metrics::Metrics;

/// Buckets in memory at once: of users, and again of addresses.
const BUCKETS_MAX: usize = 200_000;
/// Parts of the map, each with a mutex of its own.
const SHARDS: usize = 32;
const SECOND_NS: u64 = 1_000_000_000;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// A rate limit.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Requests a second on average; 0 is no limit.
    pub per_second: u32,
    /// Requests at once, after a pause.
    pub burst: u32,
}

/// The rate limits of users and of addresses, with their buckets.
pub struct Rates {
    users: Buckets<UserId>,
    addresses: Buckets<IpAddr>,
    loopback_exempt: bool,
}

impl Rates {
    /// Limits for users and for addresses; with `loopback_exempt` this machine's addresses have
    /// none.
    pub fn new(user: Rate, address: Rate, loopback_exempt: bool) -> Self {
        let users = Buckets::new(user);
        let addresses = Buckets::new(address);
        Self { users, addresses, loopback_exempt }
    }

    /// Counts a request of a user.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn user(&self, user: UserId) -> Result<(), Problem> {
        self.users.take(user).map_err(|wait_ns| limited("user", self.users.rate, wait_ns))
    }

    /// The address under which a client is counted; `None` when it has no limit.
    pub fn key(&self, address: IpAddr) -> Option<IpAddr> {
        let is_exempt = self.loopback_exempt && address.to_canonical().is_loopback();
        (!is_exempt).then(|| rate_limit_key(address))
    }

    /// Counts a request of an address for a password hash, or a forged message of a payment provider.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn address(&self, address: IpAddr) -> Result<(), Problem> {
        let Some(address) = self.key(address) else { return Ok(()) };
        let taken = self.addresses.take(address);
        taken.map_err(|wait_ns| limited("address", self.addresses.rate, wait_ns))
    }

    /// As [`Self::address`], but counts nothing.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Problem> {
        let Some(address) = self.key(address) else { return Ok(()) };
        let seen = self.addresses.look(&address);
        seen.map_err(|wait_ns| limited("address", self.addresses.rate, wait_ns))
    }
}

fn limited(who: &str, rate: Rate, wait_ns: u64) -> Problem {
    let seconds = u32::try_from(wait_ns.div_ceil(SECOND_NS)).unwrap_or(u32::MAX).max(1);
    let window = rate.burst.div_ceil(rate.per_second.max(1)).max(1);
    let detail = format!("Too many requests of one {who}: wait, then try again.");
    let policy = format!("\"{who}\";q={};w={window}", rate.burst);
    let left = format!("\"{who}\";r=0;t={seconds}");
    let mut problem = problems::RATE_LIMITED.detail(detail).retry_after(seconds);
    for (name, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, left)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            problem = problem.header(name, value);
        }
    }
    problem
}

/// Extractor that counts a request for its client's address, before the body is read.
pub struct AddressRateLimit;

impl<S: Send + Sync> FromRequestParts<S> for AddressRateLimit
where
    Proxies: FromRef<S>,
    Arc<Rates>: FromRef<S>,
    Metrics: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let client = AddressRateCheck::from_request_parts(parts, state).await?;
        client.told(client.rates.address(client.address))?;
        Ok(Self)
    }
}

/// Extractor that refuses a request, before the body is read, when its client's address has used up the limit. The
/// handler tells whether the request counts.
pub struct AddressRateCheck {
    rates: Arc<Rates>,
    metrics: Metrics,
    address: IpAddr,
}

impl AddressRateCheck {
    /// Looks again, since others may have been counted while the body was read.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check(&self) -> Result<(), Problem> {
        self.told(self.rates.check_address(self.address))
    }

    /// Counts the request: only later ones may be refused for it.
    pub fn count(&self) {
        let _ = self.rates.address(self.address);
    }

    fn told(&self, judged: Result<(), Problem>) -> Result<(), Problem> {
        judged.inspect_err(|_| self.metrics.rate_limited("address"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AddressRateCheck
where
    Proxies: FromRef<S>,
    Arc<Rates>: FromRef<S>,
    Metrics: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Ok(ClientAddress(address)) = ClientAddress::from_request_parts(parts, state).await;
        let client =
            Self { rates: FromRef::from_ref(state), metrics: FromRef::from_ref(state), address };
        client.check()?;
        Ok(client)
    }
}

struct Buckets<K> {
    rate: Rate,
    started: Instant,
    hasher: RandomState,
    /// The time at which each bucket will be full again, in nanoseconds since `started`.
    shards: Vec<Mutex<HashMap<K, u64>>>,
}

impl<K: Hash + Eq> Buckets<K> {
    fn new(rate: Rate) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { rate, started: Instant::now(), hasher: RandomState::new(), shards }
    }

    /// Takes a token; the error is the time until there is one, in nanoseconds.
    fn take(&self, key: K) -> Result<(), u64> {
        self.take_at(key, self.now_ns())
    }

    /// As [`Self::take`], but takes no token.
    fn look(&self, key: &K) -> Result<(), u64> {
        self.look_at(key, self.now_ns())
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The time in which one token comes, in nanoseconds; `None` without a limit.
    fn interval_ns(&self) -> Option<u64> {
        SECOND_NS.checked_div(self.rate.per_second.into())
    }

    /// Whether a bucket has a token that will be full again at `full_ns`.
    fn token(&self, interval_ns: u64, full_ns: u64, now_ns: u64) -> Result<(), u64> {
        let tolerance_ns = interval_ns * u64::from(self.rate.burst.saturating_sub(1));
        match full_ns.saturating_sub(now_ns).checked_sub(tolerance_ns) {
            Some(wait_ns) if wait_ns > 0 => Err(wait_ns),
            _ => Ok(()),
        }
    }

    fn look_at(&self, key: &K, now_ns: u64) -> Result<(), u64> {
        let Some(interval_ns) = self.interval_ns() else { return Ok(()) };
        let full_ns = self.shard(key).get(key).copied().unwrap_or_default();
        self.token(interval_ns, full_ns, now_ns)
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, HashMap<K, u64>> {
        let number = usize::try_from(self.hasher.hash_one(key)).unwrap_or(0) % SHARDS;
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_at(&self, key: K, now_ns: u64) -> Result<(), u64> {
        let Some(interval_ns) = self.interval_ns() else { return Ok(()) };
        let mut shard = self.shard(&key);
        if shard.len() >= BUCKETS_MAX / SHARDS {
            shard.retain(|_, full_ns| *full_ns > now_ns);
            // Too many clients at once: to forget their counts is better than to grow, or to
            // refuse everybody.
            if shard.len() >= BUCKETS_MAX / SHARDS {
                shard.clear();
            }
        }
        let full_ns = shard.entry(key).or_default();
        self.token(interval_ns, *full_ns, now_ns)?;
        *full_ns = (*full_ns).max(now_ns) + interval_ns;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_burst_passes_and_then_the_average_rate() {
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
    fn a_look_says_what_taking_would_and_takes_nothing() {
        let buckets = Buckets::new(Rate { per_second: 1, burst: 2 });
        for _ in 0..2 {
            assert!((0..100).all(|_| buckets.look_at(&"me", 0).is_ok()));
            assert_eq!(buckets.take_at("me", 0), Ok(()));
        }
        assert_eq!(buckets.look_at(&"me", 0), Err(SECOND_NS));
        assert_eq!(buckets.take_at("me", 0), Err(SECOND_NS));
        assert_eq!(buckets.look_at(&"me", SECOND_NS), Ok(()));
    }

    #[test]
    fn no_rate_is_no_limit() {
        let buckets = Buckets::new(Rate { per_second: 0, burst: 0 });
        assert!((0..1_000).all(|_| buckets.take_at(1, 0).is_ok()));
    }

    #[test]
    fn memory_is_bounded() {
        let buckets = Buckets::new(Rate { per_second: 1, burst: 1 });
        for key in 0..3 * BUCKETS_MAX {
            let _ = buckets.take_at(key, 0);
        }
        let in_memory: usize = buckets
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len())
            .sum();
        assert!(in_memory <= BUCKETS_MAX, "{in_memory}");
    }
}

//! Limits the open connections of one address, so that no client can take all connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::address::{Proxies, rate_limit_key};

/// Counts open connections by address. Clones share the counts.
#[derive(Clone)]
pub struct ConnectionLimiter {
    each_max: usize,
    proxies: Proxies,
    loopback_exempt: bool,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// The right to one connection; dropping it gives the right back.
pub struct ConnectionPermit {
    limiter: ConnectionLimiter,
    /// `None` when the address is not limited.
    counted: Option<IpAddr>,
}

impl ConnectionLimiter {
    /// Allows each address `each_max` connections. Our proxies, whose connections carry the
    /// requests of many clients, are not limited; with `loopback_exempt` neither is this machine.
    #[must_use]
    pub fn new(each_max: usize, proxies: Proxies, loopback_exempt: bool) -> Self {
        Self { each_max, proxies, loopback_exempt, counts: Arc::default() }
    }

    /// A permit for a connection from `address`, or `None` when the address has `each_max` already.
    #[must_use]
    pub fn try_acquire(&self, address: IpAddr) -> Option<ConnectionPermit> {
        let address = address.to_canonical();
        let exempt = self.loopback_exempt && address.is_loopback() || self.proxies.contain(address);
        let counted = (!exempt).then(|| rate_limit_key(address));
        if let Some(key) = counted {
            let mut counts = self.counts();
            let count = counts.entry(key).or_default();
            if *count >= self.each_max {
                return None;
            }
            *count += 1;
        }
        Some(ConnectionPermit { limiter: self.clone(), counted })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some(key) = self.counted else { return };
        let mut counts = self.limiter.counts();
        if let Some(count) = counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_connections() {
        let proxies = Proxies::parse("10.0.0.0/8").expect("a network");
        let limiter = ConnectionLimiter::new(2, proxies, true);
        let acquire = |address: &str| limiter.try_acquire(address.parse().expect("an address"));
        let _first = acquire("9.9.9.9").expect("a permit");
        let second = acquire("::ffff:9.9.9.9").expect("a permit");
        assert!(acquire("9.9.9.9").is_none());
        assert!(acquire("8.8.8.8").is_some());
        let exempt: Vec<_> = (0..5)
            .flat_map(|_| [acquire("10.1.1.1"), acquire("127.0.0.1"), acquire("::1")])
            .collect();
        assert!(exempt.iter().all(Option::is_some));
        drop(second);
        assert!(acquire("9.9.9.9").is_some());
        drop(exempt);
        assert_eq!(limiter.counts().len(), 1, "addresses without a connection are forgotten");
    }
}

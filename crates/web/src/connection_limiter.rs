//! Limits the open connections of one address, so that no client can take all connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::address::{Proxies, rate_limit_key};
use crate::flight::Budget;

/// Counts open connections by address. Clones share the counts.
#[derive(Clone)]
pub struct ConnectionLimiter {
    each_max: usize,
    proxies: Proxies,
    loopback_exempt: bool,
    addresses: Arc<Mutex<HashMap<IpAddr, Connections>>>,
}

/// The open connections of one address.
struct Connections {
    count: usize,
    /// What large answers to all of them may hold.
    budget: Budget,
}

impl Default for Connections {
    fn default() -> Self {
        Self { count: 0, budget: Budget::of_address() }
    }
}

/// The right to one connection; dropping it gives the right back.
pub struct ConnectionPermit {
    limiter: ConnectionLimiter,
    /// `None` when the address is not limited.
    counted: Option<IpAddr>,
    /// What large answers to this address may hold; `None` when it is not limited.
    pub budget: Option<Budget>,
}

impl ConnectionLimiter {
    /// Allows each address `each_max` connections. Our proxies, whose connections carry the
    /// requests of many clients, are not limited; with `loopback_exempt` neither is this machine.
    pub fn new(each_max: usize, proxies: Proxies, loopback_exempt: bool) -> Self {
        Self { each_max, proxies, loopback_exempt, addresses: Arc::default() }
    }

    /// A permit for a connection from `address`, or `None` when the address has `each_max` already.
    #[must_use]
    pub fn try_acquire(&self, address: IpAddr) -> Option<ConnectionPermit> {
        let address = address.to_canonical();
        let exempt = self.loopback_exempt && address.is_loopback() || self.proxies.contain(address);
        let counted = (!exempt).then(|| rate_limit_key(address));
        let mut budget = None;
        if let Some(key) = counted {
            let mut addresses = self.addresses();
            let connections = addresses.entry(key).or_default();
            if connections.count >= self.each_max {
                return None;
            }
            connections.count += 1;
            budget = Some(connections.budget.clone());
        }
        Some(ConnectionPermit { limiter: self.clone(), counted, budget })
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, Connections>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some(key) = self.counted else { return };
        let mut addresses = self.limiter.addresses();
        if let Some(connections) = addresses.get_mut(&key) {
            connections.count -= 1;
            if connections.count == 0 {
                addresses.remove(&key);
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
        let first = acquire("9.9.9.9").expect("a permit");
        let second = acquire("::ffff:9.9.9.9").expect("a permit");
        assert!(acquire("9.9.9.9").is_none());
        assert!(acquire("8.8.8.8").is_some());
        let exempt: Vec<_> = (0..5)
            .flat_map(|_| [acquire("10.1.1.1"), acquire("127.0.0.1"), acquire("::1")])
            .collect();
        assert!(exempt.iter().all(Option::is_some));
        let budget = |permit: &ConnectionPermit| permit.budget.clone().expect("a limited address");
        assert!(Arc::ptr_eq(&budget(&first).0, &budget(&second).0), "one budget for an address");
        drop(second);
        assert!(acquire("9.9.9.9").is_some());
        assert!(exempt.iter().flatten().all(|permit| permit.budget.is_none()));
        drop(exempt);
        assert_eq!(limiter.addresses().len(), 1, "addresses without a connection are forgotten");
    }
}

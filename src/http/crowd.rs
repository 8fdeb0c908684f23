//! Open connections of one address, so that no single one can take all places.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::address::{Proxies, household};

/// Who is connected. Clones share it.
#[derive(Clone)]
pub struct Crowd {
    each_max: usize,
    proxies: Proxies,
    loopback_exempt: bool,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One counted connection; dropping it leaves.
pub struct Visit {
    crowd: Crowd,
    address: Option<IpAddr>,
}

impl Crowd {
    /// Lets each address have `each_max` connections. Our proxies, whose connections are everybody's,
    /// may have more, and with `loopback_exempt` so may this machine.
    #[must_use]
    pub fn new(each_max: usize, proxies: Proxies, loopback_exempt: bool) -> Self {
        Self { each_max, proxies, loopback_exempt, counts: Arc::default() }
    }

    /// Lets a connection in, unless its address has too many already.
    #[must_use]
    pub fn enter(&self, address: IpAddr) -> Option<Visit> {
        let address = address.to_canonical();
        let exempt = self.loopback_exempt && address.is_loopback() || self.proxies.contain(address);
        let address = (!exempt).then(|| household(address));
        if let Some(address) = address {
            let mut counts = self.counts();
            let count = counts.entry(address).or_default();
            if *count >= self.each_max {
                return None;
            }
            *count += 1;
        }
        Some(Visit { crowd: self.clone(), address })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut counts = self.crowd.counts();
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_places() {
        let proxies = Proxies::parse("10.0.0.0/8").expect("a network");
        let crowd = Crowd::new(2, proxies, true);
        let enter = |address: &str| crowd.enter(address.parse().expect("an address"));
        let (_one, two) = (enter("9.9.9.9").expect("room"), enter("::ffff:9.9.9.9").expect("room"));
        assert!(enter("9.9.9.9").is_none());
        assert!(enter("8.8.8.8").is_some());
        let many: Vec<_> =
            (0..5).flat_map(|_| [enter("10.1.1.1"), enter("127.0.0.1"), enter("::1")]).collect();
        assert!(many.iter().all(Option::is_some));
        drop(two);
        assert!(enter("9.9.9.9").is_some());
        drop(many);
        assert_eq!(crowd.counts().len(), 1, "who has left is forgotten");
    }
}

//! One load for all who want the same value at the same time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

/// The loads that run, by key. Clones share them. The pattern is Go's `singleflight`: a caller that
/// finds a load running waits for its result, also for its error, and starts none.
#[derive(Clone)]
pub struct SingleFlight<K, V> {
    running: Arc<Mutex<HashMap<K, Flight<V>>>>,
}

/// A load; `None` if it panicked.
type Flight<V> = Shared<BoxFuture<'static, Option<V>>>;

impl<K, V> SingleFlight<K, V>
where
    K: Copy + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Waits for the load of `key` that runs, or for a new one. The load is a task of its own: it
    /// ends even when all of its callers have given up.
    ///
    /// # Panics
    /// When the load panics.
    pub async fn run<F>(&self, key: K, load: impl FnOnce() -> F) -> V
    where
        F: Future<Output = V> + Send + 'static,
    {
        let flight = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.entry(key).or_insert_with(|| self.start(key, load())).clone()
        };
        flight.await.expect("the load of a value panicked")
    }

    fn start(&self, key: K, load: impl Future<Output = V> + Send + 'static) -> Flight<V> {
        let landed = Landed { running: Arc::clone(&self.running), key };
        let task = async move {
            let _landed = landed;
            load.await
        };
        // It is spawned when the caller polls it, and the lock is free again.
        async move { tokio::spawn(task).await.ok() }.boxed().shared()
    }
}

/// Ends a flight when it is dropped: later callers start a new one.
struct Landed<K: Eq + Hash, V> {
    running: Arc<Mutex<HashMap<K, Flight<V>>>>,
    key: K,
}

impl<K: Eq + Hash, V> Drop for Landed<K, V> {
    fn drop(&mut self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl<K, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self { running: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn callers_at_the_same_time_share_one_load_and_its_error() {
        let flights: SingleFlight<u8, Result<u32, &str>> = SingleFlight::default();
        let (loads, go) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let call = || {
            flights.run(1, || {
                let (loads, go) = (Arc::clone(&loads), Arc::clone(&go));
                async move {
                    go.notified().await;
                    loads.fetch_add(1, Ordering::SeqCst);
                    Err("no answer")
                }
            })
        };
        go.notify_one();
        let results = join_all((0..10).map(|_| call())).await;
        assert_eq!(results, [Err("no answer"); 10]);
        assert_eq!(loads.load(Ordering::SeqCst), 1);
        go.notify_one();
        assert_eq!(call().await, Err("no answer"));
        assert_eq!(loads.load(Ordering::SeqCst), 2, "a later caller starts a new load");
    }

    #[tokio::test]
    async fn a_load_ends_without_its_callers() {
        let flights: SingleFlight<u8, u32> = SingleFlight::default();
        let (begun, go, done) =
            (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let parts = (Arc::clone(&begun), Arc::clone(&go), Arc::clone(&done));
        let caller = flights.run(1, || async move {
            let (begun, go, done) = parts;
            begun.notify_one();
            go.notified().await;
            done.notify_one();
            7
        });
        // The caller gives up while the load runs.
        assert!(futures::poll!(Box::pin(caller)).is_pending());
        begun.notified().await;
        go.notify_one();
        done.notified().await;
    }
}

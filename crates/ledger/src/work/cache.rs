//! A concurrent map of bounded size.

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;

/// A cache: beyond its capacity it drops the entries that are used least (S3-FIFO, by
/// [`quick_cache`]). Entries have no time limit; where one is needed, it is part of the value.
/// Clones share the entries.
#[derive(Debug)]
pub struct Cache<K, V>(Arc<quick_cache::sync::Cache<K, V>>);

impl<K: Eq + Hash + Copy, V: Clone> Cache<K, V> {
    /// Makes a cache of at most `capacity` entries.
    pub fn new(capacity: usize) -> Self {
        Self(Arc::new(quick_cache::sync::Cache::new(capacity)))
    }

    /// Finds a value.
    pub fn get(&self, key: K) -> Option<V> {
        self.0.get(&key)
    }

    /// Finds a value, or inserts that of `make`, which runs once for callers at the same time.
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V {
        let Ok(value) = self.0.get_or_insert_with(&key, || Ok::<V, Infallible>(make()));
        value
    }

    /// Inserts or replaces a value.
    pub fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }

    /// Drops a value.
    pub fn remove(&self, key: K) {
        self.0.remove(&key);
    }
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

//! The machinery that all kinds of lock share; a backend adds only its [`store::LeaseStore`].
//!
//! In reading order: [`leased`] (the lock itself), [`acquire`], [`guard`], [`renewal`], [`release`], [`hold`],
//! [`queue`], [`backoff`], [`store`]; then what is built upon it: [`combine`], [`multi`].

mod acquire;
pub(crate) mod backoff;
pub mod combine;
pub(crate) mod command;
pub(crate) mod guard;
pub(crate) mod hold;
pub(crate) mod leased;
pub(crate) mod multi;
pub(crate) mod name;
pub(crate) mod queue;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod queue_role;
pub(crate) mod release;
mod renewal;
pub(crate) mod stats;
pub mod store;

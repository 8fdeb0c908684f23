//! Requests to other systems: webhooks, the identity provider, the payment provider, drand, the collector of traces.
//!
//! [`HttpsClient`] sends them, to a [`Target`] whose address [`PrivateNetworks`] permits.

mod client;
mod target;
mod tls;

pub use client::{Connection, HttpsClient};
pub use target::{PrivateNetworks, Target};

//! Requests to other systems: webhooks, the identity provider, the payment provider, drand.
//!
//! [`HttpsClient`] sends them, to a [`Target`] whose address [`PrivateNetworks`] permits. [`tls`] says which
//! authorities are trusted.

mod client;
mod target;
pub mod tls;

pub use client::{Connection, HttpsClient};
pub use target::{PrivateNetworks, Target};

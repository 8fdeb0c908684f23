//! The trials, a file for each part of the shop that breaks.

pub mod batch;
pub mod buyers;
pub mod clock;
pub mod crash;
pub mod disk;
pub mod locks;
pub mod mysql;
pub mod network;
pub mod orders;
pub mod redis;
pub mod service;

use std::time::Duration;

/// How long a fault lasts that is lifted again.
const FAULT: Duration = Duration::from_millis(1_500);

/// The fault happened, or the trial proves nothing.
fn bit(really: bool, proof: String) -> crate::Run<String> {
    if really { Ok(proof) } else { Err(format!("the fault did not bite: {proof}")) }
}

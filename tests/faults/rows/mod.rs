//! The trials, a file for each part of the system that breaks.

pub mod batch;
pub mod buyers;
pub mod clock;
pub mod crash;
pub mod disk;
pub mod draws;
pub mod failover;
pub mod held;
pub mod locks;
pub mod mysql;
pub mod mysql_engines;
pub mod network;
pub mod orders;
pub mod power;
pub mod redis;
pub mod redis_groups;
pub mod service;
pub mod vitess;
pub mod waiting;

use crate::prelude::*;

/// The duration of a fault that is lifted again.
pub const FAULT: Duration = Duration::from_millis(1_500);
/// The longest time from the beginning of the sale to a fault, in milliseconds.
pub const MOMENT_MS: u64 = 300;

/// A trial that this machine cannot make.
pub fn left_out(why: &str) -> TrialOutcome {
    TrialOutcome { proof: format!("left out: {why}"), ..TrialOutcome::default() }
}

/// Returns the proof, or an error where the fault had no effect: then the trial proves nothing.
pub fn proven(really: bool, proof: String) -> Run<String> {
    if really { Ok(proof) } else { Err(format!("the fault had no effect: {proof}")) }
}

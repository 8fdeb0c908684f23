//! Models of two protocols, checked in every state that they can reach.
//!
//! A test of the real service tries some orders of events; a model tries all of them, within a bound.
//! Each model describes code that exists, and each of its actions names the file. It has a switch for each
//! *planted mistake*: with the mistake, the check must find a path to a broken property.
//!
//! Without the feature `checker` a model has its steps alone: what [`trace`] needs to explain a run of the real code.
#![cfg_attr(not(feature = "checker"), allow(dead_code, reason = "steps that no run has"))]

pub mod batch;
#[cfg(feature = "checker")]
pub mod check;
pub mod lock;
pub mod trace;

//! Models of two protocols, checked in every state that they can reach.
//!
//! A test of the real service tries some orders of events; a model tries all of them, within a bound.
//! Each model describes code that exists, and each of its actions names the file. It has a switch for each
//! *planted mistake*: with the mistake, the check must find a path to a broken property.

pub mod batch;
pub mod check;
pub mod lock;

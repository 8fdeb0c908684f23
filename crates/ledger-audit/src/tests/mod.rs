//! Planted faults: each must be caught, and named. A clean run must be called clean.

mod declared;
mod draw;
mod in_time;
mod ledger;
mod lines;
mod record;
mod report;
pub mod sale;
mod waiting;

//! Orders and their payments, and the requests that made them.

pub mod buyers;
pub mod failures;
pub mod orders;
pub mod payments;
pub mod request_keys;
pub mod running;

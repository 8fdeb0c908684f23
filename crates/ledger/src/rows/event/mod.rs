//! Events for other systems: from the outbox to the log, and on to the endpoints.

pub mod deliveries;
pub mod endpoints;
pub mod event_log;
pub mod outbox;

//! The program as a process: starts, stops, commands, logs and traces.

mod checks_of_draws;
mod load_of_carts;
mod load_tools;
pub mod logs;
pub mod operations;
pub mod program;
pub mod redis_rights;
mod restarts;
mod sockets;
pub mod start_mistakes;
pub mod starts;
pub mod stopping;
mod systemd;
pub mod traces;
mod tutorial;
mod zeros;

//! The program as a process: starts, stops, commands, logs and traces.

pub mod logs;
pub mod operations;
pub mod program;
pub mod start_mistakes;
pub mod starts;
pub mod stopping;
pub mod traces;

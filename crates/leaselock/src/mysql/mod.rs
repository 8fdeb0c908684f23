//! Locks in MySQL or MariaDB: [`table`] has a row per name, [`named`] uses the server's own named locks.

pub mod named;
pub mod table;

/// The statement that makes the table of [`table`]: run it once, or add it to your migrations.
pub const SCHEMA: &str = include_str!("schema.sql");

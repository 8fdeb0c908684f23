//! Three locks from textbooks, each shown for its fault. None of them belongs in a real program.
//!
//! They work on Redis and go through the same machinery as every other kind, so a test, a load test
//! or a reader can see what the fault costs.
//!
//! | kind | its fault | what has none of it |
//! |---|---|---|
//! | [`setnx`] | no expiry: when its holder dies, everybody waits for ever | [`redis::plain`](crate::redis::plain) |
//! | [`setnx_expire`] | the expiry is a second command, and the holder can die between the two | [`redis::plain`](crate::redis::plain) |
//! | [`getset`] | the value is a time by the holders' clocks, and a loser overwrites it | [`redis::token`](crate::redis::token) |

pub mod getset;
pub mod setnx;
pub mod setnx_expire;

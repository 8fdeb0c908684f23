#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod address;
mod cluster;
mod connection;
mod node;
mod open_slots;
mod own;
mod refusal;
mod replicated;
mod script;
mod sentinel;
mod shared_look;
mod slot;
mod topology;
mod view;
mod watch;

#[cfg(feature = "tls")]
pub use address::Certificates;
pub use address::{Address, InvalidAddress};
pub use connection::{Options, SharedConnection};
pub use node::{DENIED, Node, is_denial};
pub use own::{OWN_CONNECTIONS_MAX, OwnConnection};
pub use refusal::is_command_refused;
pub use replicated::{ReplicatedWrite, ReplicatedWriter, is_not_sent, is_too_few_replicas};
pub use script::{Call, Script, is_unknown_script};
pub use slot::Slot;
pub use topology::{Primaries, Topology};

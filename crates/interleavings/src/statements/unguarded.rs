//! Statements without a condition, which no item has.

use tokio::sync::Notify;

#[derive(Clone, Copy, Debug)]
pub enum UnguardedWrite<'a> {
    SetFirst { written: &'a Notify },
    Record,
}

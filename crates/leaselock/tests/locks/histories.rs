//! What a lock with leases, and a number that it guards, promise: the specifications for the
//! linearizability checker.
//!
//! * [`LockSpec`], a lock with leases. A grant needs a free name, and a fence above all earlier ones. A
//!   release of the present hold frees the name. A hold *may* also end by itself: not before its
//!   guard's deadline, unless a fault was injected that takes holds away; and it *must* have ended a
//!   while after its lease, so that the next caller gets the name.
//! * [`CountSpec`], a number that callers read and write under the lock, in a store that compares
//!   fences. Each addition has read what the addition before it has written, whatever happens to the
//!   holders: that is what the fence is for.

use linearizability::Specification;

/// What a caller did with a lock. Holds are numbered by the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOp {
    /// The name was granted, with this fence; 0 where the kind has none.
    Granted { hold: u32, fence: u64 },
    /// The acquire was refused because another one holds the name.
    Refused,
    /// The release said that the hold had lasted.
    Released { hold: u32 },
    /// The release said that the hold had ended before, or that its lease ended before the backend
    /// confirmed the release, which may have freed the name.
    WasLost { hold: u32 },
    /// The hold ended by itself, if it had not ended before.
    Ended { hold: u32 },
}

/// A lock with leases: see this file.
pub struct LockSpec;

/// The hold and the highest fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Held {
    hold: Option<u32>,
    fence: u64,
}

impl Specification for LockSpec {
    type State = Held;
    type Operation = LockOp;

    fn init() -> Held {
        Held::default()
    }

    fn apply(operation: &LockOp, state: &Held) -> (bool, Held) {
        let free = Held { hold: None, ..*state };
        match *operation {
            LockOp::Granted { hold, fence } => {
                let rises = fence == 0 || fence > state.fence;
                let granted = Held { hold: Some(hold), fence: fence.max(state.fence) };
                (state.hold.is_none() && rises, granted)
            }
            LockOp::Refused => (state.hold.is_some(), *state),
            LockOp::Released { hold } => (state.hold == Some(hold), free),
            LockOp::WasLost { hold } | LockOp::Ended { hold } if state.hold == Some(hold) => {
                (true, free)
            }
            LockOp::WasLost { .. } | LockOp::Ended { .. } => (true, *state),
        }
    }
}

/// An addition of one to the number: what it read. One that the store refused is not part of the
/// history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    pub read: u64,
}

/// A number to which one is added: see this file.
pub struct CountSpec;

impl Specification for CountSpec {
    type State = u64;
    type Operation = Added;

    fn init() -> u64 {
        0
    }

    fn apply(operation: &Added, state: &u64) -> (bool, u64) {
        (operation.read == *state, state + 1)
    }
}

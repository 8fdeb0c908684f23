//! The ways in which a link to a server breaks.

use faulty_link::{Fault, Trap};

use crate::prelude::*;

/// A command of the database's protocol: "query" and its text.
const BEGIN: &[u8] = b"\x03BEGIN";
/// One of this many answers, or COMMITs, is lost.
const LOSS_EVERY: u64 = 5;

/// The call of the procedure that writes an order, its COMMIT included.
const CALL: &[u8] = b"\x03CALL write_order_";

/// Waits for a COMMIT: a query of its own, the last statement of a packet, or inside a call.
fn at_commit() -> Trap {
    Trap::at(b"\x03COMMIT").or_at(b";COMMIT").or_at(CALL)
}

/// What a link does with what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Passes everything on.
    Works,
    /// Breaks every connection, and those to come.
    Refuses,
    /// Passes nothing on and breaks nothing; what was sent arrives once it works again.
    BlackHole,
    /// Every request arrives later by this time.
    Late(Duration),
    /// Answers come a byte at a time, with this pause between them.
    Dribbles(Duration),
    /// Every few answers the connection is reset in the middle of one.
    Resets,
    /// Passes every few COMMITs on, waits for the answer, and breaks instead of passing that back.
    LosesCommitAnswers,
    /// Breaks instead of passing on every few COMMITs.
    LosesCommits,
    /// Transactions wait at their BEGIN until it works again.
    HoldsBegins,
}

impl Link {
    /// Has a link to a server do so from now on.
    pub fn begin(self, wire: &FaultyLink) {
        match self {
            Self::Works => wire.mend(),
            Self::Refuses => wire.cut(),
            Self::BlackHole => wire.set(Fault::Stall),
            Self::Late(by) => wire.set(Fault::Delay(by)),
            Self::Dribbles(pause) => wire.set(Fault::Dribble(pause)),
            Self::Resets => wire.trap(Trap::at_answer().reset().every(LOSS_EVERY)),
            Self::LosesCommitAnswers => wire.trap(at_commit().lose_answer().every(LOSS_EVERY)),
            Self::LosesCommits => wire.trap(at_commit().every(LOSS_EVERY)),
            Self::HoldsBegins => wire.trap(Trap::at(BEGIN).hold().always()),
        }
    }
}

//! A link to a server that can be broken in the ways in which links break.

use faulty_link::{Fault, FaultyLink, Trap};

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

/// Listens on a loopback port and passes on to a server. Ends when dropped.
pub struct Wire {
    /// Where it listens.
    pub port: u16,
    link: FaultyLink,
}

impl Wire {
    /// A whole link to a port of this machine.
    pub async fn to(server: u16) -> Run<Self> {
        let link = FaultyLink::to(server).await.map_err(|error| format!("a link: {error}"))?;
        Ok(Self { port: link.port(), link })
    }

    /// From now on.
    pub fn set(&self, link: Link) {
        match link {
            Link::Works => self.link.mend(),
            Link::Refuses => self.link.cut(),
            Link::BlackHole => self.link.set(Fault::Stall),
            Link::Late(by) => self.link.set(Fault::Delay(by)),
            Link::Dribbles(pause) => self.link.set(Fault::Dribble(pause)),
            Link::Resets => self.link.trap(Trap::at_answer().reset().every(LOSS_EVERY)),
            Link::LosesCommitAnswers => {
                self.link.trap(at_commit().lose_answer().every(LOSS_EVERY));
            }
            Link::LosesCommits => self.link.trap(at_commit().every(LOSS_EVERY)),
            Link::HoldsBegins => self.link.trap(Trap::at(BEGIN).hold().always()),
        }
    }

    /// Leads connections to come to another server.
    pub fn lead_to(&self, server: u16) {
        self.link.lead_to(server);
    }

    /// How often it broke, held back or cut something.
    pub fn bites(&self) -> u64 {
        self.link.bites()
    }
}

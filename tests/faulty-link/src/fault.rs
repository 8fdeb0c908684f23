//! What a link does with everything that it is given.

use std::time::Duration;

/// What a link does with all its connections until the next fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault: passes everything on at once.
    #[default]
    Pass,
    /// Delays every piece of a request by this time.
    Delay(Duration),
    /// Passes answers on byte by byte, with this pause after each; the rest comes at once when the
    /// fault ends.
    Dribble(Duration),
    /// Passes nothing on and breaks nothing. What was sent arrives when the fault ends.
    Stall,
    /// Reads nothing more and tells neither end. The connections end when the fault does, and what
    /// was sent over them is lost.
    Silence,
    /// Closes both ends of every connection, and of new ones as soon as they are accepted.
    Refuse,
    /// Closes the next new connection, then passes everything on. Open connections are not touched.
    RefuseNext,
}

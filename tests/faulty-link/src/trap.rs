//! A fault for one message among many.

use super::Fault;

/// A pattern to wait for in what passes over a link, and what to do with the piece that has it.
///
/// A trap springs at the first match and is gone then. [`skip`](Trap::skip) lets some matches pass
/// first; [`always`](Trap::always) and [`every`](Trap::every) keep the trap set.
#[derive(Clone, Debug)]
pub struct Trap {
    pub(crate) patterns: Vec<Vec<u8>>,
    pub(crate) direction: Direction,
    pub(crate) act: Act,
    pub(crate) skip: u64,
    /// One in this many matches springs the trap; `None` springs once.
    pub(crate) every: Option<u64>,
    pub(crate) then: Fault,
}

/// The direction in which a piece passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Requests,
    Answers,
}

/// What a trap does with the piece that sprang it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Cut,
    Reset,
    LoseAnswer,
    Hold,
    CutClientAndHold,
    CutServerInSilence,
}

/// What is to be done since a trap has sprung.
pub(crate) struct TrapEffect {
    pub(crate) act: Act,
    pub(crate) then: Fault,
    /// The number of the order that set the trap.
    pub(crate) order: u64,
}

impl Trap {
    /// Waits for a request with these bytes in it. Cuts the connection instead of passing it on,
    /// unless one of the methods below says otherwise.
    pub fn at(pattern: &[u8]) -> Self {
        Self {
            patterns: vec![pattern.to_owned()],
            direction: Direction::Requests,
            act: Act::Cut,
            skip: 0,
            every: None,
            then: Fault::Pass,
        }
    }

    /// Waits for a request with these bytes, too.
    #[must_use]
    pub fn or_at(mut self, pattern: &[u8]) -> Self {
        self.patterns.push(pattern.to_owned());
        self
    }

    /// Waits for the next answer of the server, and cuts the connection instead of passing it on.
    pub fn at_answer() -> Self {
        Self { direction: Direction::Answers, ..Self::at(b"") }
    }

    /// Passes the request on, waits for the server's answer, and cuts the connection instead of
    /// passing the answer back: the server has acted, and the client does not know.
    #[must_use]
    pub fn lose_answer(self) -> Self {
        Self { act: Act::LoseAnswer, ..self }
    }

    /// Passes on the first half of the piece and resets the connection (TCP RST).
    #[must_use]
    pub fn reset(self) -> Self {
        Self { act: Act::Reset, ..self }
    }

    /// Holds the piece until another fault replaces this one, then passes it on.
    #[must_use]
    pub fn hold(self) -> Self {
        Self { act: Act::Hold, ..self }
    }

    /// Cuts the client off and holds the request until another fault replaces this one. Then the
    /// server gets it, and nobody hears the answer.
    #[must_use]
    pub fn cut_client_and_hold(self) -> Self {
        Self { act: Act::CutClientAndHold, ..self }
    }

    /// Cuts the server off instead of passing the request on. The client hears nothing until the
    /// fault is replaced.
    #[must_use]
    pub fn cut_server_in_silence(self) -> Self {
        Self { act: Act::CutServerInSilence, ..self }
    }

    /// Lets this many matches pass first.
    #[must_use]
    pub fn skip(self, matches: u64) -> Self {
        Self { skip: matches, ..self }
    }

    /// Springs at every match until another fault replaces this one.
    #[must_use]
    pub fn always(self) -> Self {
        self.every(1)
    }

    /// Springs at the first of every `matches` matches until another fault replaces this one.
    ///
    /// # Panics
    /// When `matches` is 0.
    #[must_use]
    pub fn every(self, matches: u64) -> Self {
        assert!(matches > 0, "a trap springs at one of 0 matches");
        Self { every: Some(matches), ..self }
    }

    /// The fault that the link has once the trap has sprung, which is none otherwise.
    #[must_use]
    pub fn then(self, fault: Fault) -> Self {
        Self { then: fault, ..self }
    }

    pub(crate) fn matches(&self, direction: Direction, piece: &[u8]) -> bool {
        let has = |pattern: &Vec<u8>| super::find(piece, pattern).is_some();
        self.direction == direction && self.patterns.iter().any(has)
    }
}

//! Says what a lock decides, for a check that compares a run with the lock's model (`tests/protocol-models`).
//!
//! They are events of `tracing` at the level `TRACE` and under the target `leaselock::protocol`: each costs a look at
//! one number while nobody listens. A command is said when it is sent and when it is answered; the server runs it at some
//! moment between.

/// Says what was decided about a token's hold of a name, with further values.
macro_rules! protocol {
    ($what:literal, $name:expr, $token:expr $(, $field:ident = $value:expr)* $(,)?) => {
        tracing::trace!(
            target: "leaselock::protocol",
            what = $what,
            name = %$name,
            token = $token.as_str()
            $(, $field = $value)*
        )
    };
}

pub(crate) use protocol;

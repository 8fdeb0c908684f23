//! Answers that mean: the server did not run the command.

use redis::{RedisError, ServerError, ServerErrorKind, Value};

use crate::slot::Slot;

/// Why a server did not run a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another server has the slot: `host:port`.
    Moved(String),
    /// Another server has this key of a slot that is moving: `host:port`.
    Ask(String),
    /// The server is a replica: its primary has changed.
    Demoted,
    /// The slot is open, on its way from one server to another: no server has all keys of the command.
    SlotOpen,
    /// No server has the slot now.
    Later,
    /// There is no connection: nothing was sent.
    NotConnected,
}

/// The result of sending a command to one server.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// No connection could be made.
    NotConnected(RedisError),
    /// The command was sent; it may or may not have run.
    Unknown(RedisError),
}

impl Failure {
    pub(crate) fn into_error(self) -> RedisError {
        match self {
            Self::NotConnected(error) | Self::Unknown(error) => error,
        }
    }
}

impl Refusal {
    /// Reads the answer to a command; `None` when it ran, or may have run.
    pub(crate) fn of(answer: &Result<Value, Failure>) -> Option<Self> {
        match answer {
            Ok(value) => Self::of_value(value),
            Err(Failure::NotConnected(_)) => Some(Self::NotConnected),
            Err(Failure::Unknown(_)) => None,
        }
    }

    pub(crate) fn of_value(value: &Value) -> Option<Self> {
        let Value::ServerError(error) = value else { return None };
        let elsewhere = || error.details()?.split(' ').nth(1).map(str::to_owned);
        match error.kind()? {
            ServerErrorKind::Moved => elsewhere().map(Self::Moved),
            ServerErrorKind::Ask => elsewhere().map(Self::Ask),
            ServerErrorKind::ReadOnly => Some(Self::Demoted),
            ServerErrorKind::TryAgain => Some(Self::SlotOpen),
            ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::BusyLoading => Some(Self::Later),
            _ => None,
        }
    }
}

/// Whether the server did not run a command because it does not know it or one of its words, because it has no Lua for
/// a script, or because the account may not use it.
#[must_use]
pub fn is_command_refused(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    match error.code() {
        Some("NOPERM") => true,
        Some("ERR") => {
            let beginnings = ["unknown command", "syntax error", "Could not find scripting engine"];
            beginnings.iter().any(|beginning| detail.starts_with(beginning))
        }
        _ => false,
    }
}

/// The answer to a command on several keys of a slot that stays open.
pub(crate) fn slot_stays_open(slot: Slot) -> Value {
    let why = format!(
        "slot {} is open: it is being moved to another node, or its move was broken off. Until the \
         move has ended, Redis runs no command on several keys of the slot unless one node has all \
         of them. Finish the move, or run redis-cli --cluster fix",
        slot.number()
    );
    server_error("TRYAGAIN", why)
}

/// An answer in the place of one command of a pipeline, whose result is unknown.
pub(crate) fn unknown_in_pipeline(error: &RedisError) -> Value {
    server_error("UNKNOWN", error.to_string())
}

fn server_error(code: &str, detail: String) -> Value {
    let error = redis::make_extension_error(code.to_owned(), Some(detail));
    match ServerError::try_from(error) {
        Ok(error) => Value::ServerError(error),
        Err(_) => Value::Nil,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> Option<Refusal> {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an error");
        Refusal::of_value(&value)
    }

    #[test]
    fn only_answers_of_commands_that_did_not_run_count() {
        let elsewhere = "127.0.0.1:7001".to_owned();
        assert_eq!(refusal("MOVED 12 127.0.0.1:7001"), Some(Refusal::Moved(elsewhere.clone())));
        assert_eq!(refusal("ASK 12 127.0.0.1:7001"), Some(Refusal::Ask(elsewhere)));
        assert_eq!(refusal("READONLY You can't write"), Some(Refusal::Demoted));
        assert_eq!(refusal("TRYAGAIN Multiple keys"), Some(Refusal::SlotOpen));
        for line in ["CLUSTERDOWN Hash slot not served", "LOADING Redis is"] {
            assert_eq!(refusal(line), Some(Refusal::Later), "{line}");
        }
        for line in
            ["ERR no", "NOSCRIPT No", "OOM command", "NOREPLICAS Not", "BUSY Redis", "MISCONF x"]
        {
            assert_eq!(refusal(line), None, "{line}");
        }
        let refused = |line: &str| {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
            is_command_refused(&value.expect("an error").extract_error().expect_err("an error"))
        };
        assert!(refused("ERR unknown command 'DELIFEQ', with args beginning with: 'a' 'b'"));
        assert!(refused("ERR syntax error"));
        assert!(refused("ERR Could not find scripting engine 'lua'"));
        assert!(refused("NOPERM User default has no permissions to run the 'delifeq' command"));
        for line in ["ERR no", "WRONGTYPE Operation", "LOADING Redis is", "OOM command"] {
            assert!(!refused(line), "{line}");
        }
        let failed = |failure| Refusal::of(&Err(failure));
        let io = || RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        assert_eq!(failed(Failure::Unknown(io())), None);
        assert_eq!(failed(Failure::NotConnected(io())), Some(Refusal::NotConnected));
    }
}

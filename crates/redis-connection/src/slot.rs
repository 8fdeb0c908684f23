//! The hash slot of a key, and the key of a command.

use crc::{CRC_16_XMODEM, Crc};
use redis::{Arg, Cmd};

/// Number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// A hash slot of a cluster, below 16,384.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot of a key: CRC16 (XMODEM) of its hash tag, or of the whole key if it has none.
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        Self(CRC.checksum(hash_tag(key).unwrap_or(key)) % SLOTS)
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

/// What stands between the first `{` and the next `}`, unless it is empty.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = &key[open + 1..];
    let length = rest.iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &rest[..length])
}

/// The CRC16 of the servers, with its table of remainders.
static CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The slot of the first key of a command; `None` for a command without keys.
pub(crate) fn slot_of(command: &Cmd) -> Option<Slot> {
    let name = word(command, 0)?;
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    if KEYLESS.iter().any(|other| is(other)) {
        return None;
    }
    let key = if ["EVALSHA", "EVAL", "EVALSHA_RO", "EVAL_RO", "FCALL"].iter().any(|name| is(name)) {
        (word(command, 2)? != b"0").then(|| word(command, 3)).flatten()
    } else if is("XREADGROUP") || is("XREAD") {
        let is_streams = |argument: Arg<&[u8]>| matches!(argument, Arg::Simple(text) if text.eq_ignore_ascii_case(b"STREAMS"));
        let streams = command.args_iter().position(is_streams)?;
        word(command, streams + 1)
    } else if ["XGROUP", "XINFO", "OBJECT", "MEMORY"].iter().any(|name| is(name)) {
        word(command, 2)
    } else {
        word(command, 1)
    };
    key.map(Slot::of)
}

/// Commands whose first argument is not a key. Any server of a cluster takes them.
#[rustfmt::skip]
const KEYLESS: &[&str] = &[
    "ACL", "ASKING", "AUTH", "BGSAVE", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DBSIZE",
    "DEBUG", "DISCARD", "ECHO", "EXEC", "FAILOVER", "FLUSHALL", "FLUSHDB", "FUNCTION", "HELLO",
    "INFO", "KEYS", "LASTSAVE", "LATENCY", "MODULE", "MULTI", "PING", "PUBSUB", "RANDOMKEY",
    "READONLY", "READWRITE", "REPLICAOF", "ROLE", "SAVE", "SCAN", "SCRIPT", "SENTINEL",
    "SHUTDOWN", "SLOWLOG", "SWAPDB", "TIME", "UNWATCH", "WAIT", "WAITAOF",
];

fn word(command: &Cmd, index: usize) -> Option<&[u8]> {
    match command.args_iter().nth(index)? {
        Arg::Simple(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_servers() {
        // The check value of CRC16/XMODEM, and slots as `CLUSTER KEYSLOT` answers them.
        assert_eq!(CRC.checksum(b"123456789"), 0x31C3);
        for (key, slot) in [("foo", 12_182), ("{foo}bar", 12_182), ("somekey", 11_058), ("", 0)] {
            assert_eq!(Slot::of(key.as_bytes()).number(), slot, "{key}");
        }
        // An empty tag is none.
        assert_eq!(Slot::of(b"{}foo").number(), CRC.checksum(b"{}foo") % SLOTS);
        assert_eq!(Slot::of(b"a{b}{c}"), Slot::of(b"b"));
    }

    #[test]
    fn the_key_of_a_command_is_found() {
        let slot = |words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]);
            slot_of(&command)
        };
        let of_k = Some(Slot::of(b"k"));
        for words in [
            &["GET", "k"][..],
            &["evalsha", "hash", "2", "k", "l", "argument"],
            &["XREADGROUP", "GROUP", "g", "me", "COUNT", "1", "STREAMS", "k", ">"],
            &["XGROUP", "CREATE", "k", "g", "0"],
            &["WATCH", "k"],
            &["PUBLISH", "k", "message"],
        ] {
            assert_eq!(slot(words), of_k, "{words:?}");
        }
        for words in
            [&["PING"][..], &["EVAL", "return 1", "0"], &["INFO", "memory"], &["wait", "1", "9"]]
        {
            assert_eq!(slot(words), None, "{words:?}");
        }
    }
}

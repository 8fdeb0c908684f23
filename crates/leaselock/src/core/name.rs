//! Names of locks: checked once, cheap to clone, with the hash tag that chooses the slot of their keys.

use std::fmt;
use std::sync::Arc;

/// The name of a lock: 1 to [`LockName::LEN_MAX_BYTES`] visible ASCII characters, with at most one
/// hash tag in braces.
///
/// In a Redis Cluster all keys with one hash tag are in one slot. To have the lock beside its data,
/// write the tag of the data into the name: `{invoice:12}:write`. A name without a tag is its own
/// tag. Only ASCII is allowed, because two names that look alike but differ in bytes would be two
/// locks.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes.
    pub const LEN_MAX_BYTES: usize = 200;

    /// Checks `name`.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        if name.is_empty() {
            return Err(InvalidName("it is empty"));
        }
        if name.len() > Self::LEN_MAX_BYTES {
            return Err(InvalidName("it is longer than 200 bytes"));
        }
        if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidName("it contains something else than visible ASCII characters"));
        }
        if name.contains(['{', '}']) && tag_of(name).is_none() {
            return Err(InvalidName("its braces are not one hash tag with something in it"));
        }
        Ok(Self(name.into()))
    }

    /// The whole name, as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Joins several names into a group, for a store that grants them in one step. A name contains no
    /// space, so a space separates them. One name is a group by itself.
    pub(crate) fn group(names: &[Self]) -> Self {
        let parts: Vec<&str> = names.iter().map(Self::as_str).collect();
        Self(parts.join(" ").into())
    }

    /// The names of a group: what a store gets from a [`MultiMutex`](crate::MultiMutex) is a group of
    /// names. Any other name is a group of one.
    pub fn parts(&self) -> impl Iterator<Item = Self> {
        self.0.split(' ').map(|part| Self(part.into()))
    }

    /// The text in braces, if the caller gave the name a hash tag.
    pub fn hash_tag(&self) -> Option<&str> {
        tag_of(&self.0)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LockName({})", self.0)
    }
}

/// Why a text cannot be the name of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a lock name: {0}")]
pub struct InvalidName(pub(crate) &'static str);

/// The one non-empty hash tag; `None` if there is none or the braces are not balanced.
fn tag_of(name: &str) -> Option<&str> {
    let (_, after_open) = name.split_once('{')?;
    let (tag, rest) = after_open.split_once('}')?;
    let more_braces = tag.contains('{') || rest.contains(['{', '}']);
    let closed_before = name.find('}') < name.find('{');
    (!tag.is_empty() && !more_braces && !closed_before).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::{InvalidName, LockName};

    #[test]
    fn takes_plain_and_tagged_names() {
        let plain = LockName::new("nightly:report").expect("a plain name");
        assert_eq!(plain.hash_tag(), None);
        let tagged = LockName::new("{invoice:12}:write").expect("a tagged name");
        assert_eq!(tagged.hash_tag(), Some("invoice:12"));
        assert_eq!(tagged.as_str(), "{invoice:12}:write");
        assert!(LockName::new(&"x".repeat(LockName::LEN_MAX_BYTES)).is_ok());
    }

    #[test]
    fn refuses_everything_else() {
        let too_long = "x".repeat(LockName::LEN_MAX_BYTES + 1);
        let refused = [
            "",
            "a b",
            "a\n",
            "a\0",
            "é",
            "a\u{200b}",
            "{",
            "}",
            "{}",
            "a{",
            "a}",
            "}a{",
            "}{a}",
            "{a}{b}",
            "{{a}}",
            "{a}}",
            &too_long,
        ];
        for name in refused {
            let answer: Result<LockName, InvalidName> = LockName::new(name);
            assert!(answer.is_err(), "{name:?} was taken");
        }
    }
}

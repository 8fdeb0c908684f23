//! Names of locks: checked once, cheap to clone, with the hash tag that places their keys.

use std::fmt;
use std::sync::Arc;

/// The name of a lock: 1 to [`LockName::LEN_MAX_BYTES`] visible ASCII characters, with at most one
/// hash tag in braces.
///
/// On a clustered backend everything with the same hash tag lives in one slot, so a caller who
/// wants the lock beside its data writes the data's tag into the name: `{invoice:12}:write`. A name
/// without a tag is its own tag. Only ASCII is taken because two names that look alike but differ
/// in bytes would be two locks.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes.
    pub const LEN_MAX_BYTES: usize = 200;

    /// Checks `name`. The error says what is wrong with it.
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

    /// Several names with one hash tag as one, for a store that grants them in one step. The parts
    /// are those of [`LockName::parts`]: a name contains no space. One name is a group by itself.
    pub(crate) fn group(names: &[Self]) -> Self {
        let parts: Vec<&str> = names.iter().map(Self::as_str).collect();
        Self(parts.join(" ").into())
    }

    /// The names of a group.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Self> {
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

/// Why a text is not a lock's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a lock name: {0}")]
pub struct InvalidName(pub(crate) &'static str);

/// The one non-empty hash tag, or nothing if there is none or the braces make no sense.
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

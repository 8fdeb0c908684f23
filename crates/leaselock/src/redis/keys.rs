//! The keys of names: see the table in [`redis`](super).

use std::sync::Arc;

use crate::{InvalidName, LockName};

/// Where the keys of names are.
#[derive(Clone)]
pub(crate) struct Keys {
    prefix: Arc<str>,
}

impl Keys {
    /// Takes a prefix for all keys. Braces would move the hash tag, so they are refused.
    pub(crate) fn new(prefix: &str) -> Result<Self, InvalidName> {
        if !prefix.is_empty() {
            let checked = LockName::new(prefix)?;
            if checked.hash_tag().is_some() {
                return Err(InvalidName("a key prefix cannot contain a hash tag"));
            }
        }
        Ok(Self { prefix: prefix.into() })
    }

    /// The keys of another kind under the same prefix: kinds never meet in a key.
    pub(crate) fn of_kind(prefix: &str, kind: &str) -> Result<Self, InvalidName> {
        Self::new(&format!("{prefix}{kind}:"))
    }

    /// The key of the hold. A name with a tag and the same name without never meet.
    pub(crate) fn lock(&self, name: &LockName) -> String {
        self.key("lock", name)
    }

    /// Something else about the name, in the same slot.
    pub(crate) fn key(&self, word: &str, name: &LockName) -> String {
        let prefix = &*self.prefix;
        match name.hash_tag() {
            Some(_) => [prefix, word, ":", name.as_str()].concat(),
            None => [prefix, word, "-of:{", name.as_str(), "}"].concat(),
        }
    }

    /// What scripts with a queue work on: the hold, the fence counter and the queue.
    pub(crate) fn all(&self, name: &LockName) -> [String; 3] {
        [self.lock(name), self.fence(name), self.key("queue", name)]
    }

    /// The key of the fence counter, in the same slot.
    pub(crate) fn fence(&self, name: &LockName) -> String {
        [&*self.prefix, "fence:{", tag(name), "}"].concat()
    }
}

/// What chooses the slot of a name's keys. All names of a group have one hash tag.
pub(super) fn tag(name: &LockName) -> &str {
    name.hash_tag().unwrap_or(name.as_str())
}

#[cfg(test)]
mod tests {
    use super::{Keys, LockName};

    #[test]
    fn keys_of_a_name_share_a_slot_and_names_never_share_a_key() {
        let keys = Keys::new("test:").expect("a prefix");
        let name = |text| LockName::new(text).expect("a name");
        let tagged = name("{invoice:12}:write");
        assert_eq!(keys.lock(&tagged), "test:lock:{invoice:12}:write");
        assert_eq!(keys.fence(&tagged), "test:fence:{invoice:12}");
        assert_eq!(keys.lock(&name("a")), "test:lock-of:{a}");
        assert_eq!(keys.lock(&name("{a}")), "test:lock:{a}");
        assert_eq!(keys.fence(&name("a")), "test:fence:{a}");
    }

    #[test]
    fn a_prefix_cannot_move_the_slot() {
        assert!(Keys::new("").is_ok());
        assert!(Keys::new("{tagged}:").is_err());
        assert!(Keys::new("two words").is_err());
    }
}

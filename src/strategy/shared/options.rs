//! The query parameters that refine a lock strategy.

use crate::domain::item::word_enum;

word_enum! {
    /// Which counter a lock guards.
    Store {
        /// The stock row of the ledger.
        Mysql = "mysql",
        /// The item's counter in Redis.
        Redis = "redis",
    }
}

word_enum! {
    /// What a lock is taken on, from coarse to fine.
    Scope {
        /// One lock for everything on sale.
        Market = "market",
        /// One lock per item.
        Item = "item",
        /// One lock per buyer, tried without waiting; the stock is left to the arbiter.
        User = "user",
        /// The buyer's lock without waiting, then the item's: the main shape.
        ItemUser = "item-user",
    }
}

/// The refinements of a lock strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which counter it guards.
    pub store: Store,
    /// What it locks.
    pub scope: Scope,
}

impl Default for Options {
    fn default() -> Self {
        Self { store: Store::Mysql, scope: Scope::ItemUser }
    }
}

/// A parameter that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(pub String);

impl Options {
    /// Reads the parameters of a query.
    ///
    /// # Errors
    /// Names the parameter that is unknown, repeated or has no such value.
    pub fn read<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, OptionsError> {
        let (mut store, mut scope) = (None, None);
        for (name, value) in pairs {
            match name {
                "store" => {
                    set(
                        &mut store,
                        name,
                        value,
                        Store::parse,
                        Store::ALL.iter().map(|s| s.word()),
                    )?;
                }
                "scope" => {
                    set(
                        &mut scope,
                        name,
                        value,
                        Scope::parse,
                        Scope::ALL.iter().map(|s| s.word()),
                    )?;
                }
                _ => return Err(OptionsError("the parameters are store and scope".to_owned())),
            }
        }
        let default = Self::default();
        Ok(Self { store: store.unwrap_or(default.store), scope: scope.unwrap_or(default.scope) })
    }

    /// Whether these are the defaults.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn set<T>(
    slot: &mut Option<T>,
    name: &str,
    value: &str,
    parse: fn(&str) -> Option<T>,
    words: impl Iterator<Item = &'static str>,
) -> Result<(), OptionsError> {
    let words = words.collect::<Vec<_>>().join(", ");
    let parsed = parse(value).ok_or_else(|| OptionsError(format!("{name} is one of {words}")))?;
    match slot.replace(parsed) {
        None => Ok(()),
        Some(_) => Err(OptionsError(format!("{name} stands there twice"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_once_and_by_word() {
        let options =
            Options::read([("store", "redis"), ("scope", "market")]).expect("known words");
        assert_eq!(options, Options { store: Store::Redis, scope: Scope::Market });
        assert!(Options::read([]).expect("none is fine").is_default());
        for bad in [("store", "disk"), ("scope", ""), ("colour", "red")] {
            assert!(Options::read([bad]).is_err(), "{bad:?}");
        }
        assert!(Options::read([("store", "redis"), ("store", "redis")]).is_err());
    }
}

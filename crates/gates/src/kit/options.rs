//! The query parameters that refine a lock strategy.

use tokio::time::Instant;

use leaselock::{Wait, WaitStrategy};
use shop_domain::item::word_enum;

word_enum! {
    /// The counter that a lock guards.
    Store {
        /// The stock row of the ledger.
        Mysql = "mysql",
        /// The item's counter in Redis.
        Redis = "redis",
    }
}

word_enum! {
    /// The scope of a lock, from coarse to fine.
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

word_enum! {
    /// The way in which a request waits for a lock. All but the first are for comparison: they
    /// switch off the queue inside the process, so that each request contends for itself.
    WaitFor {
        /// In a queue; its head is notified of the release, if the kind of lock can notify.
        Notify = "notify",
        /// Try again after growing, jittered pauses.
        Backoff = "backoff",
        /// Try again at once for 600 ms, then yield.
        SpinThenYield = "spin-then-yield",
        /// Yield for 600 ms, then sleep 200 ms.
        YieldThenSleep = "yield-then-sleep",
        /// Sleep 200 ms.
        Sleep200 = "sleep-200",
        /// Sleep 2 s.
        Sleep2000 = "sleep-2000",
        /// Yield.
        Yield = "yield",
    }
}

impl WaitFor {
    /// Translates the way of waiting into the locks' own type.
    pub fn until(self, deadline: Instant) -> Wait {
        let contend = |strategy| Wait::Contend { until: deadline, strategy };
        match self {
            Self::Notify => Wait::Until(deadline),
            Self::Backoff => contend(WaitStrategy::Backoff),
            Self::SpinThenYield => contend(WaitStrategy::SpinThenYield),
            Self::YieldThenSleep => contend(WaitStrategy::YieldThenSleep),
            Self::Sleep200 => contend(WaitStrategy::Sleep200),
            Self::Sleep2000 => contend(WaitStrategy::Sleep2000),
            Self::Yield => contend(WaitStrategy::Yield),
        }
    }
}

/// The refinements of a lock strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The counter that it guards.
    pub store: Store,
    /// Its scope; the strategy's own choice if it is left out.
    pub scope: Option<Scope>,
    /// The way in which a request waits for it.
    pub wait: WaitFor,
}

impl Default for Options {
    fn default() -> Self {
        Self { store: Store::Mysql, scope: None, wait: WaitFor::Notify }
    }
}

/// Error: an unknown parameter or value.
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
        let mut options = Self::default();
        let mut given = Vec::new();
        for (name, value) in pairs {
            match name {
                "store" => options.store = word(name, value, Store::parse, Store::WORDS)?,
                "scope" => options.scope = Some(word(name, value, Scope::parse, Scope::WORDS)?),
                "wait" => options.wait = word(name, value, WaitFor::parse, WaitFor::WORDS)?,
                _ => {
                    let why = "the parameters are store, scope and wait";
                    return Err(OptionsError(why.to_owned()));
                }
            }
            if given.contains(&name) {
                return Err(OptionsError(format!("{name} is given twice")));
            }
            given.push(name);
        }
        Ok(options)
    }

    /// Whether a buyer may choose these on an item of the shop. How a request waits and what it locks decide how many
    /// commands it makes, so on a real sale the service chooses both.
    pub fn fit_shop_items(&self) -> bool {
        self.scope.is_none() && self.wait == WaitFor::Notify
    }

    /// Whether these are the defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn word<T>(
    name: &str,
    value: &str,
    parse: fn(&str) -> Option<T>,
    words: &[&str],
) -> Result<T, OptionsError> {
    parse(value).ok_or_else(|| OptionsError(format!("{name} is one of {}", words.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_once_and_by_word() {
        let options =
            Options::read([("store", "redis"), ("scope", "market")]).expect("known words");
        assert_eq!((options.store, options.scope), (Store::Redis, Some(Scope::Market)));
        let sleeping = Options::read([("wait", "sleep-200")]).expect("a known option");
        assert_eq!(sleeping.wait, WaitFor::Sleep200);
        assert!(Options::read([]).expect("none is fine").is_default());
        for bad in [("store", "disk"), ("scope", ""), ("wait", "long"), ("colour", "red")] {
            assert!(Options::read([bad]).is_err(), "{bad:?}");
        }
        assert!(Options::read([("store", "redis"), ("store", "redis")]).is_err());
    }
}

//! THE LIST, built for one service.

use std::sync::Arc;

use crate::{BuildError, Card, Entry, LIST, Strategy, StrategyContext};

/// The strategies of a running service, by name.
pub struct Strategies {
    built: Vec<BuiltStrategy>,
}

/// A strategy of the list in a running service.
pub struct BuiltStrategy {
    /// Its description.
    pub card: &'static Card,
    /// The strategy itself; `None` when its servers are not configured.
    pub strategy: Option<Arc<dyn Strategy>>,
}

impl Strategies {
    /// Builds every strategy on the list.
    ///
    /// # Errors
    /// A sentence for the operator when a setting cannot be used.
    pub fn new(context: &StrategyContext) -> Result<Self, String> {
        let build = |entry: &Entry| match (entry.build)(context) {
            Ok(strategy) => Ok(BuiltStrategy { card: entry.card, strategy: Some(strategy) }),
            Err(BuildError::NotConfigured) => {
                Ok(BuiltStrategy { card: entry.card, strategy: None })
            }
            Err(BuildError::Unusable(why)) => Err(why),
        };
        Ok(Self { built: LIST.iter().map(build).collect::<Result<_, _>>()? })
    }

    /// Finds a strategy of the list.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&BuiltStrategy> {
        self.built.iter().find(|built| built.card.name == name)
    }

    /// Every card, with whether the strategy is available here.
    pub fn cards(&self) -> impl Iterator<Item = (&'static Card, bool)> {
        self.built.iter().map(|built| (built.card, built.strategy.is_some()))
    }

    /// The locks of all strategies, each once.
    #[must_use]
    pub fn locks(&self) -> Vec<Arc<dyn leaselock::Mutex>> {
        let mut locks: Vec<Arc<dyn leaselock::Mutex>> = Vec::new();
        let strategies = self.built.iter().filter_map(|built| built.strategy.as_ref());
        for mutex in strategies.flat_map(|strategy| strategy.locks()) {
            if !locks.iter().any(|known| Arc::ptr_eq(known, &mutex)) {
                locks.push(mutex);
            }
        }
        locks
    }
}

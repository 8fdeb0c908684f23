//! THE LIST, built for one service.

use std::sync::Arc;

use crate::strategy::{Card, Gear, LIST, Strategy};

/// The strategies of a running service, by name.
pub struct Strategies {
    built: Vec<(&'static Card, Option<Arc<dyn Strategy>>)>,
}

impl Strategies {
    /// Builds every strategy on the list.
    #[must_use]
    pub fn new(gear: &Gear) -> Self {
        Self { built: LIST.iter().map(|entry| (entry.card, (entry.build)(gear))).collect() }
    }

    /// Finds a strategy: its card, and itself if its servers are configured.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(&'static Card, Option<&dyn Strategy>)> {
        let (card, strategy) = self.built.iter().find(|(card, _)| card.name == name)?;
        Some((card, strategy.as_deref()))
    }

    /// Every card, with whether the strategy is available here.
    pub fn cards(&self) -> impl Iterator<Item = (&'static Card, bool)> {
        self.built.iter().map(|(card, strategy)| (*card, strategy.is_some()))
    }
}

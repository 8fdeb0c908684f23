//! The description of a strategy: one line of the list, as data.

use super::options::{Options, Scope};
use ledger_audit::Breaks;
use shop_domain::outcome::Dependency;

/// The description of a strategy, as data that pages, documents and tests read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its name in the route.
    pub name: &'static str,
    /// The family: `lock`, `sql`, `batch`, `cas`, `script`, `queue`, `watch`, `mutex`, `naive`.
    pub family: &'static str,
    /// The store of the counter that it decides by: `mysql`, `redis` or `memory`.
    pub store: &'static str,
    /// Whether the gate alone, with the arbiter off and several instances, never oversells.
    pub safe: bool,
    /// The number of instances that breaks the gate; `Never` exactly when it is safe.
    pub breaks_with: Breaks,
    /// Its way of deciding, in one sentence.
    pub summary: &'static str,
    /// The fault that breaks it, in one sentence.
    pub breaks_when: &'static str,
    /// The servers that it needs beside MySQL.
    pub needs: &'static [Dependency],
    /// Whether an accepted answer means a durable order.
    pub durable_before_reply: bool,
    /// Its source: the article `S0` to `S4`, or `ours`.
    pub source: &'static str,
    /// Whether it takes the options of [`Options`].
    pub takes_options: bool,
}

impl Card {
    /// The number of instances that breaks the gate of the strategy with these options: a lock on
    /// the buyer alone leaves the stock to the arbiter.
    #[must_use]
    pub fn breaks_with_options(&self, options: &Options) -> Breaks {
        if options.scope == Some(Scope::User) { Breaks::Alone } else { self.breaks_with }
    }
}

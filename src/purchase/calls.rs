//! A purchase as calls of the servers that its strategy needs, for their breakers.

use crate::domain::outcome::Dependency;
use crate::domain::{Doubt, Outcome, Unavailable};
use crate::store::breaker::{Breakers, Call};
use crate::strategy::Card;

/// The calls that one purchase stands for.
pub struct Calls {
    /// The ledger's is not probed by purchases: reading an item does that.
    mysql: Call,
    /// That of the server that the gate needs beside the ledger.
    gate: Option<Call>,
}

impl Calls {
    /// Begins the calls of a strategy.
    ///
    /// # Errors
    /// The outcome when a server that it needs is known not to answer.
    pub fn begin(breakers: &Breakers, card: &Card) -> Result<Self, Outcome> {
        let refused = |dependency| Outcome::Unavailable(Unavailable::Dependency(dependency));
        let mysql = breakers.mysql.enter_closed().ok_or_else(|| refused(Dependency::Mysql))?;
        let needed = |dependency: &Dependency| card.needs.contains(&dependency.name());
        let gate = match Dependency::ALL.into_iter().find(needed) {
            Some(needed) => Some(breakers.of(needed).enter().ok_or_else(|| refused(needed))?),
            None => None,
        };
        Ok(Self { mysql, gate })
    }

    /// Tells the breakers what the outcome says about their servers; often nothing. A server fails
    /// when it does not answer. That a purchase waited for its item, or was not over in time, is
    /// nothing against any.
    pub fn ended(self, outcome: &Outcome) {
        match outcome {
            Outcome::Unavailable(Unavailable::Dependency(dependency))
            | Outcome::Unknown(Doubt::Unanswered(dependency)) => self.failed(*dependency),
            Outcome::Sold(_) | Outcome::Replayed(_) => {
                self.mysql.answered();
                self.gate.into_iter().for_each(Call::answered);
            }
            // The ledger has not been asked yet.
            Outcome::Queued(_) => self.gate.into_iter().for_each(Call::answered),
            Outcome::Refused(refusal) if refusal.is_by_the_ledger() => {
                self.mysql.answered();
                self.gate.into_iter().for_each(Call::answered);
            }
            Outcome::Refused(_) | Outcome::Unavailable(_) | Outcome::Unknown(_) => {}
        }
    }

    fn failed(self, dependency: Dependency) {
        match dependency {
            Dependency::Mysql => self.mysql.failed(),
            other => self
                .gate
                .into_iter()
                .filter(|call| call.dependency() == other)
                .for_each(Call::failed),
        }
    }
}

//! A purchase as calls of the servers that its strategy needs, for their breakers.

use crate::domain::outcome::Dependency;
use crate::domain::{Outcome, Unavailable};
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

    /// Tells the breakers what the outcome says about their servers; often nothing.
    pub fn ended(self, outcome: &Outcome) {
        match outcome {
            // A write that is not answered in time, or a ledger that is not.
            Outcome::Unavailable(Unavailable::Dependency(Dependency::Mysql)) | Outcome::Unknown => {
                self.mysql.failed();
            }
            Outcome::Unavailable(Unavailable::Dependency(dependency)) => {
                self.gate
                    .into_iter()
                    .filter(|call| call.dependency() == *dependency)
                    .for_each(Call::failed);
            }
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
            Outcome::Refused(_) | Outcome::Unavailable(_) => {}
        }
    }
}

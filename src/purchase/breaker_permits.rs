//! Circuit-breaker permits held by one purchase, one for each server that its strategy needs.

use gates::Card;
use ledger::route::breaker::{BreakerPermit, Breakers};
use shop_domain::outcome::Dependency;
use shop_domain::{Doubt, Outcome, Unavailable};

/// The permits of one purchase.
pub struct BreakerPermits {
    /// The permit of the ledger. Purchases are never its probe: reading an item is.
    mysql: BreakerPermit,
    /// The permit of the server that the gate needs beside the ledger.
    gate: Option<BreakerPermit>,
}

impl BreakerPermits {
    /// Asks the breakers of the servers that a strategy needs.
    ///
    /// # Errors
    /// The outcome when one of the servers is known not to answer.
    pub fn acquire(breakers: &Breakers, card: &Card) -> Result<Self, Outcome> {
        let refused = |dependency| Outcome::Unavailable(Unavailable::Dependency(dependency));
        let mysql = breakers.mysql.enter_closed().ok_or_else(|| refused(Dependency::Mysql))?;
        let gate = match card.needs.first() {
            Some(&needed) => Some(breakers.of(needed).enter().ok_or_else(|| refused(needed))?),
            None => None,
        };
        Ok(Self { mysql, gate })
    }

    /// Reports the outcome to the breakers. A server fails when it does not answer; a purchase that
    /// waited for its item, or was not over in time, is counted for no server.
    pub fn ended(self, outcome: &Outcome) {
        match outcome {
            Outcome::Unavailable(Unavailable::Dependency(dependency))
            | Outcome::Unknown(Doubt::Unanswered(dependency)) => self.failed(*dependency),
            Outcome::Sold(_) | Outcome::Replayed(_) => {
                self.mysql.answered();
                self.gate.into_iter().for_each(BreakerPermit::answered);
            }
            // The ledger has not been asked yet.
            Outcome::Queued(_) => self.gate.into_iter().for_each(BreakerPermit::answered),
            Outcome::Refused(refusal) if refusal.is_by_the_ledger() => {
                self.mysql.answered();
                self.gate.into_iter().for_each(BreakerPermit::answered);
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
                .filter(|permit| permit.dependency() == other)
                .for_each(BreakerPermit::failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gates::LIST;
    use ledger::route::breaker::CALLS_MIN;
    use shop_domain::Refusal;
    use shop_metrics::Metrics;

    /// The breakers that are open after many purchases with this outcome.
    fn opened_by(outcome: &Outcome) -> Vec<Dependency> {
        let breakers = Breakers::new(&Metrics::new());
        let entry = LIST.iter().find(|entry| entry.card.name == "redis-lua").expect("a strategy");
        for _ in 0..CALLS_MIN {
            let permits = BreakerPermits::acquire(&breakers, entry.card);
            permits.unwrap_or_else(|refused| panic!("it opened early: {refused:?}")).ended(outcome);
        }
        Dependency::ALL.into_iter().filter(|&server| breakers.of(server).is_open()).collect()
    }

    #[test]
    fn a_server_is_blamed_only_when_it_did_not_answer() {
        for server in [Dependency::Mysql, Dependency::Redis] {
            let unanswered = Outcome::Unknown(Doubt::Unanswered(server));
            assert_eq!(opened_by(&unanswered), [server]);
            let away = Outcome::Unavailable(Unavailable::Dependency(server));
            assert_eq!(opened_by(&away), [server]);
        }
        for uncounted in [
            Outcome::Unknown(Doubt::StillRunning),
            Outcome::Unknown(Doubt::InProgress),
            Outcome::Unknown(Doubt::BrokenOff),
            Outcome::Unknown(Doubt::TooFewReplicas),
            Outcome::Unavailable(Unavailable::Faulty(Dependency::Redis)),
            Outcome::Unavailable(Unavailable::Contended),
            Outcome::Unavailable(Unavailable::Overloaded),
            Outcome::Unavailable(Unavailable::ReadOnly),
            Outcome::Refused(Refusal::SoldOut { asked_at: None }),
            Outcome::Refused(Refusal::RequestInProgress),
            // The gate needs another server.
            Outcome::Unknown(Doubt::Unanswered(Dependency::Etcd)),
        ] {
            assert_eq!(opened_by(&uncounted), [], "{uncounted:?}");
        }
    }
}

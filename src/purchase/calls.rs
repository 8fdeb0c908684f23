//! A purchase as calls of the servers that its strategy needs, for their breakers.

use crate::domain::outcome::Dependency;
use crate::domain::{Outcome, Unavailable};
use crate::store::breaker::{Breakers, Call};
use crate::strategy::Card;

/// The calls that one purchase stands for.
pub struct Calls {
    /// The ledger's is not probed by purchases: reading an item does that.
    mysql: Call,
    redis: Option<Call>,
}

impl Calls {
    /// Begins the calls of a strategy.
    ///
    /// # Errors
    /// The outcome when a server that it needs is known not to answer.
    pub fn begin(breakers: &Breakers, card: &Card) -> Result<Self, Outcome> {
        let refused = |dependency| Outcome::Unavailable(Unavailable::Dependency(dependency));
        let mysql = (!breakers.mysql.is_open()).then(|| breakers.mysql.enter()).flatten();
        let mysql = mysql.ok_or_else(|| refused(Dependency::Mysql))?;
        let needs_redis = card.needs.contains(&Dependency::Redis.name());
        let redis = if needs_redis {
            Some(breakers.redis.enter().ok_or_else(|| refused(Dependency::Redis))?)
        } else {
            None
        };
        Ok(Self { mysql, redis })
    }

    /// Tells the breakers what the outcome says about their servers; often nothing.
    pub fn ended(self, outcome: &Outcome) {
        match outcome {
            Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis)) => {
                self.redis.into_iter().for_each(Call::failed);
            }
            // A write that is not answered in time, or a ledger that is not.
            Outcome::Unavailable(Unavailable::Dependency(Dependency::Mysql)) | Outcome::Unknown => {
                self.mysql.failed();
            }
            Outcome::Sold(_) | Outcome::Replayed(_) => {
                self.mysql.answered();
                self.redis.into_iter().for_each(Call::answered);
            }
            // The ledger has not been asked yet.
            Outcome::Queued(_) => self.redis.into_iter().for_each(Call::answered),
            Outcome::Refused(refusal) if refusal.is_by_the_ledger() => {
                self.mysql.answered();
                self.redis.into_iter().for_each(Call::answered);
            }
            Outcome::Refused(_) | Outcome::Unavailable(_) => {}
        }
    }
}

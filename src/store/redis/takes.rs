//! Taking from an item's counter in one script, once per request.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::counters::{CounterError, Counters, READ_ATTEMPTS_MAX};
use crate::domain::{ItemId, Purchase};

/// How long it is remembered which requests took, after the last one. A retry that comes later
/// takes again, and the ledger finds its order by the key.
const REMEMBERED: Duration = Duration::from_secs(600);

static TAKE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_take_once.lua")));
static UNTAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("counter_untake.lua")));

/// What a request got from the counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// Its units; they can be given back.
    First(Taken),
    /// An earlier try of the same request has them already.
    Again,
    /// Too few are left.
    NothingLeft,
}

/// Units that a request took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    item: ItemId,
    epoch: u64,
    units: i64,
    request: String,
}

impl Counters {
    /// Takes the purchase's units in one step, loading the counter first if need be.
    ///
    /// # Errors
    /// See [`CounterError`]; after an error of Redis the units may be taken, and a retry of the
    /// same request gets them.
    pub async fn take_once(&self, purchase: &Purchase) -> Result<Take, CounterError> {
        let (item, units) = (purchase.item.id, purchase.quantity.signed());
        for _ in 0..READ_ATTEMPTS_MAX {
            let epoch = self.epoch(item).await?;
            // Another load knows nothing of what was taken before it; another quantity is another
            // request.
            let request = format!("{epoch}:{units}:{}:{}", purchase.buyer, purchase.key.as_str());
            let mut call = TAKE.key(self.key(item));
            call.key(self.takes_key(item)).arg(epoch).arg(units).arg(&request);
            call.arg(u64::try_from(REMEMBERED.as_millis()).unwrap_or(u64::MAX));
            let answer: i64 = call.invoke_async(&mut self.redis.shared()).await?;
            match answer {
                0 => return Ok(Take::NothingLeft),
                1 => {
                    failpoint!("counter-taken");
                    return Ok(Take::First(Taken { item, epoch, units, request }));
                }
                2 => return Ok(Take::Again),
                // Emptied, older, or loaded again by another instance: ask the ledger which.
                _ => self.forget_epoch(item).await,
            }
        }
        Err(CounterError::Loading)
    }

    /// Gives back what was taken and not sold, unless another try of the request counts on it.
    /// Best effort: what is missed here is found by the reconciliation.
    pub async fn untake(&self, taken: &Taken) {
        let mut call = UNTAKE.key(self.key(taken.item));
        call.key(self.takes_key(taken.item)).arg(taken.epoch).arg(taken.units).arg(&taken.request);
        let given: Result<u8, _> = call.invoke_async(&mut self.redis.shared()).await;
        self.count_given_back(taken.item, taken.units, given);
    }

    fn takes_key(&self, item: ItemId) -> String {
        format!("{}{{item:{item}}}:takes", self.redis.prefix())
    }
}

//! Takes units from an item's counter in one script, once per request.

use std::sync::LazyLock;

use redis_connection::Script;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::REMEMBERED_MS;
use super::counters::{CounterError, Counters, READ_ATTEMPTS_MAX};
use shop_domain::{ItemId, Purchase, UserId};

static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("remember.lua"), include_str!("counter_take_once.lua")))
});
static UNTAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("counter_untake.lua")));

/// The result of taking units from the counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// The units were taken, and can be given back.
    First(TakeReceipt),
    /// An earlier try of the same request has taken the units already.
    Again,
    /// Too few units are left.
    NothingLeft,
    /// The buyer would have more than the item's limit.
    Limit,
    /// The sale has not started by the server's clock.
    NotStarted,
    /// The sale is over by the server's clock.
    Ended,
}

/// Units that a request took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeReceipt {
    item: ItemId,
    buyer: UserId,
    epoch: u64,
    units: i64,
    request: String,
}

impl Counters {
    /// Takes the purchase's units in one step, if the sale is open and the buyer's limit allows it,
    /// loading the counter first if need be; a load is waited for until `until`.
    ///
    /// # Errors
    /// See [`CounterError`]; after an error of Redis the units may be taken, and a retry of the
    /// same request gets them.
    pub async fn take_once(
        &self,
        purchase: &Purchase,
        until: Instant,
    ) -> Result<Take, CounterError> {
        let item = purchase.item.id;
        let units = purchase.quantity.signed();
        let buyer = purchase.buyer;
        let window = &purchase.item.window;
        let us = |instant: OffsetDateTime| (instant.unix_timestamp_nanos() / 1_000).to_string();
        for _ in 0..READ_ATTEMPTS_MAX {
            let epoch = self.epoch(item, until).await?;
            // The take belongs to one load of the counter and to one quantity: under another of
            // either it is another request.
            let request = format!("{epoch}:{units}:{buyer}:{}", purchase.key.as_str());
            let mut call = TAKE.key(self.key(item));
            call.key(self.redis.item_key(item, "takes"));
            call.key(self.redis.item_key(item, "takes-before"));
            call.arg(epoch).arg(units).arg(&request).arg(REMEMBERED_MS);
            call.arg(buyer.get()).arg(purchase.item.per_buyer_limit);
            call.arg(us(window.starts_at())).arg(us(window.ends_at()));
            let answer: String = call.invoke_async(&mut self.redis.shared()).await?;
            match &*answer {
                "taken" => {
                    failpoint!("counter-taken");
                    return Ok(Take::First(TakeReceipt { item, buyer, epoch, units, request }));
                }
                "again" => return Ok(Take::Again),
                "nothing_left" => return Ok(Take::NothingLeft),
                "limit" => return Ok(Take::Limit),
                "not_started" => return Ok(Take::NotStarted),
                "ended" => return Ok(Take::Ended),
                // Emptied, older, or loaded again by another instance: read the ledger's epoch.
                _ => self.forget_epoch(item),
            }
        }
        Err(CounterError::Loading)
    }

    /// Gives back units that were taken and not sold, unless another try of the request uses them.
    /// Best effort: the reconciliation finds missed units.
    pub async fn untake(&self, taken: &TakeReceipt) {
        let mut call = UNTAKE.key(self.key(taken.item));
        call.key(self.redis.item_key(taken.item, "takes"));
        call.key(self.redis.item_key(taken.item, "takes-before"));
        call.arg(taken.epoch).arg(taken.units).arg(&taken.request).arg(taken.buyer.get());
        let given = call.invoke_async(&mut self.redis.shared()).await;
        self.count_given_back(taken.item, taken.units, &given);
    }
}

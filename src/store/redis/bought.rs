//! What buyers have of an item, beside its counter: for gates that judge the limit in Redis.
//!
//! The figures are fields of the counter, so that one command reads or writes both. They are loaded
//! with it and given back with the units. Only gates that judge the limit count up, so a figure may
//! be too low: the arbiter refuses what it lets through. One that is too high is lowered to the
//! ledger's when it would refuse somebody.

use std::sync::LazyLock;

use redis::Script;

use super::counters::{CounterError, Counters};
use crate::domain::{ItemId, UserId};
use crate::store::mysql::buyers;

/// Buyers that one command loads.
const LOADED_TOGETHER_MAX: usize = 500;

static LOAD: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_load_buyers.lua")));
static FOLLOW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("counter_follow.lua")));
static LOWER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_lower_bought.lua")));

impl Counters {
    /// Tells the counter of orders whose units came back (negative: were taken again), each with
    /// its buyer, if it is loaded. Best effort: what is missed here is found by the
    /// reconciliation, and where it would refuse a buyer.
    pub async fn follow_orders(&self, item: ItemId, returned: &[(UserId, i64)]) {
        let Ok(Some(counter)) = self.peek(item).await else { return };
        let mut call = FOLLOW.key(self.key(item));
        call.arg(counter.epoch);
        for (buyer, units) in returned {
            call.arg(buyer.get()).arg(*units);
        }
        let told = call.invoke_async(&mut self.redis.shared()).await;
        self.count_given_back(item, returned.iter().map(|(_, units)| units).sum(), told);
    }

    /// Lowers what a buyer has to what the ledger says, if it is above that.
    ///
    /// # Errors
    /// Redis'.
    pub async fn lower_bought(
        &self,
        item: ItemId,
        buyer: UserId,
        ledger: i64,
    ) -> Result<(), CounterError> {
        let mut call = LOWER.key(self.key(item));
        call.arg(buyer.get()).arg(ledger);
        let _: u8 = call.invoke_async(&mut self.redis.shared()).await?;
        Ok(())
    }

    /// Writes the ledger's figures for the load of `epoch`, which comes after them.
    pub(super) async fn load_bought(&self, item: ItemId, epoch: u64) -> Result<(), CounterError> {
        let all = buyers::holding(&self.pool, item).await?;
        let parts = all.chunks(LOADED_TOGETHER_MAX);
        // Also nobody has to be written: it forgets the load before.
        let nobody: &[_] = &[];
        for (number, part) in parts.chain(all.is_empty().then_some(nobody)).enumerate() {
            let mut call = LOAD.key(self.key(item));
            call.arg(epoch).arg(u8::from(number == 0));
            for (buyer, units) in part {
                call.arg(buyer.get()).arg(*units);
            }
            let _: u8 = call.invoke_async(&mut self.redis.shared()).await?;
        }
        Ok(())
    }
}

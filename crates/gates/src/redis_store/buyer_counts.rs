//! The units of each buyer of an item, kept beside its counter: for gates that check the limit in
//! Redis.
//!
//! The figures are fields of the counter, so that one command reads or writes both. They are loaded
//! with it and given back with the units. Only gates that check the limit count up, so a figure may
//! be too low: then the arbiter refuses. A figure that is too high is lowered to the ledger's
//! before it refuses a buyer.

use std::sync::LazyLock;

use redis_connection::Script;

use super::counters::{CounterError, Counters, note_given_back};
use shop_domain::{ItemId, UserId};

/// Buyers that one command loads.
const LOADED_TOGETHER_MAX: usize = 500;

static LOAD: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_load_buyers.lua")));
static APPLY_DELTA: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_apply_delta.lua")));
static LOWER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_lower_buyer_count.lua")));

impl Counters {
    /// Adds units that came back to the stock (negative: taken again) or a restock to a loaded counter, and
    /// takes the returned units of orders from the buyers' counts. The two differ when units were offered
    /// to buyers who wait. `version` is that of the item's stock after the change: a counter loaded at
    /// this version or later has the change already. Best effort: the reconciliation finds a missed
    /// change, as does a gate that would refuse a buyer for it.
    pub async fn apply_delta(
        &self,
        item: ItemId,
        (version, units): (u64, i64),
        returned: &[(UserId, i64)],
    ) {
        let mut call = APPLY_DELTA.key(self.key(item));
        call.arg(version).arg(units);
        for (buyer, units) in returned {
            call.arg(buyer.get()).arg(*units);
        }
        note_given_back(item, &call.invoke_async(&mut self.redis.shared()).await);
    }

    /// Lowers a buyer's count to the ledger's, if it is higher.
    pub async fn lower_buyer_count(
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

    /// Writes the counts of all buyers for the load of `epoch`, before its units.
    pub(super) async fn load_buyer_counts(
        &self,
        item: ItemId,
        epoch: u64,
        all: &[(UserId, i64)],
    ) -> Result<(), CounterError> {
        for part in all.chunks(LOADED_TOGETHER_MAX) {
            let mut call = LOAD.key(self.key(item));
            call.arg(epoch);
            for (buyer, units) in part {
                call.arg(buyer.get()).arg(*units);
            }
            let written: u8 = call.invoke_async(&mut self.redis.shared()).await?;
            if written == 0 {
                // A later load has begun, so this one writes nothing more.
                break;
            }
        }
        Ok(())
    }
}

//! `redis-watch`: WATCH / MULTI / EXEC on the item's counter, with bounded retries.
//!
//! # How it works
//! On a connection of its own: WATCH the counter, read it, and write the computed number in
//! MULTI / EXEC. EXEC does nothing when anybody touched the counter since WATCH: then it starts
//! again after a jittered pause. What got through is written by the arbiter; what the arbiter
//! refuses is given back.
//!
//! # What can go wrong
//! * On a shared connection another task's EXEC would end our WATCH: hence one connection each,
//!   and a weak machine runs out of them.
//! * Optimism collapses under load: of N buyers that watch one counter, one succeeds. So only a few
//!   buyers of an item try at once in a process, and the others wait before they watch.
//! * When Redis loses its data the counter comes back from the ledger; only the arbiter then
//!   stands between the units in flight and a second sale.
//!
//! # When to use it
//! To see the collapse. A script does the same in one step.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::RedisResult;
use tokio::time::{Instant, timeout_at};

use super::kit::item_turns::ItemTurns;
use super::kit::steps;
use super::{Breaks, Card, Decision, Entry, Options, Strategy, StrategyContext, WaitingBuyer};
use crate::redis_store::CounterError;
use shop_domain::{ItemId, Outcome, Purchase, Unavailable};

/// Tries of one purchase.
const TRIES_MAX: u32 = 1_000;
/// Purchases of one item that try at once in this process.
const TRYING_MAX: usize = 4;
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(10);

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "redis-watch",
        family: "watch",
        breaks_with: Breaks::Never,
        summary: "WATCH the counter, compute, write it in MULTI / EXEC; losers try again.",
        breaks_when: "Redis loses the counter; and under load most tries are wasted.",
        source: "S0, S4",
        ..Card::REDIS
    },
    build: |context| {
        let turns = ItemTurns::new(TRYING_MAX);
        Ok(Arc::new(RedisWatch { context: context.clone(), turns }))
    },
};

struct RedisWatch {
    context: StrategyContext,
    turns: ItemTurns,
}

/// The result of one try at the counter.
enum Try {
    Taken { epoch: u64 },
    NothingLeft,
    Touched,
}

#[async_trait]
impl Strategy for RedisWatch {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        let item = purchase.item.id;
        let units = purchase.quantity.signed();
        let deadline = buyer.deadline;
        for _ in 0..TRIES_MAX {
            let Some(turn) = self.turns.wait(item, deadline).await else { break };
            let tried = self.take(item, units, deadline).await;
            drop(turn);
            // After an error the counter may be lower, but no order was written.
            match tried? {
                Try::Taken { epoch } => {
                    return Ok(steps::write_taken(&self.context, &purchase, epoch, buyer).await);
                }
                Try::NothingLeft => steps::sold_out(&self.context, &purchase, deadline).await?,
                Try::Touched => steps::pause(deadline, PAUSE_MAX).await?,
            }
        }
        Ok(Outcome::Unavailable(Unavailable::Contended))
    }
}

impl RedisWatch {
    async fn take(&self, item: ItemId, units: i64, deadline: Instant) -> Result<Try, CounterError> {
        let key = self.context.counters.key(item);
        let watched = timeout_at(deadline, self.context.redis.watch(&key)).await;
        let mut own = watched.map_err(|_| CounterError::Loading)??;
        let counters = &self.context.counters;
        let seen = counters.read_on(&mut own.connection, item, deadline).await?;
        if seen.available < units {
            redis::cmd("UNWATCH").exec_async(&mut own.connection).await?;
            own.keep();
            return Ok(Try::NothingLeft);
        }
        let mut transaction = redis::pipe();
        transaction.atomic().hset(&key, "available", seen.available - units).ignore();
        let done: RedisResult<Option<()>> = transaction.query_async(&mut own.connection).await;
        let taken = done?.is_some();
        own.keep();
        Ok(if taken { Try::Taken { epoch: seen.epoch } } else { Try::Touched })
    }
}

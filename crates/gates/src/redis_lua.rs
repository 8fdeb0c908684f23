//! `redis-lua`: one script checks window, limit and stock, and takes.
//!
//! # How it works
//! One script, run by Redis without anybody in between: is the counter the load that the ledger
//! names, has this request taken before, is the sale open by Redis' clock, does the buyer's limit
//! allow it, are enough units left? Only then it writes: the counter down, the buyer's units up,
//! the request remembered. All checks come first, since a script that fails half-way is not undone.
//! What got through is written by the arbiter; what the arbiter refuses is given back.
//!
//! What buyers have stands beside the counter, is loaded with it from the ledger, and is given back
//! with the units of orders that are cancelled or expire. It is this gate's own count, so it may be
//! too low, and the arbiter decides. Before it refuses a buyer, the ledger is asked: a count that
//! is above the ledger's in two inspections is lowered to it.
//!
//! A retry of the same request (same buyer, key and quantity) finds its units taken already and
//! goes on to the arbiter, whose unique key makes it the same order. From then on neither try gives
//! the units back: they stay with the request, which sells too few rather than too many, until the
//! reconciliation inspects it.
//!
//! # What can go wrong
//! * When Redis loses its data the counter comes back from the ledger; only the arbiter then stands
//!   between the units in flight and a second sale. A copy of an earlier load is noticed by its epoch.
//!   An older copy of the same load has too many units until the reconciliation: the arbiter refuses them.
//! * A server whose clock is wrong opens and closes the sale at the wrong time, within what the
//!   service's own clock allows.
//! * A lost answer leaves units that no order has: the retry gets them, or the reconciliation.
//!
//! # When to use it
//! For a hot item, in front of the arbiter: it refuses each buyer in one round trip.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::kit::steps;
use super::{Breaks, Card, Decision, Entry, Options, Strategy, StrategyContext, WaitingBuyer};
use crate::redis_store::Take;
use ledger::rows::buyers;
use shop_domain::{ArbiterMode, Outcome, Purchase, Refusal};

/// The longest pause before a gate that counts more than the ledger is asked again.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(40);

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "redis-lua",
        family: "script",
        breaks_with: Breaks::Never,
        summary: "One script checks the sale's window, the buyer's limit and the stock, and takes the units.",
        breaks_when: "Redis loses the counter while purchases run.",
        ..Card::REDIS
    },
    build: |context| Ok(Arc::new(RedisLua { context: context.clone() })),
};

struct RedisLua {
    context: StrategyContext,
}

#[async_trait]
impl Strategy for RedisLua {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        let deadline = buyer.deadline;
        let mut ledger_before = None;
        loop {
            let counted = {
                let _span = purchase.trace.span("counter");
                self.context.counters.take_once(&purchase, deadline).await
            };
            match counted? {
                Take::First(taken) => {
                    let outcome = steps::write_in_batch(&self.context, purchase, deadline).await;
                    let give_back = self.context.counters.untake(&taken);
                    steps::give_back_if_refused(&outcome, buyer, give_back).await;
                    return Ok(outcome);
                }
                Take::Again => {
                    return Ok(steps::write_in_batch(&self.context, purchase, deadline).await);
                }
                Take::NothingLeft => steps::sold_out(&self.context, &purchase, deadline).await?,
                Take::Limit => self.over_limit(&purchase, deadline, &mut ledger_before).await?,
                Take::NotStarted => {
                    let starts_at = purchase.item.window.starts_at();
                    return Ok(Outcome::Refused(Refusal::SaleNotStarted { starts_at }));
                }
                Take::Ended => return Ok(Outcome::Refused(Refusal::SaleEnded)),
            }
        }
    }
}

impl RedisLua {
    /// Answers "limit reached" for a gate that counts too many units of this buyer, but only when the ledger does so
    /// too: units that the gate counted may be on their way to the ledger, or may never arrive there. `Ok` means: ask
    /// the gate again. With the arbiter off the gate's answer is final.
    async fn over_limit(
        &self,
        purchase: &Purchase,
        deadline: Instant,
        before: &mut Option<i64>,
    ) -> Result<(), Outcome> {
        let item = purchase.item.id;
        let buyer = purchase.buyer;
        let limit = purchase.item.per_buyer_limit;
        let refused = Err(Outcome::Refused(Refusal::LimitReached { limit }));
        if purchase.item.arbiter == ArbiterMode::Off {
            return refused;
        }
        let read = buyers::bought(&self.context.pool, item, buyer);
        let bought = steps::in_time(deadline, read).await?;
        if bought + purchase.quantity.signed() > i64::from(limit) {
            return refused;
        }
        if before.replace(bought) == Some(bought) {
            self.context.counters.lower_buyer_count(item, buyer, bought).await?;
        }
        steps::pause(deadline, LOOK_AGAIN_MAX).await
    }
}

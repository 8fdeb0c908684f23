//! `redis-bucket`: the counter split over eight keys, so that a hot item spreads over a cluster.
//!
//! # How it works
//! Each bucket is loaded with an eighth of the stock under one epoch, in a key whose slot is its
//! own. A buyer's id picks the bucket that is asked first; when it has too few, the others are
//! asked in order, and several may give a part. A script takes from each bucket the units that it
//! has, up to the number still missing. When all buckets together have too few, or the arbiter
//! refuses, the units go back to their buckets.
//!
//! # What can go wrong
//! * When Redis loses a bucket all are loaded again from the ledger under the next epoch; only the
//!   arbiter then stands between the units in flight and a second sale.
//! * Two buyers who want several units can each hold a part of the last ones, and both go away.
//! * Sold out costs eight questions instead of one; and the sum is not known at any moment.
//! * Units that came back (a cancellation, a lost answer) are not in any bucket. With the arbiter
//!   on the reconciliation adds them, or all are loaded again when they are empty although the
//!   ledger is not. With it off neither happens.
//!
//! # When to use it
//! When one item is more than one Redis server can bear. On a single server `redis-lua` is better.

use std::sync::Arc;

use async_trait::async_trait;

use super::kit::steps;
use super::{Breaks, Card, Decision, Entry, Options, Strategy, StrategyContext, WaitingBuyer};
use crate::redis_store::Gathered;
use crate::redis_store::buckets::BUCKETS;
use shop_domain::{Purchase, UserId};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "redis-bucket",
        family: "script",
        breaks_with: Breaks::Never,
        summary: "The counter is split over eight keys; the buyer's id chooses the key that is tried first, and the others follow.",
        breaks_when: "Redis loses a bucket while purchases run.",
        source: "ours",
        ..Card::REDIS
    },
    build: |context| Ok(Arc::new(RedisBucket { context: context.clone() })),
};

/// Times in a row that a purchase finds too few units in the buckets before they are loaded again. Until then, the
/// units that the ledger still shows are mostly on their way into an order.
const EMPTY_MAX: u32 = 2;

struct RedisBucket {
    context: StrategyContext,
}

#[async_trait]
impl Strategy for RedisBucket {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        let item = purchase.item.id;
        let units = purchase.quantity.signed();
        let first = first_bucket(purchase.buyer);
        let deadline = buyer.deadline;
        let mut found_empty = 0;
        loop {
            let gathered = {
                let _span = purchase.trace.span("counter");
                self.context.buckets.take(item, units, first, deadline).await
            };
            let epoch = match gathered? {
                Gathered::All(parts) => {
                    let outcome = steps::write_in_batch(&self.context, purchase, deadline).await;
                    let give_back = self.context.buckets.give_back(&parts);
                    steps::give_back_if_refused(&outcome, buyer, give_back).await;
                    return Ok(outcome);
                }
                Gathered::TooFew { epoch } => epoch,
            };
            steps::sold_out(&self.context, &purchase, deadline).await?;
            found_empty += 1;
            if found_empty >= EMPTY_MAX {
                self.context.buckets.load_again(item, epoch, deadline).await?;
            }
        }
    }
}

/// Spreads buyers evenly, also those whose ids follow a pattern: the top bits of a product with
/// the golden ratio.
fn first_bucket(buyer: UserId) -> usize {
    let mixed = buyer.get().unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> 32).unwrap_or_default() % BUCKETS
}

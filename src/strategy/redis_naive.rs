//! `redis-naive`: GET, check, SET. A control: it must be caught.
//!
//! # How it works
//! Read the item's counter in Redis, compare in the program, write the computed number back, then
//! write the order. Each command is atomic; the three together are not.
//!
//! # What can go wrong
//! Two buyers read the same number and both sell it. Redis being single-threaded does not help:
//! the other buyer's GET fits between our GET and our SET.
//!
//! # When to use it
//! Never. It is the control for the Redis gates.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::shared::redis_gate;
use super::{Card, Entry, Gear, Request, Strategy};
use crate::domain::outcome::Dependency;
use crate::domain::{Outcome, Unavailable};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "redis-naive",
        family: "naive",
        store: "redis",
        safe: false,
        summary: "GET the counter, check it in the program, SET it to the computed number.",
        breaks_when: "Two buyers read before either has written.",
        needs: &["redis"],
        durable_before_reply: true,
        source: "S4",
        takes_options: false,
    },
    build: |gear| Some(Arc::new(RedisNaive { gear: gear.clone() })),
};

struct RedisNaive {
    gear: Gear,
}

impl Strategy for RedisNaive {
    fn purchase<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            let (item, units) = (request.purchase.item.id, request.purchase.quantity.signed());
            loop {
                let seen = match self.gear.counters.read(item).await {
                    Ok(counter) => counter,
                    Err(error) => return redis_gate::unavailable(&error),
                };
                if seen.available >= units {
                    let written = self.gear.counters.overwrite(item, seen.available - units).await;
                    if written.is_err() {
                        // The counter may be one lower; no order was written.
                        return Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis));
                    }
                    return redis_gate::write(&self.gear, request, seen.epoch).await;
                }
                if let Some(outcome) = redis_gate::sold_out(&self.gear, request).await {
                    return outcome;
                }
            }
        })
    }
}

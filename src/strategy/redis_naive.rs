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

use super::shared::{redis_gate, textbook};
use super::{Breaks, Card, Entry, Gear, Request, Strategy};
use crate::domain::Outcome;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "redis-naive",
        family: "naive",
        store: "redis",
        safe: false,
        breaks_with: Breaks::Alone,
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
            loop {
                match textbook::on_counter(&self.gear, request).await {
                    Ok(Some(epoch)) => return redis_gate::write(&self.gear, request, epoch).await,
                    Ok(None) => {}
                    Err(outcome) => return outcome,
                }
                if let Some(outcome) = redis_gate::sold_out(&self.gear, request).await {
                    return outcome;
                }
            }
        })
    }
}

//! `redis-mutex`: the Redis counter under a mutex of this process. Right until there are two processes.
//!
//! # How it works
//! A mutex per item makes GET, check and SET one step within this process; the order is written
//! after that.
//!
//! # What can go wrong
//! * A second instance has a mutex of its own: the two GET the same number and both sell it.
//! * Units that are given back between a GET and its SET are lost from the counter until the
//!   reconciliation finds them: undersold, not oversold.
//! * When Redis loses the counter it comes back from the ledger, without what was on its way.
//!
//! # When to use it
//! Never: a script makes the three steps one for every process.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::shared::item_mutexes::ItemMutexes;
use super::shared::{redis_gate, textbook};
use super::{Breaks, Card, Entry, Gear, Request, Strategy};
use crate::domain::Outcome;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "redis-mutex",
        family: "mutex",
        store: "redis",
        safe: false,
        breaks_with: Breaks::WithTwoInstances,
        summary: "An in-process mutex around GET, check and SET.",
        breaks_when: "A second instance has a mutex of its own.",
        needs: &["redis"],
        durable_before_reply: true,
        source: "S4",
        takes_options: false,
    },
    build: |gear| {
        Some(Arc::new(RedisMutex { gear: gear.clone(), mutexes: ItemMutexes::default() }))
    },
};

struct RedisMutex {
    gear: Gear,
    mutexes: ItemMutexes,
}

impl Strategy for RedisMutex {
    fn purchase<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            loop {
                let held = match self.mutexes.lock(request).await {
                    Ok(guard) => guard,
                    Err(outcome) => return outcome,
                };
                let taken = textbook::on_counter(&self.gear, request).await;
                drop(held);
                match taken {
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

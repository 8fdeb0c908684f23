//! `redis-lua`: one script checks and takes.
//!
//! # How it works
//! One script, run by Redis without anybody in between: is the counter the load that the ledger
//! names, has this request taken before, are enough units left? Only then it writes: the counter
//! down, the request remembered. All checks come first, since a script that fails half-way is not
//! undone. What got through is written by the arbiter; what the arbiter refuses is given back.
//!
//! A retry of the same request (same buyer, key and quantity) finds its units taken already and goes
//! on to the arbiter, whose unique key makes it the same order. From then on neither try gives the
//! units back: they stay with the request, which sells too few rather than too many, until the
//! reconciliation looks. The sale's window is judged before the gate; the buyer's limit by the
//! arbiter, since a second count of it in Redis would have to follow every cancellation.
//!
//! # What can go wrong
//! * When Redis loses its data the counter comes back from the ledger; only the arbiter then stands
//!   between the units in flight and a second sale. An older copy is noticed by its epoch.
//! * A lost answer leaves units taken by nobody: the retry gets them, or the reconciliation.
//!
//! # When to use it
//! For a hot item, in front of the arbiter: it refuses a crowd for one round trip each.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::shared::redis_gate;
use super::{Breaks, Card, Entry, Gear, Request, Strategy, outcome};
use crate::arbiter::Verdict;
use crate::domain::Outcome;
use crate::store::redis::Take;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "redis-lua",
        family: "script",
        store: "redis",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "One script checks the counter and the request, and takes the units.",
        breaks_when: "Redis loses the counter while purchases are in flight.",
        needs: &["redis"],
        durable_before_reply: true,
        source: "S4",
        takes_options: false,
    },
    build: |gear| Some(Arc::new(RedisLua { gear: gear.clone() })),
};

struct RedisLua {
    gear: Gear,
}

impl Strategy for RedisLua {
    fn purchase<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            loop {
                match self.gear.counters.take_once(&request.purchase).await {
                    Ok(Take::First(taken)) => {
                        let verdict = redis_gate::write_in_lane(&self.gear, request).await;
                        if !matches!(verdict, Verdict::Sold(_) | Verdict::Unknown) {
                            self.gear.counters.untake(&taken).await;
                        }
                        return outcome(verdict);
                    }
                    Ok(Take::Again) => {
                        return outcome(redis_gate::write_in_lane(&self.gear, request).await);
                    }
                    Ok(Take::NothingLeft) => {}
                    Err(error) => return redis_gate::unavailable(&error),
                }
                if let Some(outcome) = redis_gate::sold_out(&self.gear, request).await {
                    return outcome;
                }
            }
        })
    }
}

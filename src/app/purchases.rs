//! The purchase path: strategies behind admission, with the workers that it needs.

use std::sync::Arc;
use std::time::Duration;

use super::shared::{Shared, Writers};
use super::workers::Worker;
use crate::config::Config;
use crate::live::OutcomeCounts;
use crate::purchase::waiting_room::Rules;
use crate::purchase::{
    AcceptOffer, Admission, Items, Keys, Parts, Purchases, Requests, SoldOut, WaitingRoom,
};
use crate::store::memory::MemoryCounters;
use crate::store::redis::Buckets;
use crate::strategy::{LockSources, Strategies, StrategyContext};

/// Builds the purchases, and the workers that look up keys and announce requests for them.
pub(super) fn purchases(
    config: &Config,
    shared: &Shared,
    writers: &Writers,
    locks: LockSources,
) -> Result<(Purchases, [Worker; 2]), String> {
    let settings = &config.purchase;
    let (keys, key_reader) = Keys::new(shared.pool.clone(), shared.instance.clone());
    let (requests, announcer) = Requests::new(shared.pool.clone(), shared.instance.clone());
    let admission = Admission::new(
        settings.in_flight_max,
        Duration::from_millis(settings.wait_ms_max).min(config.gate_wait()),
        requests,
        shared.metrics.clone(),
    );
    let item_age_max = Duration::from_millis(settings.item_age_ms_max);
    let purchases = Purchases::new(Parts {
        strategies: Strategies::new(&strategy_context(config, shared, writers, locks))?,
        accept_offer: Arc::new(AcceptOffer::new(writers.arbiter.clone())),
        keys,
        queue: shared.queue.clone(),
        items: Items::new(shared.catalog.clone(), item_age_max),
        breakers: shared.breakers.clone(),
        sold_out: SoldOut::new(Duration::from_millis(settings.sold_out_ms)),
        hub: shared.hub.clone(),
        outcome_counts: OutcomeCounts::default(),
        metrics: shared.metrics.clone(),
        clock: shared.clock.clone(),
        tasks: shared.lifecycle.purchases().clone(),
        admission,
        waiting_room: waiting_room(config),
        deadline: config.purchase_deadline(),
        gate_wait: config.gate_wait(),
    });
    let drained = shared.lifecycle.drained();
    let look_up = Box::pin(key_reader.run(drained.clone()));
    let announce = Box::pin(announcer.run(drained));
    Ok((purchases, [("keys", look_up), ("requests", announce)]))
}

/// Builds the parts that strategies use.
fn strategy_context(
    config: &Config,
    shared: &Shared,
    writers: &Writers,
    locks: LockSources,
) -> StrategyContext {
    let (redis, pool) = (shared.redis.clone(), shared.pool.clone());
    StrategyContext {
        group_commit: writers.group_commit.clone(),
        arbiter: writers.arbiter.clone(),
        buckets: Buckets::new(redis.clone(), pool.clone(), shared.metrics.clone()),
        memory: MemoryCounters::new(pool.clone()),
        pool,
        redis,
        counters: shared.counters.clone(),
        queue: shared.queue.clone(),
        locks,
        lease: Duration::from_millis(config.lock.lease_ms),
    }
}

fn waiting_room(config: &Config) -> WaitingRoom {
    let settings = &config.waiting_room;
    let rules = Rules {
        per_second: settings.per_second,
        ticket_seconds: settings.ticket_seconds,
        line_max: settings.line_max,
        proof_bits_max: settings.proof_bits_max,
    };
    WaitingRoom::new(rules, &[config.secret.reveal(), config.secret_previous.reveal()])
}

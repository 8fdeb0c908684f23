//! The purchase path: strategies behind admission, with the workers that it needs.

use std::time::Duration;

use super::shared::{Shared, Writers};
use crate::config::Config;
use crate::purchase::waiting_room::WaitingRoomParts;
use crate::purchase::{
    Admission, ItemLimits, OutcomeCounts, PurchaseParts, Purchases, Requests, SoldOut, WaitingRoom,
    key_reads,
};
use extension::Worker;
use gates::memory_store::MemoryCounters;
use gates::redis_store::room::RoomLimits;
use gates::redis_store::{Buckets, Room};
use gates::{LockSources, Strategies, StrategyContext};
use shop_domain::outcome::Dependency;

/// Builds the purchases, and the worker that announces requests for them.
pub(super) fn purchases(
    config: &Config,
    shared: &Shared,
    writers: &Writers,
    locks: &LockSources,
) -> Result<(Purchases, Worker), String> {
    let settings = &config.purchase;
    let pool = &shared.pool;
    let keys = key_reads(pool.clone(), shared.writer.clone(), shared.instance.clone());
    let (requests, announcer) = Requests::new(pool.clone(), shared.instance.clone());
    let item_limits = ItemLimits {
        wait_max: Duration::from_millis(settings.wait_ms_max).min(config.gate_wait()),
        percent: settings.item_in_flight_percent,
    };
    let admission =
        Admission::new(settings.in_flight_max, item_limits, requests, shared.metrics.clone());
    let purchases = Purchases::new(PurchaseParts {
        strategies: Strategies::new(&strategy_context(config, shared, writers, locks))?,
        group_commit: writers.group_commit.clone(),
        keys,
        queue: shared.queue.clone(),
        breakers: shared.breakers.clone(),
        admission,
        catalog: shared.catalog.clone(),
        item_age_max: Duration::from_millis(settings.item_age_ms_max),
        sold_out: SoldOut::new(Duration::from_millis(settings.sold_out_ms)),
        hub: shared.hub.clone(),
        outcome_counts: OutcomeCounts::default(),
        metrics: shared.metrics.clone(),
        clock: shared.clock.clone(),
        tasks: shared.lifecycle.purchases().clone(),
        waiting_room: waiting_room(config, shared),
        deadline: config.purchase_deadline(),
        gate_wait: config.gate_wait(),
    });
    let announce = Box::pin(announcer.run(shared.lifecycle.drained()));
    Ok((purchases, ("requests", announce)))
}

/// Builds the parts that strategies use.
fn strategy_context(
    config: &Config,
    shared: &Shared,
    writers: &Writers,
    locks: &LockSources,
) -> StrategyContext {
    let redis = shared.redis.clone();
    let pool = shared.pool.clone();
    StrategyContext {
        group_commit: writers.group_commit.clone(),
        arbiter: writers.arbiter.clone(),
        buckets: Buckets::beside(&shared.counters),
        memory: MemoryCounters::new(pool.clone()),
        pool,
        redis,
        counters: shared.counters.clone(),
        queue: shared.queue.clone(),
        locks: locks.clone(),
        lease: Duration::from_millis(config.lock.lease_ms),
    }
}

fn waiting_room(config: &Config, shared: &Shared) -> WaitingRoom {
    let settings = &config.waiting_room;
    let seconds = |count: u32| Duration::from_secs(count.into());
    let limits = RoomLimits {
        per_second: settings.per_second,
        inside_max: settings.inside_max,
        waiting_max: settings.line_max,
        silent: seconds(settings.silent_seconds),
        ticket: seconds(settings.ticket_seconds),
        proof_bits_max: settings.proof_bits_max,
    };
    let parts = WaitingRoomParts {
        room: Room::new(shared.redis.clone(), limits),
        breaker: shared.breakers.of(Dependency::Redis).clone(),
        clock: shared.clock.clone(),
        metrics: shared.metrics.clone(),
    };
    WaitingRoom::new(parts, &[config.secret.reveal(), config.secret_previous.reveal()])
}

//! Builds the workers beside the requests: background jobs, consumers of the queues, live events.

use std::time::Duration;

use super::shared::{Inboxes, Shared, Writers};
use super::use_cases::UseCases;
use crate::config::Config;
use crate::consumer::{self, Consumers};
use crate::job::{Audit, Expire, FinishErasures, Reconcile, Sweeper, TendWaitingLists};
use crate::live;
use extension::Worker;
use extension::job::{self, ScheduledJob};
use gates::redis_store::queue::Reader;
use gates::redis_stream;
use ledger::work::monitor;

/// Builds every worker except those of the purchase path.
pub(super) fn workers(
    config: &Config,
    shared: &Shared,
    inboxes: Inboxes,
    writers: &Writers,
    use_cases: &UseCases,
) -> Vec<Worker> {
    let drained = shared.lifecycle.drained();
    let Inboxes { outbox, wake_ups } = inboxes;
    let mut workers: Vec<Worker> = Vec::new();
    for job in jobs(config, shared, use_cases) {
        workers.push(self::job(job, shared));
    }
    let poll = Duration::from_millis(config.live.poll_ms);
    let watch = shared.watch.clone().run(poll, drained.clone());
    let send = live::send(shared.redis.clone(), outbox, drained.clone());
    let receive = live::receive(shared.redis.clone(), shared.hub.clone(), drained.clone());
    let watch_ledger = monitor::watch(
        shared.pool.clone(),
        shared.writer.clone(),
        shared.metrics.clone(),
        drained.clone(),
    );
    let consume = consumers(config, shared, writers).run(wake_ups, drained.clone());
    workers.push(("ledger", Box::pin(watch_ledger)));
    workers.push(("queue", Box::pin(consume)));
    workers.push(("watch", Box::pin(watch)));
    workers.push(("events out", Box::pin(send)));
    workers.push(("events in", Box::pin(receive)));
    workers
}

/// The worker that runs a job.
pub(super) fn job(job: ScheduledJob, shared: &Shared) -> Worker {
    let name = job.name;
    let drained = shared.lifecycle.drained();
    let run = job::run(job, shared.job_status.clone(), shared.metrics.clone(), drained);
    (name, Box::pin(run))
}

fn jobs(config: &Config, shared: &Shared, use_cases: &UseCases) -> Vec<ScheduledJob> {
    let UseCases { orders, purchases, waiting_lists, .. } = use_cases;
    let Shared { pool, metrics, .. } = shared;
    let settings = &config.job;
    let sweeper = Sweeper {
        orders: orders.clone(),
        purchases: purchases.clone(),
        batch_max: settings.expire_batch_max,
    };
    let expire = Expire::new(sweeper, shared.lifecycle.workers().clone());
    let reconcile = Reconcile::new(pool.clone(), shared.counters.clone(), metrics.clone());
    let audit = Audit::new(shared.ledger.clone(), metrics.clone());
    let tend = TendWaitingLists::new(waiting_lists.clone());
    let finish = FinishErasures { lists: waiting_lists.clone(), eraser: shared.eraser.clone() };
    let ms = Duration::from_millis;
    let revocations = shared.revocations.clone();
    vec![
        ScheduledJob::new("expire", ms(settings.expire_period_ms), expire),
        ScheduledJob::new("reconcile", ms(settings.reconcile_period_ms), reconcile),
        ScheduledJob::new("audit", ms(settings.audit_period_ms), audit),
        ScheduledJob::new("waiting-list", ms(config.waiting_list.sweep_ms), tend),
        ScheduledJob::new("erasures", Duration::from_secs(2), finish),
        ScheduledJob::new("revocations", ms(config.session.revocation_period_ms), revocations),
    ]
}

fn consumers(config: &Config, shared: &Shared, writers: &Writers) -> Consumers {
    let settings = &config.queue;
    Consumers::new(consumer::ConsumerParts {
        reader: Reader::new(shared.queue.clone()),
        group_commit: writers.group_commit.clone(),
        arbiter: writers.arbiter.clone(),
        pool: shared.pool.clone(),
        hub: shared.hub.clone(),
        metrics: shared.metrics.clone(),
        strategy: redis_stream::NAME,
        traces: shared.traces.clone(),
        poll: Duration::from_millis(settings.poll_ms),
        claim_idle: Duration::from_millis(settings.claim_idle_ms),
        deliveries_max: settings.deliveries_max,
        drain: Duration::from_millis(config.lifecycle.drain_ms),
    })
}

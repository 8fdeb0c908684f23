//! Builds the workers beside the requests: background jobs, consumers of the queues, live events.

use std::time::Duration;

use futures::future::BoxFuture;

use super::shared::{Inboxes, LedgerParts, Shared, Writers};
use crate::config::Config;
use crate::consumer::{self, Consumers};
use crate::draw::Draws;
use crate::job::{
    self, AdvanceDraws, Audit, Expire, Progress, Reconcile, RefreshRevocations, RequestRefunds,
    ResumeMoves, ScheduledJob, TendEvents, TendWaitingLists, WatchMoves,
};
use crate::live;
use crate::order::{LedgerOrders, Orders};
use crate::payment::Payments;
use crate::purchase::Purchases;
use crate::waiting_list::WaitingLists;
use gates::redis_store::queue::Reader;
use gates::redis_stream;
use ledger::item_move::{Limits, Mover, PAUSE_MS_MAX};
use ledger::rows::{self, monitor};
use shop_domain::ShardId;

/// Connections to each ledger of the job that ends moves: they are made when there is something to do.
const MOVER_CONNECTIONS: u32 = 4;

/// A worker: its name for the log, and its work, which ends when the service stops.
pub(super) type Worker = (&'static str, BoxFuture<'static, ()>);

/// Builds every worker except those of the purchase path.
pub(super) fn workers(
    config: &Config,
    shared: &Shared,
    inboxes: Inboxes,
    writers: &[Writers],
    (orders, purchases, payments): (&Orders, &Purchases, &Payments),
    sales: (&WaitingLists, &Draws),
) -> Vec<Worker> {
    let drained = shared.lifecycle.drained();
    let Inboxes { outbox, wake_ups } = inboxes;
    let mut workers: Vec<Worker> = Vec::new();
    for ((shard, ledger), ledger_orders) in shared.ledgers.iter().zip(orders.ledgers().iter()) {
        let orders = ledger_orders.1;
        for job in jobs(ledger, shared, (orders, purchases, payments), sales) {
            let (name, status) = (job.name, shared.job_status.of_shard(shard));
            let run = job::run(job, status, ledger.metrics.clone(), drained.clone());
            workers.push((name, Box::pin(run)));
        }
    }
    let poll = Duration::from_millis(config.live.poll_ms);
    let watch = shared.watch.clone().run(poll, drained.clone());
    let send = live::send(shared.redis.clone(), outbox, drained.clone());
    let receive = live::receive(shared.redis.clone(), shared.hub.clone(), drained.clone());
    for (((_, ledger), writers), wake_ups) in shared.ledgers.iter().zip(writers).zip(wake_ups) {
        let (pool, metrics) = (ledger.pool.clone(), ledger.metrics.clone());
        let watch_ledger = monitor::watch(pool, metrics, drained.clone());
        let consume = consumers(ledger, shared, writers).run(wake_ups, drained.clone());
        workers.push(("ledger", Box::pin(watch_ledger)));
        workers.push(("queue", Box::pin(consume)));
    }
    workers.push(("watch", Box::pin(watch)));
    workers.push(("events out", Box::pin(send)));
    workers.push(("events in", Box::pin(receive)));
    workers
}

/// The jobs of one ledger.
fn jobs(
    ledger: &LedgerParts,
    shared: &Shared,
    (orders, purchases, payments): (&LedgerOrders, &Purchases, &Payments),
    (waiting_lists, draws): (&WaitingLists, &Draws),
) -> Vec<ScheduledJob> {
    let LedgerParts { shard, config, pool, breakers, metrics, .. } = ledger;
    let (homes, settings) = (shared.ledgers.homes(), &config.job);
    let expire = Expire {
        orders: orders.clone(),
        ledger: (*shard, homes.clone()),
        purchases: purchases.clone(),
        batch_max: settings.expire_batch_max,
    };
    let reconcile = Reconcile::new(pool.clone(), ledger.counters.clone(), metrics.clone());
    let audit = Audit {
        pool: pool.clone(),
        breaker: breakers.mysql.clone(),
        ledger: (*shard, homes.clone()),
        metrics: metrics.clone(),
        progress: Progress::default(),
    };
    let tend = TendWaitingLists::new(waiting_lists.clone(), *shard);
    let advance = AdvanceDraws { draws: draws.clone(), shard: *shard };
    let ms = Duration::from_millis;
    let reconcile = reconcile.of_shard(*shard, homes.clone());
    let mut jobs = vec![
        ScheduledJob::new("expire", ms(settings.expire_period_ms), expire),
        ScheduledJob::new("reconcile", ms(settings.reconcile_period_ms), reconcile),
        ScheduledJob::new("audit", ms(settings.audit_period_ms), audit),
        ScheduledJob::new("waiting-list", ms(config.waiting_list.sweep_ms), tend),
        ScheduledJob::new("draws", ms(config.draw.poll_ms), advance),
    ];
    if config.payment.provider != "demo" {
        let (payments, metrics) = (payments.clone(), metrics.clone());
        let refunds = RequestRefunds { payments, shard: *shard, metrics };
        jobs.push(ScheduledJob::new("refunds", Duration::from_secs(1), refunds));
    }
    if *shard == ShardId::HOME {
        let revocations = RefreshRevocations {
            revocations: shared.revocations.clone(),
            breaker: breakers.mysql.clone(),
        };
        let period = ms(config.session.revocation_period_ms);
        jobs.push(ScheduledJob::new("revocations", period, revocations));
        if !homes.is_only() {
            let resume = resume_moves(config, shared);
            jobs.push(ScheduledJob::new("moves", ms(settings.move_period_ms), resume));
            let pools = shared.ledgers.map(|ledger| ledger.pool.clone());
            let watch = WatchMoves::new(pools, metrics.clone());
            jobs.push(ScheduledJob::new("item-moves", Duration::from_secs(2), watch));
        }
        if shared.events.is_enabled() {
            let (pool, metrics) = (pool.clone(), metrics.clone());
            let events = TendEvents::new(pool, metrics, config.events.keep_hours);
            jobs.push(ScheduledJob::new("events", Duration::from_secs(1), events));
        }
    }
    jobs
}

/// The job that ends moves whose mover has died. It has connections of its own, so that no purchase waits for
/// the copying.
fn resume_moves(config: &Config, shared: &Shared) -> ResumeMoves {
    let ledgers = shared.ledgers.iter().map(|(shard, ledger)| {
        (shard, rows::pool_to(&ledger.writer, &*ledger.config, MOVER_CONNECTIONS))
    });
    let item_age_max = Duration::from_millis(config.purchase.item_age_ms_max);
    let limits = Limits::new(Duration::from_millis(PAUSE_MS_MAX), item_age_max);
    let (metrics, stop) = (shared.metrics.clone(), shared.lifecycle.stopping());
    let mover = Mover::new(ledgers.collect(), limits);
    ResumeMoves::new(mover, metrics, config.job.moved_kept_hours, stop)
}

fn consumers(ledger: &LedgerParts, shared: &Shared, writers: &Writers) -> Consumers {
    let settings = &ledger.config.queue;
    Consumers::new(consumer::ConsumerParts {
        reader: Reader::new(ledger.queue.clone()),
        group_commit: writers.group_commit.clone(),
        arbiter: writers.arbiter.clone(),
        pool: ledger.pool.clone(),
        ledger: (ledger.shard, shared.ledgers.homes().clone()),
        hub: shared.hub.clone(),
        metrics: ledger.metrics.clone(),
        strategy: redis_stream::NAME,
        traces: shared.traces.clone(),
        poll: Duration::from_millis(settings.poll_ms),
        claim_idle: Duration::from_millis(settings.claim_idle_ms),
        deliveries_max: settings.deliveries_max,
    })
}

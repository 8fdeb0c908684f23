//! Builds the workers beside the requests: background jobs, consumers of the queues, live events.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::shared::{Inboxes, LedgerParts, Shared, Writers};
use crate::config::Config;
use crate::consumer::{self, Consumers};
use crate::job::{
    self, Audit, Expire, Job, Progress, Reconcile, RefreshRevocations, RequestRefunds, ResumeMoves,
    TendEvents, TendWaitingLists, WatchMoves,
};
use crate::live;
use crate::order::{LedgerOrders, Orders};
use crate::payment::Payments;
use crate::purchase::Purchases;
use crate::waiting_list::WaitingLists;
use gates::redis_store::queue::Reader;
use gates::redis_stream;
use ledger::item_move::{Limits, Mover, PAUSE_MS_MAX};
use ledger::rows::{self, look};
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
    waiting_lists: &WaitingLists,
) -> Vec<Worker> {
    let drained = shared.lifecycle.drained();
    let Inboxes { outbox, wake_ups } = inboxes;
    let mut workers: Vec<Worker> = Vec::new();
    for ((shard, ledger), ledger_orders) in shared.ledgers.iter().zip(orders.ledgers().iter()) {
        let orders = ledger_orders.1;
        for job in jobs(ledger, shared, (orders, purchases, payments), waiting_lists) {
            let (name, status) = (job.name(), shared.job_status.of_shard(shard));
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
        let look = look::watch(pool, metrics, drained.clone());
        let consume = consumers(ledger, shared, writers).run(wake_ups, drained.clone());
        workers.push(("ledger", Box::pin(look)));
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
    waiting_lists: &WaitingLists,
) -> Vec<Arc<dyn Job>> {
    let LedgerParts { shard, config, pool, breakers, metrics, .. } = ledger;
    let homes = shared.ledgers.homes();
    let expire = Expire {
        orders: orders.clone(),
        ledger: (*shard, homes.clone()),
        purchases: purchases.clone(),
        period: Duration::from_millis(config.job.expire_period_ms),
        batch_max: config.job.expire_batch_max,
    };
    let reconcile = Reconcile::new(
        pool.clone(),
        ledger.counters.clone(),
        metrics.clone(),
        Duration::from_millis(config.job.reconcile_period_ms),
    );
    let audit = Audit {
        pool: pool.clone(),
        breaker: breakers.mysql.clone(),
        ledger: (*shard, homes.clone()),
        metrics: metrics.clone(),
        period: Duration::from_millis(config.job.audit_period_ms),
        progress: Progress::default(),
    };
    let sweep = Duration::from_millis(config.waiting_list.sweep_ms);
    let tend = TendWaitingLists::new(waiting_lists.clone(), *shard, sweep);
    let mut jobs: Vec<Arc<dyn Job>> = vec![
        Arc::new(expire),
        Arc::new(reconcile.of_shard(*shard, homes.clone())),
        Arc::new(audit),
        Arc::new(tend),
    ];
    if config.payment.provider != "demo" {
        let (payments, metrics) = (payments.clone(), metrics.clone());
        jobs.push(Arc::new(RequestRefunds { payments, shard: *shard, metrics }));
    }
    if *shard == ShardId::HOME {
        jobs.push(Arc::new(RefreshRevocations {
            revocations: shared.revocations.clone(),
            breaker: breakers.mysql.clone(),
            period: Duration::from_millis(config.session.revocation_period_ms),
        }));
        if !homes.is_only() {
            jobs.push(Arc::new(resume_moves(config, shared)));
            let pools = shared.ledgers.map(|ledger| ledger.pool.clone());
            jobs.push(Arc::new(WatchMoves::new(pools, metrics.clone())));
        }
        if shared.events.is_enabled() {
            let (pool, metrics) = (pool.clone(), metrics.clone());
            jobs.push(Arc::new(TendEvents::new(pool, metrics, config.events.keep_hours)));
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
    let period = Duration::from_millis(config.job.move_period_ms);
    let (metrics, stop) = (shared.metrics.clone(), shared.lifecycle.stopping());
    let times = (period, config.job.moved_kept_hours);
    ResumeMoves::new(Mover::new(ledgers.collect(), limits), metrics, times, stop)
}

fn consumers(ledger: &LedgerParts, shared: &Shared, writers: &Writers) -> Consumers {
    let settings = &ledger.config.queue;
    Consumers::new(consumer::Parts {
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

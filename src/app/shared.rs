//! Builds the parts that most others share: pools, clients, breakers, counters, clock, metrics.

use std::time::Duration;

use ledger::Ledger;
use mysql_connection::{Database, PoolOptions, Writer};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::account::Revocations;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::extensions;
use crate::live::{BuyerChange, Hub, Watch};
use extension::job::JobStatus;
use gates::redis_store::{Counters, Queue, RedisClient};
use gates::redis_stream;
use ledger::breaker::Breakers;
use ledger::erasure::Eraser;
use ledger::rows::outbox::Outbox;
use ledger::waiting_list::{WaitingLine, Waitlist};
use ledger::write::{Arbiter, BatchConnections, BatchTasks, GroupCommit, SHARED_CONNECTIONS};
use lifecycle::Lifecycle;
use shop_domain::{Clock, ItemId};
use shop_metrics::Metrics;
use shop_traces::Traces;
use tokio_util::task::TaskTracker;
use web::token::Tokens;

/// The shared parts. Clones share them.
#[derive(Clone)]
pub(super) struct Shared {
    pub lifecycle: Lifecycle,
    pub metrics: Metrics,
    pub clock: Clock,
    /// The writer among the hosts of the ledger.
    pub writer: Writer,
    pub pool: Database,
    pub breakers: Breakers,
    /// The connections to the ledger, its breaker, and the limit of each item.
    pub ledger: Ledger,
    pub redis: RedisClient,
    pub counters: Counters,
    pub queue: Queue,
    pub catalog: Catalog,
    pub hub: Hub,
    pub watch: Watch,
    pub revocations: Revocations,
    pub job_status: JobStatus,
    /// Where changes of orders are written for other systems.
    pub events: Outbox,
    /// Who gets units that come back.
    pub line: WaitingLine,
    pub eraser: Eraser,
    pub traces: Traces,
    /// The name of this instance for the others.
    pub instance: String,
}

/// The receiving ends of the shared parts' channels, each for one worker.
pub(super) struct Inboxes {
    /// Changes of orders to send to other instances.
    pub outbox: mpsc::Receiver<BuyerChange>,
    /// Items whose queue has entries.
    pub wake_ups: mpsc::Receiver<ItemId>,
}

impl Shared {
    pub(super) fn build(config: &Config) -> Result<(Self, Inboxes), String> {
        let metrics = Metrics::new();
        let clock = Clock::default();
        let lifecycle = Lifecycle::new();
        let instance = format!("{:016x}", rand::random::<u64>());
        let (traces, span_worker) = shop_traces::build(&config.traces, &instance, &metrics)?;
        if let Some(worker) = span_worker {
            lifecycle.worker("traces", worker(lifecycle.drained()));
        }
        let redis = RedisClient::new(config)?;
        let (hub, outbox) = Hub::new();
        let breakers = Breakers::new(&metrics);
        let writer = Writer::new(config.database_url.reveal())?;
        let pool = mysql_connection::pool_to(&writer, config, config.mysql.pool_max);
        breakers.mysql.check_by(mysql_connection::sign_of_life(&writer, config));
        if writer.has_several_hosts() {
            // At once: the checks before the start ask the writer, too.
            let follow = writer.clone().follow(metrics.ledger.clone(), lifecycle.drained());
            lifecycle.worker("writer", follow);
        }
        let counters = Counters::new(redis.clone(), pool.clone(), metrics.clone());
        let (queue, wake_ups) = Queue::new(
            redis.clone(),
            pool.clone(),
            counters.clone(),
            redis_stream::NAME,
            config.queue.backlog_max,
        );
        let replicas_wait_max = Duration::from_millis(config.queue.replicas_wait_ms_max);
        let queue = queue.with_replicas(config.queue.replicas_min, replicas_wait_max);
        let events = Outbox::new(config.events.enabled);
        let line_max = config.waiting_list.line_max;
        let line = WaitingLine::new(clock.clone(), events, metrics.clone(), line_max);
        let ledger = Ledger::new(pool.clone(), breakers.mysql.clone());
        let waitlist = Waitlist { ledger: ledger.clone(), line: line.clone() };
        let catalog = Catalog::new(ledger.clone(), counters.clone(), clock.clone(), line.clone());
        let key_ids = Tokens::new(&config.secret, &config.secret_previous).key_ids();
        let key_id = key_ids.into_iter().next().unwrap_or_default();
        let shared = Self {
            lifecycle,
            watch: Watch::new(catalog.clone()),
            revocations: Revocations::new(pool.clone(), breakers.mysql.clone(), key_id),
            job_status: JobStatus::default(),
            events,
            line,
            eraser: extensions::eraser(waitlist),
            traces,
            instance,
            metrics,
            clock,
            writer,
            pool,
            breakers,
            ledger,
            redis,
            counters,
            queue,
            catalog,
            hub,
        };
        Ok((shared, Inboxes { outbox, wake_ups }))
    }
}

/// The arbiter for single orders, and the group commit in front of it.
#[derive(Clone)]
pub(super) struct Writers {
    pub arbiter: Arbiter,
    pub group_commit: GroupCommit,
    /// The connections of the batches.
    pub batch_pools: Vec<Database>,
}

impl Writers {
    /// `runtime` writes the batches.
    pub(super) fn build(config: &Config, shared: &Shared, runtime: Option<&Handle>) -> Self {
        let writer = &shared.writer;
        let arbiter = Arbiter::new(shared.pool.clone(), shared.metrics.clone())
            .beside(shared.ledger.items.clone(), shared.breakers.mysql.clone(), writer.clone())
            .with_outbox(shared.events)
            .with_calls(config.mysql.order_routine);
        let connections_max = config.mysql.batch_connections_max;
        let of_batches = PoolOptions { one_shard: true, ..config.into() };
        let own_pool = mysql_connection::pool_to(writer, of_batches.clone(), connections_max);
        let connections = BatchConnections::new(own_pool.clone(), connections_max);
        // A batch of many items waits for the row of one no longer than it must.
        let impatient = PoolOptions { lock_wait_timeout_seconds: 1, ..of_batches };
        let mut batch_pools = vec![own_pool];
        let mut shared_queues = Vec::new();
        for _ in 0..config.mysql.shared_queues {
            let pool = mysql_connection::pool_to(writer, impatient.clone(), SHARED_CONNECTIONS);
            shared_queues.push(BatchConnections::new(pool.clone(), SHARED_CONNECTIONS));
            batch_pools.push(pool);
        }
        // A stop waits for whoever waits for an order of a batch, and not for a queue that the consumers fill.
        let tasks = BatchTasks::on(runtime.cloned(), TaskTracker::new());
        let group_commit = GroupCommit::new(arbiter.clone(), connections, tasks, shared_queues);
        Self { arbiter, group_commit, batch_pools }
    }
}

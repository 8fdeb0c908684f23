//! Builds the parts that most others share: pools, clients, breakers, counters, clock, metrics.

use std::time::Duration;

use sqlx::MySqlPool;
use tokio::sync::mpsc;

use crate::account::Revocations;
use crate::arbiter::{Arbiter, BatchConnections, GroupCommit, SHARED_CONNECTIONS, WaitingLine};
use crate::catalog::Catalog;
use crate::config::Config;
use crate::domain::{Clock, ItemId};
use crate::job::JobStatus;
use crate::lifecycle::Lifecycle;
use crate::live::{Changed, Hub, StreamLimits, Watch};
use crate::metrics::Metrics;
use crate::store::breaker::Breakers;
use crate::store::mysql::outbox::Outbox;
use crate::store::mysql::{self, Writer};
use crate::store::redis::{Counters, Queue, RedisClient};
use crate::strategy::redis_stream;
use crate::trace::{self, Traces};
use crate::waiting_list::{self, WaitingLists};

/// The shared parts. Clones share them.
#[derive(Clone)]
pub(super) struct Shared {
    pub lifecycle: Lifecycle,
    pub metrics: Metrics,
    pub clock: Clock,
    pub writer: Writer,
    pub pool: MySqlPool,
    pub redis: RedisClient,
    pub breakers: Breakers,
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
    pub traces: Traces,
    /// The name of this instance for the others.
    pub instance: String,
}

/// The receiving ends of the shared parts' channels, each for one worker.
pub(super) struct Inboxes {
    /// Changes of orders to send to other instances.
    pub outbox: mpsc::Receiver<Changed>,
    /// Items whose queue has entries.
    pub wake_ups: mpsc::Receiver<ItemId>,
}

impl Shared {
    pub(super) fn build(config: &Config) -> Result<(Self, Inboxes), String> {
        let (metrics, clock) = (Metrics::new(), Clock::default());
        let lifecycle = Lifecycle::new();
        let instance = format!("{:016x}", rand::random::<u64>());
        let (traces, span_worker) = trace::build(config, &instance, &metrics)?;
        if let Some(worker) = span_worker {
            lifecycle.worker("traces", worker(lifecycle.drained()));
        }
        let writer = Writer::new(config.database_url.reveal())?;
        let pool = mysql::pool_to(&writer, config, config.mysql.pool_max);
        if writer.has_several_hosts() {
            // At once: the checks before the start ask the writer, too.
            let follow = writer.clone().follow(metrics.clone(), lifecycle.drained());
            lifecycle.worker("writer", follow);
        }
        let redis = RedisClient::new(config)?;
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
        let (hub, outbox) = Hub::new(stream_limits(config), metrics.clone());
        let breakers = Breakers::new(&metrics);
        let mysql = breakers.mysql.clone();
        let events = Outbox::new(config.events.enabled);
        let line_max = config.waiting_list.line_max;
        let line = WaitingLine::new(clock.clone(), events, metrics.clone(), line_max);
        let catalog =
            Catalog::new(pool.clone(), mysql, counters.clone(), clock.clone(), line.clone());
        let shared = Self {
            lifecycle,
            writer,
            watch: Watch::new(catalog.clone()),
            revocations: Revocations::new(pool.clone()),
            job_status: JobStatus::default(),
            events,
            line,
            traces,
            instance,
            metrics,
            clock,
            pool,
            redis,
            breakers,
            counters,
            queue,
            catalog,
            hub,
        };
        Ok((shared, Inboxes { outbox, wake_ups }))
    }
}

impl Shared {
    /// The waiting lists over these parts.
    pub(super) fn waiting_lists(&self) -> WaitingLists {
        WaitingLists::new(waiting_list::Parts {
            pool: self.pool.clone(),
            breaker: self.breakers.mysql.clone(),
            catalog: self.catalog.clone(),
            counters: self.counters.clone(),
            hub: self.hub.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock.clone(),
            line: self.line.clone(),
        })
    }
}

/// The arbiter for single orders, and the group commit in front of it.
#[derive(Clone)]
pub(super) struct Writers {
    pub arbiter: Arbiter,
    pub group_commit: GroupCommit,
    /// The connections of the batches.
    pub lane_pools: Vec<MySqlPool>,
}

impl Writers {
    pub(super) fn build(config: &Config, shared: &Shared) -> Self {
        let arbiter = Arbiter::new(shared.pool.clone(), shared.metrics.clone())
            .telling(shared.writer.clone())
            .with_outbox(shared.events)
            .with_multi_statements(config.mysql.multi_statements);
        let connections_max = config.mysql.lane_connections_max;
        let own_pool = mysql::pool_to(&shared.writer, config, connections_max);
        let connections = BatchConnections::new(own_pool.clone(), connections_max);
        // A batch of many items waits for the row of one no longer than it must.
        let mut impatient = config.clone();
        impatient.mysql.lock_wait_timeout_seconds = 1;
        let mut lane_pools = vec![own_pool];
        let mut shared_queues = Vec::new();
        for _ in 0..config.mysql.shared_queues {
            let pool = mysql::pool_to(&shared.writer, &impatient, SHARED_CONNECTIONS);
            shared_queues.push(BatchConnections::new(pool.clone(), SHARED_CONNECTIONS));
            lane_pools.push(pool);
        }
        let tasks = shared.lifecycle.purchases().clone();
        let group_commit =
            GroupCommit::with_shared_queues(arbiter.clone(), connections, tasks, shared_queues);
        Self { arbiter, group_commit, lane_pools }
    }
}

fn stream_limits(config: &Config) -> StreamLimits {
    let (all, limits) = (config.live.streams_max, &config.limits);
    // Rounded down: the share of a few streams may be 0.
    let kept = all.saturating_mul(config.live.streams_kept_percent) / 100;
    StreamLimits {
        all,
        strangers: all.saturating_sub(kept),
        each_user: limits.user_streams_max,
        each_address: limits.address_streams_max,
    }
}

//! Builds the parts that most others share: pools, clients, breakers, counters, clock, metrics.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ledger::Database;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::account::Revocations;
use crate::catalog::{Catalog, LedgerItems};
use crate::config::Config;
use crate::draw::{Beacons, DrawParts, Draws};
use crate::event::{self, PrivateNetworks, WebhookClient};
use crate::job::JobStatus;
use crate::lifecycle::Lifecycle;
use crate::live::{BuyerChange, Hub, StreamLimits, Watch};
use crate::receipt::Receipts;
use crate::trace::{self, Traces};
use crate::waiting_list::{self, LedgerWaitlist, WaitingLists};
use gates::redis_store::{Counters, Queue, RedisClient};
use gates::redis_stream;
use ledger::receipts::Logs;
use ledger::route::breaker::Breakers;
use ledger::route::{Homes, Ledger, Shards};
use ledger::rows::outbox::Outbox;
use ledger::rows::{self, Writer};
use ledger::waiting_list::{WaitingLine, Waitlist};
use ledger::write::{
    Arbiter, BatchConnections, BatchTasks, GroupCommit, ItemConcurrency, SHARED_CONNECTIONS,
};
use sale_log::SigningKeys;
use shop_domain::{Clock, ItemId, ShardId};
use shop_metrics::Metrics;

/// The shared parts. Clones share them.
#[derive(Clone)]
pub(super) struct Shared {
    pub lifecycle: Lifecycle,
    pub metrics: Metrics,
    pub clock: Clock,
    /// The home ledger's pool.
    pub pool: Database,
    /// The breakers of the home ledger and all other servers.
    pub breakers: Breakers,
    pub redis: RedisClient,
    pub ledgers: Shards<LedgerParts>,
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

/// The shared parts of one ledger.
#[derive(Clone)]
pub(super) struct LedgerParts {
    pub shard: ShardId,
    /// The settings, with its URL.
    pub config: Arc<Config>,
    pub writer: Writer,
    pub pool: Database,
    pub breakers: Breakers,
    pub counters: Counters,
    pub queue: Queue,
    /// How many connections of the pool one item may hold.
    pub concurrency: ItemConcurrency,
    /// Those of its shard.
    pub metrics: Metrics,
}

impl LedgerParts {
    /// Its connections and breaker.
    pub(super) fn ledger(&self) -> Ledger {
        Ledger { pool: self.pool.clone(), breaker: self.breakers.mysql.clone() }
    }
}

/// The receiving ends of the shared parts' channels, each for one worker.
pub(super) struct Inboxes {
    /// Changes of orders to send to other instances.
    pub outbox: mpsc::Receiver<BuyerChange>,
    /// Items whose queue has entries, of each ledger.
    pub wake_ups: Vec<mpsc::Receiver<ItemId>>,
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
        let redis = RedisClient::new(config)?;
        let (hub, outbox) = Hub::new(stream_limits(config), metrics.clone());
        let breakers = Breakers::new(&metrics);
        let mut connected = Vec::new();
        for (number, config) in config.ledgers()?.into_iter().enumerate() {
            let shard = u16::try_from(number).ok().and_then(ShardId::new);
            let shard = shard.ok_or("too many ledgers")?;
            connected.push(LedgerConnections::to(
                shard,
                config,
                (&lifecycle, &metrics, &breakers),
            )?);
        }
        let (pool, breaker) = (connected[0].pool.clone(), breakers.mysql.clone());
        let age_max = Duration::from_millis(config.purchase.item_age_ms_max);
        let homes = Homes::new(pool.clone(), breaker, connected.len(), age_max);
        let parts = connected.into_iter().map(|one| LedgerParts::build(one, &homes, &redis));
        let (each, wake_ups): (Vec<_>, Vec<_>) = parts.unzip();
        let ledgers = Shards::new(homes, each);
        let events = Outbox::new(config.events.enabled);
        let line_max = config.waiting_list.line_max;
        let line = WaitingLine::new(clock.clone(), events, metrics.clone(), line_max);
        let catalog_parts = ledgers.map(|ledger| LedgerItems {
            ledger: ledger.ledger(),
            counters: ledger.counters.clone(),
        });
        let catalog = Catalog::over(&catalog_parts, clock.clone(), line.clone())
            .with_logs(config.receipts.of_new_items());
        let shared = Self {
            lifecycle,
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
            breakers,
            redis,
            ledgers,
            catalog,
            hub,
        };
        Ok((shared, Inboxes { outbox, wake_ups }))
    }
}

/// The connections to one ledger.
struct LedgerConnections {
    shard: ShardId,
    config: Config,
    writer: Writer,
    pool: Database,
    breakers: Breakers,
    metrics: Metrics,
}

impl LedgerConnections {
    fn to(
        shard: ShardId,
        config: Config,
        (lifecycle, metrics, breakers): (&Lifecycle, &Metrics, &Breakers),
    ) -> Result<Self, String> {
        let metrics = metrics.of_shard(shard.get());
        let breakers = match shard {
            ShardId::HOME => breakers.clone(),
            _ => breakers.of_ledger(&metrics),
        };
        let writer = Writer::new(config.database_url.reveal()).map_err(|why| {
            if shard == ShardId::HOME { why } else { format!("shard {shard}: {why}") }
        })?;
        let pool = rows::pool_to(&writer, &config, config.mysql.pool_max);
        breakers.mysql.check_by(rows::sign_of_life(&writer, &config));
        if writer.has_several_hosts() {
            // At once: the checks before the start ask the writer, too.
            let follow = writer.clone().follow(metrics.clone(), lifecycle.drained());
            lifecycle.worker("writer", follow);
        }
        Ok(Self { shard, config, writer, pool, breakers, metrics })
    }
}

impl LedgerParts {
    fn build(
        connected: LedgerConnections,
        homes: &Homes,
        redis: &RedisClient,
    ) -> (Self, mpsc::Receiver<ItemId>) {
        let LedgerConnections { shard, config, writer, pool, breakers, metrics } = connected;
        let counters = Counters::new(redis.clone(), pool.clone(), metrics.clone());
        let counters = counters.of_shard(shard, homes.clone());
        let (queue, wake_ups) = Queue::new(
            redis.clone(),
            pool.clone(),
            counters.clone(),
            redis_stream::NAME,
            config.queue.backlog_max,
        );
        let replicas_wait_max = Duration::from_millis(config.queue.replicas_wait_ms_max);
        let queue = queue.with_replicas(config.queue.replicas_min, replicas_wait_max);
        let concurrency = ItemConcurrency::new(config.mysql.pool_max);
        let config = Arc::new(config);
        let parts =
            Self { shard, config, writer, pool, breakers, counters, queue, concurrency, metrics };
        (parts, wake_ups)
    }
}

impl Shared {
    /// Makes a client that calls other systems.
    ///
    /// # Errors
    /// A sentence when the certificates cannot be read.
    pub(super) fn webhook_client(
        &self,
        networks: PrivateNetworks,
        ca_file: &Path,
        timeout_ms: u64,
    ) -> Result<WebhookClient, String> {
        let (tls, traces) = (Arc::new(event::tls(ca_file)?), self.traces.clone());
        Ok(WebhookClient { networks, tls, timeout: Duration::from_millis(timeout_ms), traces })
    }

    /// The waiting lists over these parts.
    pub(super) fn waiting_lists(&self) -> WaitingLists {
        WaitingLists::new(waiting_list::WaitlistParts {
            ledgers: self.ledgers.map(|ledger| LedgerWaitlist {
                waitlist: Waitlist::new(
                    ledger.ledger(),
                    self.line.clone(),
                    ledger.concurrency.clone(),
                ),
                counters: ledger.counters.clone(),
                metrics: ledger.metrics.clone(),
            }),
            catalog: self.catalog.clone(),
            hub: self.hub.clone(),
            clock: self.clock.clone(),
            line: self.line.clone(),
        })
    }
}

impl Shared {
    /// The draws over these parts.
    ///
    /// # Errors
    /// A sentence when a setting cannot be used.
    pub(super) fn draws(&self, config: &Config, lists: &WaitingLists) -> Result<Draws, String> {
        let settings = &config.draw;
        Ok(Draws::new(DrawParts {
            ledgers: self.ledgers.map(|ledger| {
                ledger::draw::Draws::new(
                    ledger.ledger(),
                    self.line.clone(),
                    settings.entries_max.into(),
                )
            }),
            catalog: self.catalog.clone(),
            lists: lists.clone(),
            clock: self.clock.clone(),
            beacons: self.beacons(config)?,
            round_after: Duration::from_secs(settings.round_after_seconds.into()),
        }))
    }

    /// The beacons of draws, and of the openings of waiting rooms.
    ///
    /// # Errors
    /// A sentence when a setting cannot be used.
    pub(super) fn beacons(&self, config: &Config) -> Result<Beacons, String> {
        let settings = &config.draw;
        let networks = PrivateNetworks::parse(&settings.private_networks)
            .map_err(|why| format!("draw.{why}"))?;
        let client = self.webhook_client(networks, Path::new(""), settings.timeout_ms)?;
        Beacons::new(client, &settings.beacon, &settings.drand_url)
    }
}

impl Shared {
    /// The receipts over these parts.
    pub(super) fn receipts(&self, config: &Config) -> Receipts {
        let keys = SigningKeys::new(config.secret.reveal().as_bytes(), config.receipts.key_days);
        let keys = Arc::new(keys);
        let logs = self.ledgers.map(|ledger| Logs::new(ledger.ledger(), keys.clone()));
        Receipts::new(logs, keys, self.clock.clone())
    }
}

/// The arbiter of one ledger for single orders, and the group commit in front of it.
#[derive(Clone)]
pub(super) struct Writers {
    pub arbiter: Arbiter,
    pub group_commit: GroupCommit,
    /// The connections of the batches.
    pub batch_pools: Vec<Database>,
}

impl Writers {
    /// `runtime` writes the batches.
    pub(super) fn build(ledger: &LedgerParts, shared: &Shared, runtime: Option<&Handle>) -> Self {
        let LedgerParts { config, writer, .. } = ledger;
        let arbiter = Arbiter::new(ledger.pool.clone(), ledger.metrics.clone())
            .telling(writer.clone())
            .checked_by(ledger.breakers.mysql.clone())
            .sharing(ledger.concurrency.clone())
            .with_outbox(shared.events)
            .with_calls(config.mysql.order_routine);
        let connections_max = config.mysql.batch_connections_max;
        let own_pool = rows::pool_to(writer, &**config, connections_max);
        let connections = BatchConnections::new(own_pool.clone(), connections_max);
        // A batch of many items waits for the row of one no longer than it must.
        let mut impatient = Config::clone(config);
        impatient.mysql.lock_wait_timeout_seconds = 1;
        let mut batch_pools = vec![own_pool];
        let mut shared_queues = Vec::new();
        for _ in 0..config.mysql.shared_queues {
            let pool = rows::pool_to(writer, &impatient, SHARED_CONNECTIONS);
            shared_queues.push(BatchConnections::new(pool.clone(), SHARED_CONNECTIONS));
            batch_pools.push(pool);
        }
        let tasks = BatchTasks::on(runtime.cloned(), shared.lifecycle.purchases().clone());
        let group_commit =
            GroupCommit::with_shared_queues(arbiter.clone(), connections, tasks, shared_queues);
        Self { arbiter, group_commit, batch_pools }
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

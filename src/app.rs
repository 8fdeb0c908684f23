//! [`App::build`]: the one file that knows every part. The binary and the tests use it alike.

mod locks;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::MySqlPool;
use tokio::net::TcpListener;

use crate::arbiter::{Arbiter, BatchConnections, GroupCommit};
use crate::config::Config;
use crate::domain::Clock;
use crate::http::address::Proxies;
use crate::http::body::BodyLimits;
use crate::http::crowd::Crowd;
use crate::http::door::Door;
use crate::http::hosts::Hosts;
use crate::http::rates::{Rate, Rates};
use crate::http::server::{self, ServerOptions};
use crate::http::{self, Web};
use crate::job::{self, Board, Expire, Job, Reconcile, RefreshRevocations};
use crate::lab::{self, Lab};
use crate::lifecycle::{Ended, Lifecycle};
use crate::live::{self, Hub, StreamLimits, Tally, Watch};
use crate::metrics::Metrics;
use crate::order::Orders;
use crate::purchase::waiting_room::Rules;
use crate::purchase::{self, Admission, Items, Keys, Purchases, Requests, SoldOut, WaitingRoom};
use crate::queue::{self, Consumers};
use crate::session::{Revocations, Tokens};
use crate::store::breaker::Breakers;
use crate::store::catalogue::Catalogue;
use crate::store::memory::MemoryCounters;
use crate::store::mysql;
use crate::store::redis::queue::Reader;
use crate::store::redis::{Buckets, Counters, Queue, RedisClient};
use crate::strategy::redis_stream;
use crate::strategy::{Strategies, StrategyContext};

/// How long a start waits for the list of signed-out tokens. Without it the service starts all the
/// same, and takes no token until the list was read.
const FIRST_READ_MAX: Duration = Duration::from_secs(3);

/// A service that is built and listens, but does not serve yet.
pub struct App {
    config: Config,
    crowd: Crowd,
    listener: TcpListener,
    router: axum::Router,
    workers: Vec<Worker>,
    lifecycle: Lifecycle,
    metrics: Metrics,
    clock: Clock,
    pool: MySqlPool,
    lane_pool: MySqlPool,
    revocations: Revocations,
    addr: SocketAddr,
}

type Worker = (&'static str, futures::future::BoxFuture<'static, ()>);

impl App {
    /// Builds every part and opens the listener. Neither database has to be reachable yet.
    ///
    /// # Errors
    /// A sentence for the operator: a URL that cannot be read, a port in use.
    pub async fn build(config: Config) -> Result<Self, String> {
        let lifecycle = Lifecycle::new();
        let metrics = Metrics::new();
        let clock = Clock::default();
        let pool = mysql::pool(&config)?;
        let redis = RedisClient::new(&config)?;
        let counters = Counters::new(redis.clone(), pool.clone(), metrics.clone());
        let (hub, outbox) = Hub::new(stream_limits(&config), metrics.clone());
        let watch = Watch::new(pool.clone());
        let breakers = Breakers::new(&metrics);
        let catalogue = Catalogue::new(pool.clone(), breakers.mysql.clone(), clock.clone());
        let subscriber = locks::lock_subscriber(&config, &redis)?;
        let lock_servers = locks::LockServers::new(&config)?;
        let locks = locks::lock_sources(&config, &redis, subscriber, &lock_servers, &clock)?;
        let arbiter = Arbiter::new(pool.clone(), metrics.clone());
        let (queue, wake_ups) = Queue::new(
            redis.clone(),
            pool.clone(),
            counters.clone(),
            redis_stream::NAME,
            config.queue.backlog_max,
        );
        let lane_connections = config.mysql.lane_connections_max;
        let lane_pool = mysql::pool_of(&config, lane_connections)?;
        let lane_connections = BatchConnections::new(lane_pool.clone(), lane_connections);
        let purchase_tasks = lifecycle.purchases().clone();
        let group_commit = GroupCommit::new(arbiter.clone(), lane_connections, purchase_tasks);
        let consumers = Consumers::new(queue::Parts {
            reader: Reader::new(queue.clone()),
            group_commit: group_commit.clone(),
            arbiter: arbiter.clone(),
            pool: pool.clone(),
            hub: hub.clone(),
            metrics: metrics.clone(),
            strategy: redis_stream::NAME,
            poll: Duration::from_millis(config.queue.poll_ms),
            claim_idle: Duration::from_millis(config.queue.claim_idle_ms),
            deliveries_max: config.queue.deliveries_max,
        });
        let context = StrategyContext {
            group_commit,
            arbiter,
            pool: pool.clone(),
            redis: redis.clone(),
            counters: counters.clone(),
            buckets: Buckets::new(redis.clone(), pool.clone(), metrics.clone()),
            queue: queue.clone(),
            memory: MemoryCounters::new(pool.clone()),
            locks,
            lease: Duration::from_millis(config.lock.lease_ms),
        };
        let strategies = Strategies::new(&context)?;
        let lock_stats = strategies.locks();
        let instance = format!("{:016x}", rand::random::<u64>());
        let (keys, key_reader) = Keys::new(pool.clone(), instance.clone());
        let (requests, announcer) = Requests::new(pool.clone(), instance.clone());
        let purchases = Purchases::new(purchase::Parts {
            strategies,
            keys,
            queue: queue.clone(),
            items: Items::new(
                catalogue.clone(),
                Duration::from_millis(config.purchase.item_age_ms_max),
            ),
            breakers: breakers.clone(),
            sold_out: SoldOut::new(Duration::from_millis(config.purchase.sold_out_ms)),
            hub: hub.clone(),
            tally: Tally::default(),
            metrics: metrics.clone(),
            clock: clock.clone(),
            tasks: lifecycle.purchases().clone(),
            admission: Admission::new(
                config.purchase.in_flight_max,
                Duration::from_millis(config.purchase.wait_ms_max).min(config.gate_wait()),
                requests,
                metrics.clone(),
            ),
            waiting_room: waiting_room(&config),
            deadline: config.purchase_deadline(),
            gate_wait: config.gate_wait(),
        });
        let orders = Orders::new(
            pool.clone(),
            breakers.mysql.clone(),
            counters.clone(),
            queue,
            hub.clone(),
            metrics.clone(),
        );
        let lab = Lab::new(lab::Parts {
            purchases: purchases.clone(),
            pool: pool.clone(),
            metrics: metrics.clone(),
            clock: clock.clone(),
            tasks: lifecycle.purchases().clone(),
            stopping: lifecycle.stopping(),
        });
        let revocations = Revocations::new(pool.clone());
        let board = Board::default();

        let jobs: Vec<Arc<dyn Job>> = vec![
            Arc::new(Expire {
                orders: orders.clone(),
                purchases: purchases.clone(),
                period: Duration::from_millis(config.job.expire_period_ms),
                batch_max: config.job.expire_batch_max,
            }),
            Arc::new(Reconcile::new(
                pool.clone(),
                counters.clone(),
                metrics.clone(),
                Duration::from_millis(config.job.reconcile_period_ms),
            )),
            Arc::new(RefreshRevocations {
                revocations: revocations.clone(),
                breaker: breakers.mysql.clone(),
                period: Duration::from_millis(config.session.revocation_period_ms),
            }),
        ];
        let drained = lifecycle.drained();
        let mut workers: Vec<Worker> = Vec::new();
        for job in jobs {
            let name = job.name();
            let run = job::run(job, board.clone(), metrics.clone(), drained.clone());
            workers.push((name, Box::pin(run)));
        }
        let poll = Duration::from_millis(config.live.poll_ms);
        workers.push(("watch", Box::pin(watch.clone().run(poll, drained.clone()))));
        let send = live::send(redis.clone(), outbox, drained.clone());
        workers.push(("events out", Box::pin(send)));
        workers.push(("keys", Box::pin(key_reader.run(drained.clone()))));
        workers.push(("requests", Box::pin(announcer.run(drained.clone()))));
        workers.push(("queue", Box::pin(consumers.run(wake_ups, drained.clone()))));
        let receive = live::receive(redis.clone(), hub.clone(), drained);
        workers.push(("events in", Box::pin(receive)));

        let listener = server::listen(config.http.addr)?;
        let addr = listener.local_addr().map_err(|error| error.to_string())?;
        let proxies = Proxies::parse(&config.http.trusted_proxies)?;
        let door = Door::new(config.session.hashing_max, pool.clone(), breakers.mysql.clone());
        let web = Web::new(http::Parts {
            purchases,
            orders,
            pool: pool.clone(),
            breakers,
            lock_servers: lock_servers.signs_of_life(),
            catalogue,
            redis,
            counters,
            hub,
            lab,
            watch,
            tokens: Tokens::new(&config.secret, &config.secret_previous),
            revocations: revocations.clone(),
            door,
            rates: rates(&config),
            proxies: proxies.clone(),
            hosts: Hosts::new(&config.http.hosts, addr),
            board,
            lock_stats,
            metrics: metrics.clone(),
            clock: clock.clone(),
            lifecycle: lifecycle.clone(),
            body_limits: BodyLimits {
                bytes_max: config.http.body_bytes_max,
                timeout: Duration::from_millis(config.http.body_timeout_ms),
            },
            token_life: Duration::from_secs(u64::from(config.session.token_hours) * 3_600),
            cookie_secure: config.http.cookie_secure,
            demo_accounts: config.demo_accounts,
            static_dir: config.http.static_dir.clone(),
            instance,
        });
        let router = http::router(web);
        let limits = &config.limits;
        let crowd = Crowd::new(limits.address_connections_max, proxies, limits.loopback_exempt);
        Ok(Self {
            config,
            crowd,
            listener,
            router,
            workers,
            lifecycle,
            metrics,
            clock,
            pool,
            lane_pool,
            revocations,
            addr,
        })
    }

    /// Where it listens; the port is real even when the configuration said 0.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The wall clock that the service goes by, for tests to move.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// The stop signal and the tasks.
    #[must_use]
    pub fn lifecycle(&self) -> Lifecycle {
        self.lifecycle.clone()
    }

    /// The ledger.
    #[must_use]
    pub fn pool(&self) -> MySqlPool {
        self.pool.clone()
    }

    /// Serves until the lifecycle stops and everything has finished, or the bound is over.
    pub async fn serve(self) -> Ended {
        for (name, work) in self.workers {
            self.lifecycle.worker(name, work);
        }
        // Before the first request is read: a token that was signed out must not work again here.
        let read = tokio::time::timeout(FIRST_READ_MAX, self.revocations.refresh());
        let stopping = self.lifecycle.stopping();
        let _ = stopping.run_until_cancelled(read).await;
        if !self.revocations.was_read() {
            tracing::warn!("the ledger does not tell yet who has signed out: no token is taken");
        }
        let options = ServerOptions {
            connections_max: self.config.http.connections_max,
            head_timeout: Duration::from_millis(self.config.http.head_timeout_ms),
            crowd: self.crowd,
            write_timeout: Duration::from_millis(self.config.http.write_timeout_ms),
        };
        let server = server::serve(
            self.listener,
            self.router,
            options,
            self.lifecycle.clone(),
            self.metrics,
        );
        let acceptor = tokio::spawn(server);
        let bound = Duration::from_millis(self.config.lifecycle.drain_ms);
        let ended = self.lifecycle.run_until_stopped(bound).await;
        acceptor.abort();
        self.lane_pool.close().await;
        self.pool.close().await;
        ended
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

fn stream_limits(config: &Config) -> StreamLimits {
    let (all, limits) = (config.live.streams_max, &config.limits);
    // Rounded down: a share of very few streams is none.
    let kept = all.saturating_mul(config.live.streams_kept_percent) / 100;
    StreamLimits {
        all,
        strangers: all.saturating_sub(kept),
        each_user: limits.user_streams_max,
        each_address: limits.address_streams_max,
    }
}

fn rates(config: &Config) -> Rates {
    let limits = &config.limits;
    Rates::new(
        Rate { per_second: limits.user_per_second, burst: limits.user_burst },
        Rate { per_second: limits.address_per_second, burst: limits.address_burst },
        limits.loopback_exempt,
    )
}

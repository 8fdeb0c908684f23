//! Every metric of the core, declared once, and those that extensions add; `GET /metrics` writes them as OpenMetrics text.
//!
//! Label values come from fixed lists (strategies, codes, reasons), never from a request, so that
//! the number of time series is bounded.

mod times;

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use times::Times;

/// A duration that a lock measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockTime {
    /// Time from the call to the grant.
    Wait,
    /// Time from the grant to the release.
    Hold,
    /// Time from the moment at which a renewal is due to its confirmation.
    RenewalLag,
}

/// Labels, each with its name.
type Labels<const N: usize> = [(&'static str, &'static str); N];
type RequestLabels = (Labels<1>, [(&'static str, u16); 1]);
type HistogramMaker = fn() -> Histogram;

/// Buckets from 0.5 ms to 16 s.
const PURCHASE_TIMES: HistogramMaker = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));

/// Declares metrics, a line each: the field, its name in the text, perhaps its unit, and its help. What stands behind
/// `=` is the metric at zero; otherwise it is the default. A line without a name is a group of metrics.
#[macro_export]
macro_rules! metrics {
    ($(#[$doc:meta])* pub struct $group:ident {
        $($(#[$about:meta])* $vis:vis $field:ident: $kind:ty $(= $zero:expr)?
            $(, $name:literal $(in $unit:expr)?, $help:literal)?;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $group {
            $($(#[$about])* $vis $field: $kind,)+
        }

        impl Default for $group {
            fn default() -> Self {
                Self { $($field: $crate::metrics!(@zero $($zero)?),)+ }
            }
        }

        impl $group {
            /// Adds them to a registry.
            pub fn register(&self, registry: &mut ::prometheus_client::registry::Registry) {
                $($crate::metrics!(
                    @register registry, self.$field $(, $name $(in $unit)?, $help)?
                );)+
            }
        }
    };
    (@zero) => { Default::default() };
    (@zero $zero:expr) => { $zero };
    (@register $registry:ident, $metrics:expr) => { $metrics.register($registry) };
    (@register $registry:ident, $metric:expr, $name:literal, $help:literal) => {
        $registry.register($name, $help, $metric.clone())
    };
    (@register $registry:ident, $metric:expr, $name:literal in $unit:expr, $help:literal) => {
        $registry.register_with_unit($name, $help, $unit, $metric.clone())
    };
}

/// All metrics. Clones share the counts: a clone is one pointer, because each request and each connection has some.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Registered>);

#[derive(Debug)]
struct Registered {
    counts: Counts,
    registry: Registry,
    /// Those of extensions.
    added: Mutex<Registry>,
}

metrics! {
    /// The counts of all metrics.
    pub struct Counts {
        purchases: Family<Labels<2>, Counter>, "purchases", "Purchases by strategy and outcome";
        purchase_seconds: Family<Labels<1>, Histogram, HistogramMaker>
            = Family::new_with_constructor(PURCHASE_TIMES),
            "purchase" in Unit::Seconds, "Time of a purchase from admission to outcome";
        arbiter_refusals: Family<Labels<1>, Counter>,
            "arbiter_refusals", "Orders that a strategy accepted and the arbiter refused";
        arbiter_refusals_by_reason: Family<Labels<2>, Counter>, "arbiter_refusals_by_reason",
            "Orders that a strategy accepted and the arbiter refused, by reason";
        /// Transactions that the arbiter retried as a whole.
        pub arbiter_retries: Counter, "arbiter_retries", "Transactions that the arbiter retried";
        /// Retries that the arbiter left out, because its retry budget was used up.
        pub arbiter_retries_unaffordable: Counter, "arbiter_retries_unaffordable",
            "Retries left out because the retry budget was used up";
        breakers: Family<Labels<1>, Gauge>,
            "breaker_open", "1 while the circuit breaker of a server is open";
        /// The ledger's servers.
        pub ledger: LedgerMetrics;
        /// COMMITs to which MySQL's answer was lost.
        pub arbiter_commits_lost: Counter,
            "arbiter_commits_lost", "COMMITs to which the answer of MySQL was lost";
        /// Orders per batch of group commit.
        pub batch_size: Histogram = Histogram::new(exponential_buckets(1.0, 2.0, 9)),
            "batch_orders", "Orders per batch of group commit";
        /// Items per batch of group commit.
        pub batch_items: Histogram = Histogram::new(exponential_buckets(1.0, 2.0, 9)),
            "batch_items", "Items per batch of group commit";
        /// Items whose orders are written apart from those of other items at the moment.
        pub batch_suspects: Gauge,
            "batch_suspects", "Items whose orders group commit writes apart from those of other items";
        /// Purchases that run or wait at the moment.
        pub purchases_in_flight: Gauge,
            "purchases_in_flight", "Purchases that run or wait at the moment";
        /// Purchases refused at once by load shedding.
        pub purchases_shed: Counter, "purchases_shed", "Purchases refused at once by load shedding";
        /// Purchases refused as sold out from memory, without Redis or MySQL.
        pub sold_out_from_memory: Counter,
            "sold_out_from_memory", "Purchases refused as sold out without Redis or MySQL";
        requests: Family<RequestLabels, Counter>,
            "http_requests", "HTTP requests by method and status";
        /// Open connections.
        pub connections: Gauge, "http_connections", "Open connections";
        /// Connections closed at once, because their address had too many open.
        pub connections_refused: Counter, "http_connections_refused",
            "Connections closed at once because their address had too many";
        waiting_room: Family<Labels<1>, Counter>,
            "waiting_room_answers", "Answers to requests for a purchase ticket";
        waiting_room_exits: Family<Labels<1>, Counter>,
            "waiting_room_exits", "Buyers who are out of a waiting room again";
        rate_limited: Family<Labels<1>, Counter>,
            "http_rate_limited", "Requests answered with 429 rate_limited";
        /// Connections closed because the client did not read.
        pub slow_readers_dropped: Counter,
            "http_slow_readers_dropped", "Connections closed because the client did not read";
        /// Open event streams.
        pub streams: Gauge, "live_streams", "Open event streams";
        job_runs: Family<Labels<2>, Counter>, "job_runs", "Runs of background jobs by result";
        /// Orders that expired unpaid.
        pub orders_expired: Counter, "orders_expired", "Orders that expired unpaid";
        /// Redis stock counters rebuilt from the ledger.
        pub counters_rebuilt: Counter,
            "counters_rebuilt", "Redis stock counters rebuilt from the ledger";
        /// Units by which the Redis stock counters differ from the ledger, summed over the items.
        pub counters_drift: Gauge, "counters_drift_units",
            "Units by which Redis stock counters differ from the ledger";
        /// Units that purchases took from a Redis stock counter and gave back unsold.
        pub counters_given_back: Counter, "counters_given_back",
            "Units that purchases took from Redis stock counters and gave back unsold";
        queue_decided: Family<Labels<1>, Counter>,
            "queue_decided", "Queued orders by the decision of the ledger";
        /// Orders in the Redis queues that wait or are being written, at the last poll.
        pub queue_waiting: Gauge, "queue_waiting", "Orders in the Redis queues";
        /// Queued orders reclaimed from a consumer that did not finish them in time.
        pub queue_reclaimed: Counter,
            "queue_reclaimed", "Queued orders reclaimed from a slow consumer";
        /// Queued orders moved to the dead letters.
        pub queue_parked: Counter, "queue_parked", "Queued orders moved to the dead letters";
        lock_events: Family<Labels<3>, Gauge>,
            "lock", "Lock events since the start of the service";
        lock_wait: Family<Labels<2>, Times>,
            "lock_wait" in Unit::Seconds, "Time from the call of a lock to its grant";
        lock_hold: Family<Labels<2>, Times>,
            "lock_hold" in Unit::Seconds, "Time from the grant of a lock to its release";
        lock_renewal_lag: Family<Labels<2>, Times>,
            "lock_renewal_lag" in Unit::Seconds, "Delay of lock renewals";
        /// The last audit of the recent sales.
        pub audit: AuditMetrics;
        /// Time from the end of a hold to its expiry.
        pub expiry_lag: Histogram = Histogram::new(exponential_buckets(0.1, 2.0, 10)),
            "expiry_lag" in Unit::Seconds, "Time from the end of a hold to its expiry";
        /// The waiting lists.
        pub waiting: WaitingMetrics;
        trace_spans: Family<Labels<1>, Counter>, "trace_spans",
            "Spans of traces: sent, failed (the collector did not take them), dropped (too many waited)";
    }
}

impl Deref for Metrics {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.0.counts
    }
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        let counts = Counts::default();
        let mut registry = Registry::default();
        counts.register(registry.sub_registry_with_prefix("seckill"));
        Self(Arc::new(Registered { counts, registry, added: Mutex::default() }))
    }

    /// Adds metrics of an extension.
    pub fn add(&self, register: impl FnOnce(&mut Registry)) {
        let mut added = self.0.added.lock().unwrap_or_else(PoisonError::into_inner);
        register(added.sub_registry_with_prefix("seckill"));
    }

    /// All metrics as OpenMetrics text.
    pub fn render(&self) -> String {
        let mut written = String::new();
        let added = self.0.added.lock().unwrap_or_else(PoisonError::into_inner);
        text::encode_registry(&mut written, &self.0.registry)
            .and_then(|()| text::encode_registry(&mut written, &added))
            .and_then(|()| text::encode_eof(&mut written))
            .expect("writing to a String does not fail");
        written
    }
}

impl Counts {
    /// Counts a purchase and its time.
    pub fn purchase_ended(&self, strategy: &'static str, outcome: &'static str, seconds: f64) {
        self.purchases.get_or_create(&[("strategy", strategy), ("outcome", outcome)]).inc();
        self.purchase_seconds.get_or_create(&[("strategy", strategy)]).observe(seconds);
    }

    /// Counts an order that a strategy accepted and the arbiter refused.
    pub fn arbiter_refused(&self, strategy: &'static str, reason: &'static str) {
        self.arbiter_refusals.get_or_create(&[("strategy", strategy)]).inc();
        self.arbiter_refusals_by_reason
            .get_or_create(&[("strategy", strategy), ("reason", reason)])
            .inc();
    }

    /// The number of orders of a strategy that the arbiter has refused.
    pub fn arbiter_refusals_of(&self, strategy: &'static str) -> u64 {
        self.arbiter_refusals.get_or_create(&[("strategy", strategy)]).get()
    }

    /// Counts the ledger's decision about a queued order.
    pub fn queue_decided(&self, decision: &'static str) {
        self.queue_decided.get_or_create(&[("decision", decision)]).inc();
    }

    /// Counts a response.
    pub fn request_answered(&self, method: &'static str, status: u16) {
        self.requests.get_or_create(&([("method", method)], [("status", status)])).inc();
    }

    /// Counts a request that a rate limit refused; `by` is `user` or `address`.
    pub fn rate_limited(&self, by: &'static str) {
        self.rate_limited.get_or_create(&[("by", by)]).inc();
    }

    /// Counts spans of traces: `sent`, `failed` or `dropped`.
    pub fn trace_spans(&self, result: &'static str, spans: usize) {
        self.trace_spans.get_or_create(&[("result", result)]).inc_by(spans as u64);
    }

    /// Counts an answer of the waiting room: `waiting`, `admitted` or `refused`.
    pub fn waiting_room_answered(&self, answer: &'static str) {
        self.waiting_room.get_or_create(&[("answer", answer)]).inc();
    }

    /// Counts buyers who are out of the waiting room: `bought`, `refused`, `left` or `expired`.
    pub fn waiting_room_left(&self, reason: &'static str, buyers: u64) {
        if buyers > 0 {
            self.waiting_room_exits.get_or_create(&[("reason", reason)]).inc_by(buyers);
        }
    }

    /// Sets whether the circuit breaker of a server is open.
    pub fn breaker_is_open(&self, dependency: &'static str, is_open: bool) {
        self.breakers.get_or_create(&[("dependency", dependency)]).set(is_open.into());
    }

    /// Counts a run of a background job.
    pub fn job_ran(&self, job: &'static str, result: &'static str) {
        self.job_runs.get_or_create(&[("job", job), ("result", result)]).inc();
    }

    /// Sets how many events of one type the locks of a kind have counted.
    pub fn lock_counted(
        &self,
        kind: &'static str,
        backend: &'static str,
        event: &'static str,
        count: u64,
    ) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.lock_events
            .get_or_create(&[("kind", kind), ("backend", backend), ("event", event)])
            .set(count);
    }

    /// Sets the histogram of a duration of the locks of a kind. `below_us` has upper bounds in
    /// microseconds, each with the number of durations up to it; then follow the number of all
    /// durations and their sum in microseconds.
    pub fn lock_took(
        &self,
        kind: &'static str,
        backend: &'static str,
        what: LockTime,
        below_us: impl Iterator<Item = (u64, u64)>,
        count: u64,
        sum_us: u64,
    ) {
        let times = match what {
            LockTime::Wait => &self.lock_wait,
            LockTime::Hold => &self.lock_hold,
            LockTime::RenewalLag => &self.lock_renewal_lag,
        };
        times.get_or_create(&[("kind", kind), ("backend", backend)]).set(below_us, count, sum_us);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// A clone is one pointer: each request has several clones, and each idle connection some.
const _: () = assert!(size_of::<Metrics>() == size_of::<usize>());

metrics! {
    /// The metrics of the ledger's servers. Clones share the counts.
    pub struct LedgerMetrics {
        /// The place of the writer in `DATABASE_URL`, from 1; 0 with one host or before it is found.
        pub writer: Gauge, "ledger_writer", "Place of the writer in DATABASE_URL";
        /// Hosts that say that they take writes; 0 with one host.
        pub writers: Gauge,
            "ledger_writers", "Hosts of DATABASE_URL that say that they take writes";
        /// How often the writer became another host.
        pub writer_changes: Counter,
            "ledger_writer_changes", "Changes of the writer to another host of DATABASE_URL";
        /// 1 while the replication that was set up does not protect commits.
        pub replication_fault: Gauge, "ledger_replication_fault",
            "1 while the replication of the ledger does not protect commits";
        /// Commits that no replica has acknowledged, since the start of the writer.
        pub commits_unacknowledged: Gauge, "ledger_commits_unacknowledged",
            "Commits that no semi-synchronous replica has acknowledged";
        /// 1 while several hosts say that they take writes, and their engine does not allow that.
        pub writers_in_conflict: Gauge, "ledger_writers_in_conflict",
            "1 while several hosts take writes, and their engine does not allow that";
        /// Seconds by which the slowest replica among the hosts is behind the writer.
        pub replica_lag: Gauge, "ledger_replica_lag" in Unit::Seconds,
            "Time by which the slowest replica among the hosts is behind the writer";
        /// Replicas among the hosts that apply nothing.
        pub replicas_stopped: Gauge,
            "ledger_replicas_stopped", "Replicas among the hosts that apply nothing";
        /// 1 while the ledger does not answer, or takes no writes.
        pub away: Gauge, "ledger_away", "1 while the ledger does not answer, or takes no writes";
        /// Connections for single orders and reads that are in use.
        pub connections_busy: Gauge, "ledger_connections_busy",
            "Connections for single orders and reads that are in use";
        /// The most connections for single orders and reads.
        pub connections_max: Gauge, "ledger_connections_max",
            "The most connections for single orders and reads";
    }
}

metrics! {
    /// What the last audit found. Clones share the values.
    pub struct AuditMetrics {
        broken: Family<Labels<1>, Gauge>, "audit_broken_items",
            "Recent sales that break an invariant, by the last audit";
        /// Units that were sold beyond the stock, summed over the items.
        pub oversold: Gauge,
            "audit_oversold_units", "Units sold beyond the stock, by the last audit";
        /// The time at which the last audit of all recent sales ended, in seconds since 1970.
        pub ended_at: Gauge, "audit_ended" in Unit::Other("timestamp_seconds".to_owned()),
            "Time of the end of the last audit of all recent sales, since 1970";
        /// Sales that are open and have units left.
        pub sales_with_stock: Gauge,
            "sales_with_stock", "Open sales with units left, at the last audit";
    }
}

impl AuditMetrics {
    /// Sets how many recent sales break an invariant.
    pub fn found(&self, invariant: &'static str, broken: i64) {
        self.broken.get_or_create(&[("invariant", invariant)]).set(broken);
    }
}

metrics! {
    /// The metrics of the waiting lists. Clones share the counts.
    pub struct WaitingMetrics {
        places: Family<Labels<1>, Counter>, "waiting_list_places",
            "Places in waiting lists by the status that this instance gave them";
        waiting: Gauge, "waiting_list_buyers", "Buyers who wait for a unit";
        offered: Gauge, "waiting_list_offers", "Units that are held for a buyer who waited";
        idle: Gauge, "waiting_list_idle_units",
            "Units that are available although a buyer waits for them";
    }
}

impl WaitingMetrics {
    /// Counts a place that got a status.
    pub fn changed(&self, status: &'static str) {
        self.places.get_or_create(&[("status", status)]).inc();
    }

    /// Sets the figures of all lists.
    pub fn set(&self, waiting: i64, offered: i64, idle: i64) {
        self.waiting.set(waiting);
        self.offered.set(offered);
        self.idle.set(idle);
    }
}

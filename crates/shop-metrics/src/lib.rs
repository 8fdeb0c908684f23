//! Every metric of the core, declared once, and those that extensions add; `GET /metrics` writes them as OpenMetrics text.
//!
//! Label values come from fixed lists (strategies, codes, reasons), never from a request, so that
//! the number of time series is bounded.

mod audit;
mod labels;
mod ledger;
mod times;
mod waiting;

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use labels::{
    AnswerLabel, DecisionLabels, DependencyLabel, ExitLabel, JobLabels, LimitLabels, LockLabel,
    LockLabels, PurchaseLabels, RefusalLabels, RequestLabels, SpanLabel, StrategyLabel,
};
use ledger::LedgerMetrics;
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

type HistogramMaker = fn() -> Histogram;

/// All metrics. Clones share the counts: a clone is one pointer, because each request and each connection has some.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Counts>);

/// The counts of all metrics.
#[derive(Debug)]
pub struct Counts {
    registry: Registry,
    /// Those of extensions.
    added: Mutex<Registry>,
    purchases: Family<PurchaseLabels, Counter>,
    purchase_seconds: Family<StrategyLabel, Histogram, HistogramMaker>,
    arbiter_refusals: Family<StrategyLabel, Counter>,
    arbiter_refusals_by_reason: Family<RefusalLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
    job_runs: Family<JobLabels, Counter>,
    lock_events: Family<LockLabels, Gauge>,
    lock_wait: Family<LockLabel, Times>,
    lock_hold: Family<LockLabel, Times>,
    lock_renewal_lag: Family<LockLabel, Times>,
    queue_decided: Family<DecisionLabels, Counter>,
    /// Orders in the Redis queues that wait or are being written, at the last poll.
    pub queue_waiting: Gauge,
    /// Queued orders reclaimed from a consumer that did not finish them in time.
    pub queue_reclaimed: Counter,
    /// Queued orders moved to the dead letters.
    pub queue_parked: Counter,
    trace_spans: Family<SpanLabel, Counter>,
    /// The waiting lists.
    pub waiting: waiting::WaitingMetrics,
    rate_limited: Family<LimitLabels, Counter>,
    waiting_room: Family<AnswerLabel, Counter>,
    waiting_room_exits: Family<ExitLabel, Counter>,
    breakers: Family<DependencyLabel, Gauge>,
    /// The ledger's servers.
    pub ledger: LedgerMetrics,
    /// The last audit of the recent sales.
    pub audit: audit::AuditMetrics,
    /// Time from the end of a hold to its expiry.
    pub expiry_lag: Histogram,
    /// Transactions that the arbiter retried as a whole.
    pub arbiter_retries: Counter,
    /// Retries that the arbiter left out, because its retry budget was used up.
    pub arbiter_retries_unaffordable: Counter,
    /// COMMITs to which MySQL's answer was lost.
    pub arbiter_commits_lost: Counter,
    /// Orders per batch of group commit.
    pub batch_size: Histogram,
    /// Items per batch of group commit.
    pub batch_items: Histogram,
    /// Items whose orders are written apart from those of other items at the moment.
    pub batch_suspects: Gauge,
    /// Purchases that run or wait at the moment.
    pub purchases_in_flight: Gauge,
    /// Purchases refused at once by load shedding.
    pub purchases_shed: Counter,
    /// Purchases refused as sold out from memory, without Redis or MySQL.
    pub sold_out_from_memory: Counter,
    /// Open connections.
    pub connections: Gauge,
    /// Connections closed at once, because their address had too many open.
    pub connections_refused: Counter,
    /// Connections closed because the client did not read.
    pub slow_readers_dropped: Counter,
    /// Open event streams.
    pub streams: Gauge,
    /// Orders that expired unpaid.
    pub orders_expired: Counter,
    /// Redis stock counters rebuilt from the ledger.
    pub counters_rebuilt: Counter,
    /// Units by which the Redis stock counters differ from the ledger, summed over the items.
    pub counters_drift: Gauge,
    /// Units that purchases took from a Redis stock counter and gave back unsold.
    pub counters_given_back: Counter,
}

impl Deref for Metrics {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.0
    }
}

impl Metrics {
    /// All metrics at zero.
    #[must_use]
    pub fn new() -> Self {
        // Buckets from 0.5 ms to 16 s.
        let maker: HistogramMaker = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let mut counts = Counts {
            registry: Registry::default(),
            added: Mutex::default(),
            purchases: Family::default(),
            purchase_seconds: Family::new_with_constructor(maker),
            arbiter_refusals: Family::default(),
            arbiter_refusals_by_reason: Family::default(),
            requests: Family::default(),
            job_runs: Family::default(),
            lock_events: Family::default(),
            lock_wait: Family::default(),
            lock_hold: Family::default(),
            lock_renewal_lag: Family::default(),
            queue_decided: Family::default(),
            queue_waiting: Gauge::default(),
            queue_reclaimed: Counter::default(),
            queue_parked: Counter::default(),
            trace_spans: Family::default(),
            rate_limited: Family::default(),
            waiting: waiting::WaitingMetrics::default(),
            waiting_room: Family::default(),
            waiting_room_exits: Family::default(),
            breakers: Family::default(),
            ledger: LedgerMetrics::default(),
            audit: audit::AuditMetrics::default(),
            // Buckets from 0.1 s to 51 s.
            expiry_lag: Histogram::new(exponential_buckets(0.1, 2.0, 10)),
            arbiter_retries: Counter::default(),
            arbiter_retries_unaffordable: Counter::default(),
            arbiter_commits_lost: Counter::default(),
            batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 9)),
            batch_items: Histogram::new(exponential_buckets(1.0, 2.0, 9)),
            batch_suspects: Gauge::default(),
            purchases_in_flight: Gauge::default(),
            purchases_shed: Counter::default(),
            sold_out_from_memory: Counter::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            slow_readers_dropped: Counter::default(),
            streams: Gauge::default(),
            orders_expired: Counter::default(),
            counters_rebuilt: Counter::default(),
            counters_drift: Gauge::default(),
            counters_given_back: Counter::default(),
        };
        counts.registry = counts.register();
        Self(Arc::new(counts))
    }
}

impl Counts {
    fn register(&self) -> Registry {
        let mut root = Registry::default();
        let r = root.sub_registry_with_prefix("seckill");
        r.register("purchases", "Purchases by strategy and outcome", self.purchases.clone());
        let time = "Time of a purchase from admission to outcome";
        r.register_with_unit("purchase", time, Unit::Seconds, self.purchase_seconds.clone());
        let refusals = "Orders that a strategy accepted and the arbiter refused";
        r.register("arbiter_refusals", refusals, self.arbiter_refusals.clone());
        let why = "Orders that a strategy accepted and the arbiter refused, by reason";
        r.register("arbiter_refusals_by_reason", why, self.arbiter_refusals_by_reason.clone());
        let retries = self.arbiter_retries.clone();
        r.register("arbiter_retries", "Transactions that the arbiter retried", retries);
        let left_out = "Retries left out because the retry budget was used up";
        let unaffordable = self.arbiter_retries_unaffordable.clone();
        r.register("arbiter_retries_unaffordable", left_out, unaffordable);
        let breakers = "1 while the circuit breaker of a server is open";
        r.register("breaker_open", breakers, self.breakers.clone());
        self.ledger.register(r);
        let lost = self.arbiter_commits_lost.clone();
        r.register("arbiter_commits_lost", "COMMITs to which the answer of MySQL was lost", lost);
        r.register("batch_orders", "Orders per batch of group commit", self.batch_size.clone());
        r.register("batch_items", "Items per batch of group commit", self.batch_items.clone());
        let suspects = "Items whose orders group commit writes apart from those of other items";
        r.register("batch_suspects", suspects, self.batch_suspects.clone());
        let in_flight = self.purchases_in_flight.clone();
        r.register("purchases_in_flight", "Purchases that run or wait at the moment", in_flight);
        let shed = "Purchases refused at once by load shedding";
        r.register("purchases_shed", shed, self.purchases_shed.clone());
        let memory = "Purchases refused as sold out without Redis or MySQL";
        r.register("sold_out_from_memory", memory, self.sold_out_from_memory.clone());
        r.register("http_requests", "HTTP requests by method and status", self.requests.clone());
        r.register("http_connections", "Open connections", self.connections.clone());
        let refused = self.connections_refused.clone();
        r.register(
            "http_connections_refused",
            "Connections closed at once because their address had too many",
            refused,
        );
        let answers = self.waiting_room.clone();
        r.register("waiting_room_answers", "Answers to requests for a purchase ticket", answers);
        let exits = self.waiting_room_exits.clone();
        r.register("waiting_room_exits", "Buyers who are out of a waiting room again", exits);
        let limited = self.rate_limited.clone();
        r.register("http_rate_limited", "Requests answered with 429 rate_limited", limited);
        let slow = self.slow_readers_dropped.clone();
        r.register(
            "http_slow_readers_dropped",
            "Connections closed because the client did not read",
            slow,
        );
        r.register("live_streams", "Open event streams", self.streams.clone());
        r.register("job_runs", "Runs of background jobs by result", self.job_runs.clone());
        r.register("orders_expired", "Orders that expired unpaid", self.orders_expired.clone());
        let rebuilt = self.counters_rebuilt.clone();
        r.register("counters_rebuilt", "Redis stock counters rebuilt from the ledger", rebuilt);
        let drift = self.counters_drift.clone();
        r.register(
            "counters_drift_units",
            "Units by which Redis stock counters differ from the ledger",
            drift,
        );
        let given_back = self.counters_given_back.clone();
        r.register(
            "counters_given_back",
            "Units that purchases took from Redis stock counters and gave back unsold",
            given_back,
        );
        let decided = self.queue_decided.clone();
        r.register("queue_decided", "Queued orders by the decision of the ledger", decided);
        r.register("queue_waiting", "Orders in the Redis queues", self.queue_waiting.clone());
        let reclaimed = self.queue_reclaimed.clone();
        r.register("queue_reclaimed", "Queued orders reclaimed from a slow consumer", reclaimed);
        let parked = self.queue_parked.clone();
        r.register("queue_parked", "Queued orders moved to the dead letters", parked);
        r.register("lock", "Lock events since the start of the service", self.lock_events.clone());
        for (name, help, times) in [
            ("lock_wait", "Time from the call of a lock to its grant", &self.lock_wait),
            ("lock_hold", "Time from the grant of a lock to its release", &self.lock_hold),
            ("lock_renewal_lag", "Delay of lock renewals", &self.lock_renewal_lag),
        ] {
            r.register_with_unit(name, help, Unit::Seconds, times.clone());
        }
        self.audit.register(r);
        let lag = "Time from the end of a hold to its expiry";
        r.register_with_unit("expiry_lag", lag, Unit::Seconds, self.expiry_lag.clone());
        self.waiting.register(r);
        let spans = "Spans of traces: sent, failed (the collector did not take them), dropped (too many waited)";
        r.register("trace_spans", spans, self.trace_spans.clone());
        root
    }

    /// Adds metrics of an extension.
    pub fn add(&self, register: impl FnOnce(&mut Registry)) {
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        register(added.sub_registry_with_prefix("seckill"));
    }

    /// Counts a purchase and its time.
    pub fn purchase_ended(&self, strategy: &'static str, outcome: &'static str, seconds: f64) {
        self.purchases.get_or_create(&PurchaseLabels { strategy, outcome }).inc();
        self.purchase_seconds.get_or_create(&StrategyLabel { strategy }).observe(seconds);
    }

    /// Counts an order that a strategy accepted and the arbiter refused.
    pub fn arbiter_refused(&self, strategy: &'static str, reason: &'static str) {
        self.arbiter_refusals.get_or_create(&StrategyLabel { strategy }).inc();
        self.arbiter_refusals_by_reason.get_or_create(&RefusalLabels { strategy, reason }).inc();
    }

    /// The number of orders of a strategy that the arbiter has refused.
    #[must_use]
    pub fn arbiter_refusals_of(&self, strategy: &'static str) -> u64 {
        self.arbiter_refusals.get_or_create(&StrategyLabel { strategy }).get()
    }

    /// Counts the ledger's decision about a queued order.
    pub fn queue_decided(&self, decision: &'static str) {
        self.queue_decided.get_or_create(&DecisionLabels { decision }).inc();
    }

    /// Counts a response.
    pub fn request_answered(&self, method: &'static str, status: u16) {
        self.requests.get_or_create(&RequestLabels { method, status }).inc();
    }

    /// Counts a request that a rate limit refused; `by` is `user` or `address`.
    pub fn rate_limited(&self, by: &'static str) {
        self.rate_limited.get_or_create(&LimitLabels { by }).inc();
    }

    /// Counts spans of traces: `sent`, `failed` or `dropped`.
    pub fn trace_spans(&self, result: &'static str, spans: usize) {
        self.trace_spans.get_or_create(&SpanLabel { result }).inc_by(spans as u64);
    }

    /// Counts an answer of the waiting room: `waiting`, `admitted` or `refused`.
    pub fn waiting_room_answered(&self, answer: &'static str) {
        self.waiting_room.get_or_create(&AnswerLabel { answer }).inc();
    }

    /// Counts buyers who are out of the waiting room: `bought`, `refused`, `left` or `expired`.
    pub fn waiting_room_left(&self, reason: &'static str, buyers: u64) {
        if buyers > 0 {
            self.waiting_room_exits.get_or_create(&ExitLabel { reason }).inc_by(buyers);
        }
    }

    /// Sets whether the circuit breaker of a server is open.
    pub fn breaker_is_open(&self, dependency: &'static str, is_open: bool) {
        self.breakers.get_or_create(&DependencyLabel { dependency }).set(is_open.into());
    }

    /// Counts a run of a background job.
    pub fn job_ran(&self, job: &'static str, result: &'static str) {
        self.job_runs.get_or_create(&JobLabels { job, result }).inc();
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
        self.lock_events.get_or_create(&LockLabels { kind, backend, event }).set(count);
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
        times.get_or_create(&LockLabel { kind, backend }).set(below_us, count, sum_us);
    }

    /// All metrics as OpenMetrics text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut written = String::new();
        let added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        text::encode_registry(&mut written, &self.registry)
            .and_then(|()| text::encode_registry(&mut written, &added))
            .and_then(|()| text::encode_eof(&mut written))
            .expect("writing to a String does not fail");
        written
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// A clone is one pointer: each request has several clones, and each idle connection some.
const _: () = assert!(size_of::<Metrics>() == size_of::<usize>());

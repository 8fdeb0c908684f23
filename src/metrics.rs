//! Every metric, declared once with what it counts; `GET /metrics` writes them out.
//!
//! Labels come from the lists of strategies, codes and reasons, never from a request, so that
//! their number is bounded.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The labels of a purchase.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PurchaseLabels {
    strategy: &'static str,
    outcome: &'static str,
}

/// The labels of an arbiter's refusal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusalLabels {
    strategy: &'static str,
    reason: &'static str,
}

/// One label: the strategy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StrategyLabel {
    strategy: &'static str,
}

/// The labels of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    method: &'static str,
    status: u16,
}

/// The labels of a background job's run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct JobLabels {
    job: &'static str,
    result: &'static str,
}

/// The labels of a lock: its kind, where it is kept, and what is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LockLabels {
    lock: &'static str,
    backend: &'static str,
    event: &'static str,
}

type HistogramMaker = fn() -> Histogram;

/// All metrics. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    purchases: Family<PurchaseLabels, Counter>,
    purchase_seconds: Family<StrategyLabel, Histogram, HistogramMaker>,
    arbiter_refusals: Family<StrategyLabel, Counter>,
    arbiter_refusals_by_reason: Family<RefusalLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
    job_runs: Family<JobLabels, Counter>,
    lock_events: Family<LockLabels, Gauge>,
    /// Whole transactions that the arbiter tried again.
    pub arbiter_retries: Counter,
    /// COMMITs whose answer was lost.
    pub arbiter_commits_lost: Counter,
    /// Orders per batch of a lane.
    pub batch_size: Histogram,
    /// Purchases that run or wait now.
    pub purchases_in_flight: Gauge,
    /// Purchases refused from the sold-out flag, without Redis or MySQL.
    pub sold_out_from_memory: Counter,
    /// Open connections.
    pub connections: Gauge,
    /// Open event streams.
    pub streams: Gauge,
    /// Orders that expired.
    pub orders_expired: Counter,
    /// Redis counters that were rebuilt from the ledger.
    pub counters_rebuilt: Counter,
    /// Units by which Redis counters differ from the ledger, summed over items.
    pub counters_drift: Gauge,
    /// Units that were given back to a Redis counter after the arbiter refused.
    pub counters_given_back: Counter,
}

impl Metrics {
    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        // From half a millisecond to sixteen seconds.
        let maker: HistogramMaker = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let mut metrics = Self {
            registry: Arc::default(),
            purchases: Family::default(),
            purchase_seconds: Family::new_with_constructor(maker),
            arbiter_refusals: Family::default(),
            arbiter_refusals_by_reason: Family::default(),
            requests: Family::default(),
            job_runs: Family::default(),
            lock_events: Family::default(),
            arbiter_retries: Counter::default(),
            arbiter_commits_lost: Counter::default(),
            batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 9)),
            purchases_in_flight: Gauge::default(),
            sold_out_from_memory: Counter::default(),
            connections: Gauge::default(),
            streams: Gauge::default(),
            orders_expired: Counter::default(),
            counters_rebuilt: Counter::default(),
            counters_drift: Gauge::default(),
            counters_given_back: Counter::default(),
        };
        metrics.registry = Arc::new(metrics.register());
        metrics
    }

    fn register(&self) -> Registry {
        let mut root = Registry::default();
        let r = root.sub_registry_with_prefix("seckill");
        r.register("purchases", "Purchases by strategy and outcome", self.purchases.clone());
        let seconds = self.purchase_seconds.clone();
        r.register_with_unit("purchase", "Time from admission to outcome", Unit::Seconds, seconds);
        let refusals = "Writes that a gate let through and the arbiter refused";
        r.register("arbiter_refusals", refusals, self.arbiter_refusals.clone());
        let by_reason = self.arbiter_refusals_by_reason.clone();
        r.register("arbiter_refusals_by_reason", "The same with the reason", by_reason);
        r.register(
            "arbiter_retries",
            "Whole transactions tried again",
            self.arbiter_retries.clone(),
        );
        let lost = self.arbiter_commits_lost.clone();
        r.register("arbiter_commits_lost", "COMMITs whose answer was lost", lost);
        r.register("batch_orders", "Orders per batch of a lane", self.batch_size.clone());
        let in_flight = self.purchases_in_flight.clone();
        r.register("purchases_in_flight", "Purchases that run or wait now", in_flight);
        let memory = self.sold_out_from_memory.clone();
        r.register("sold_out_from_memory", "Refusals that asked neither Redis nor MySQL", memory);
        r.register("http_requests", "Requests by method and status", self.requests.clone());
        r.register("http_connections", "Open connections", self.connections.clone());
        r.register("live_streams", "Open event streams", self.streams.clone());
        r.register("job_runs", "Runs of background jobs by result", self.job_runs.clone());
        r.register("orders_expired", "Orders whose hold ran out", self.orders_expired.clone());
        let rebuilt = self.counters_rebuilt.clone();
        r.register("counters_rebuilt", "Redis counters rebuilt from the ledger", rebuilt);
        let drift = self.counters_drift.clone();
        r.register("counters_drift_units", "Redis counters against the ledger", drift);
        let given_back = self.counters_given_back.clone();
        r.register("counters_given_back", "Units given back after a refusal", given_back);
        r.register("lock", "What locks did since the start, by event", self.lock_events.clone());
        root
    }

    /// A purchase ended.
    pub fn purchase_ended(&self, strategy: &'static str, outcome: &'static str, seconds: f64) {
        self.purchases.get_or_create(&PurchaseLabels { strategy, outcome }).inc();
        self.purchase_seconds.get_or_create(&StrategyLabel { strategy }).observe(seconds);
    }

    /// The arbiter refused what a gate had let through.
    pub fn arbiter_refused(&self, strategy: &'static str, reason: &'static str) {
        self.arbiter_refusals.get_or_create(&StrategyLabel { strategy }).inc();
        self.arbiter_refusals_by_reason.get_or_create(&RefusalLabels { strategy, reason }).inc();
    }

    /// What the arbiter refused of a strategy so far.
    #[must_use]
    pub fn arbiter_refusals_of(&self, strategy: &'static str) -> u64 {
        self.arbiter_refusals.get_or_create(&StrategyLabel { strategy }).get()
    }

    /// A request was answered.
    pub fn request_answered(&self, method: &'static str, status: u16) {
        self.requests.get_or_create(&RequestLabels { method, status }).inc();
    }

    /// A background job ran.
    pub fn job_ran(&self, job: &'static str, result: &'static str) {
        self.job_runs.get_or_create(&JobLabels { job, result }).inc();
    }

    /// Sets what the locks of a kind counted so far.
    pub fn lock_counted(
        &self,
        (lock, backend): (&'static str, &'static str),
        event: &'static str,
        count: u64,
    ) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.lock_events.get_or_create(&LockLabels { lock, backend, event }).set(count);
    }

    /// The text that Prometheus reads.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a String does not fail");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

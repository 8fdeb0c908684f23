//! Every metric, declared once with what it counts; `GET /metrics` writes them out.
//!
//! Labels come from the lists of strategies, codes and reasons, never from a request, so that
//! their number is bounded.

mod times;

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use times::Times;

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

/// The labels of what locks did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LockLabels {
    kind: &'static str,
    backend: &'static str,
    event: &'static str,
}

/// The labels of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LockLabel {
    kind: &'static str,
    backend: &'static str,
}

/// What takes time with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockTime {
    /// From the call to the grant.
    Wait,
    /// From the grant to the release.
    Hold,
    /// From the moment at which a renewal is due to its confirmation.
    RenewalLag,
}

/// One label: how a queued order ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DecisionLabels {
    decision: &'static str,
}

/// One label: what is counted, a user or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LimitLabels {
    by: &'static str,
}

/// One label: how it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AnswerLabel {
    answer: &'static str,
}

/// One label: the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DependencyLabel {
    dependency: &'static str,
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
    lock_wait: Family<LockLabel, Times>,
    lock_hold: Family<LockLabel, Times>,
    lock_renewal_lag: Family<LockLabel, Times>,
    queue_decided: Family<DecisionLabels, Counter>,
    /// Orders in the queues, waiting or being decided, when they were last looked at.
    pub queue_waiting: Gauge,
    /// Queued orders that were taken over from a consumer that had them for too long.
    pub queue_reclaimed: Counter,
    /// Queued orders that were put aside.
    pub queue_parked: Counter,
    rate_limited: Family<LimitLabels, Counter>,
    waiting_room: Family<AnswerLabel, Counter>,
    breakers: Family<DependencyLabel, Gauge>,
    /// Whole transactions that the arbiter tried again.
    pub arbiter_retries: Counter,
    /// Tries that were not made, because the budget for retries was spent.
    pub arbiter_retries_unaffordable: Counter,
    /// COMMITs whose answer was lost.
    pub arbiter_commits_lost: Counter,
    /// Orders per batch of a lane.
    pub batch_size: Histogram,
    /// Purchases that run or wait now.
    pub purchases_in_flight: Gauge,
    /// Purchases refused at once because too many are in, or would wait too long.
    pub purchases_shed: Counter,
    /// Purchases refused from the sold-out flag, without Redis or MySQL.
    pub sold_out_from_memory: Counter,
    /// Open connections.
    pub connections: Gauge,
    /// Connections closed at once, because their address had too many.
    pub connections_refused: Counter,
    /// Clients that were dropped because they did not read.
    pub slow_readers_dropped: Counter,
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
            lock_wait: Family::default(),
            lock_hold: Family::default(),
            lock_renewal_lag: Family::default(),
            queue_decided: Family::default(),
            queue_waiting: Gauge::default(),
            queue_reclaimed: Counter::default(),
            queue_parked: Counter::default(),
            rate_limited: Family::default(),
            waiting_room: Family::default(),
            breakers: Family::default(),
            arbiter_retries: Counter::default(),
            arbiter_retries_unaffordable: Counter::default(),
            arbiter_commits_lost: Counter::default(),
            batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 9)),
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
        let unaffordable = self.arbiter_retries_unaffordable.clone();
        r.register("arbiter_retries_unaffordable", "Tries beyond the budget", unaffordable);
        let breakers = "1 while calls of a server are refused because most of them failed";
        r.register("breaker_open", breakers, self.breakers.clone());
        let lost = self.arbiter_commits_lost.clone();
        r.register("arbiter_commits_lost", "COMMITs whose answer was lost", lost);
        r.register("batch_orders", "Orders per batch of a lane", self.batch_size.clone());
        let in_flight = self.purchases_in_flight.clone();
        r.register("purchases_in_flight", "Purchases that run or wait now", in_flight);
        let shed = "Purchases refused at once, to keep the wait of the others short";
        r.register("purchases_shed", shed, self.purchases_shed.clone());
        let memory = self.sold_out_from_memory.clone();
        r.register("sold_out_from_memory", "Refusals that asked neither Redis nor MySQL", memory);
        r.register("http_requests", "Requests by method and status", self.requests.clone());
        r.register("http_connections", "Open connections", self.connections.clone());
        let refused = self.connections_refused.clone();
        r.register("http_connections_refused", "Connections beyond an address' share", refused);
        let answers = self.waiting_room.clone();
        r.register("waiting_room_answers", "How those stood who asked for a ticket", answers);
        let limited = self.rate_limited.clone();
        r.register("http_rate_limited", "Requests answered rate_limited", limited);
        let slow = self.slow_readers_dropped.clone();
        r.register("http_slow_readers_dropped", "Clients that did not read", slow);
        r.register("live_streams", "Open event streams", self.streams.clone());
        r.register("job_runs", "Runs of background jobs by result", self.job_runs.clone());
        r.register("orders_expired", "Orders whose hold ran out", self.orders_expired.clone());
        let rebuilt = self.counters_rebuilt.clone();
        r.register("counters_rebuilt", "Redis counters rebuilt from the ledger", rebuilt);
        let drift = self.counters_drift.clone();
        r.register("counters_drift_units", "Redis counters against the ledger", drift);
        let given_back = self.counters_given_back.clone();
        r.register("counters_given_back", "Units given back after a refusal", given_back);
        let decided = self.queue_decided.clone();
        r.register("queue_decided", "Queued orders by what the ledger decided", decided);
        r.register("queue_waiting", "Orders in the queues", self.queue_waiting.clone());
        let reclaimed = self.queue_reclaimed.clone();
        r.register("queue_reclaimed", "Queued orders taken over from a consumer", reclaimed);
        let parked = self.queue_parked.clone();
        r.register("queue_parked", "Queued orders that were put aside", parked);
        r.register("lock", "What locks did since the start, by event", self.lock_events.clone());
        for (name, help, times) in [
            ("lock_wait", "Time from the call of a lock to its grant", &self.lock_wait),
            ("lock_hold", "Time from the grant of a lock to its release", &self.lock_hold),
            ("lock_renewal_lag", "How late locks were renewed", &self.lock_renewal_lag),
        ] {
            r.register_with_unit(name, help, Unit::Seconds, times.clone());
        }
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

    /// The ledger decided about a queued order.
    pub fn queue_decided(&self, decision: &'static str) {
        self.queue_decided.get_or_create(&DecisionLabels { decision }).inc();
    }

    /// A request was answered.
    pub fn request_answered(&self, method: &'static str, status: u16) {
        self.requests.get_or_create(&RequestLabels { method, status }).inc();
    }

    /// A request was refused because somebody asked too often.
    pub fn rate_limited(&self, by: &'static str) {
        self.rate_limited.get_or_create(&LimitLabels { by }).inc();
    }

    /// Somebody stood in line: `waiting`, `admitted` or `refused`.
    pub fn waiting_room_answered(&self, answer: &'static str) {
        self.waiting_room.get_or_create(&AnswerLabel { answer }).inc();
    }

    /// A breaker opened or closed.
    pub fn breaker_is_open(&self, dependency: &'static str, is_open: bool) {
        self.breakers.get_or_create(&DependencyLabel { dependency }).set(is_open.into());
    }

    /// A background job ran.
    pub fn job_ran(&self, job: &'static str, result: &'static str) {
        self.job_runs.get_or_create(&JobLabels { job, result }).inc();
    }

    /// Sets what the locks of a kind counted so far.
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

    /// Sets what took time with the locks of a kind so far: for each upper bound in microseconds how
    /// many stayed below it, how many there were, and their sum.
    pub fn lock_took(
        &self,
        kind: &'static str,
        backend: &'static str,
        what: LockTime,
        below_us: impl Iterator<Item = (u64, u64)>,
        (count, sum_us): (u64, u64),
    ) {
        let times = match what {
            LockTime::Wait => &self.lock_wait,
            LockTime::Hold => &self.lock_hold,
            LockTime::RenewalLag => &self.lock_renewal_lag,
        };
        times.get_or_create(&LockLabel { kind, backend }).set(below_us, count, sum_us);
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

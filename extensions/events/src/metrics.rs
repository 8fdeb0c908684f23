//! Metrics of the events for other systems.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

/// One label: the endpoint. Operators make them, and their number is limited.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabel {
    endpoint: i64,
}

/// One label: whether the receiver was `away` or `refused`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabel {
    failure: &'static str,
}

shop_metrics::metrics! {
    /// The metrics. Clones share the counts.
    pub struct EventMetrics {
        /// Events that an endpoint has accepted.
        pub delivered: Counter,
            "events_delivered", "Events that endpoints have accepted from this instance";
        failures: Family<FailureLabel, Counter>,
            "events_delivery_failures", "Failed deliveries of events";
        /// Events that were set aside.
        pub dead_letters: Counter,
            "events_dead_letters", "Events set aside because their receiver refused them";
        /// The number of rows in the outbox.
        pub waiting: Gauge,
            "events_outbox_rows", "Rows of the outbox that are not in the event log yet";
        behind: Family<EndpointLabel, Gauge>,
            "events_behind", "Events that an endpoint has not got";
        lag: Family<EndpointLabel, Gauge>, "events_lag" in Unit::Seconds,
            "Age of the oldest event that an endpoint has not got";
    }
}

impl EventMetrics {
    /// Counts a failed delivery.
    pub fn failed(&self, is_refusal: bool) {
        let failure = if is_refusal { "refused" } else { "away" };
        self.failures.get_or_create(&FailureLabel { failure }).inc();
    }

    /// Sets how far an endpoint is behind, in events and seconds.
    pub fn set_lag(&self, endpoint: i64, events: i64, seconds: i64) {
        self.behind.get_or_create(&EndpointLabel { endpoint }).set(events);
        self.lag.get_or_create(&EndpointLabel { endpoint }).set(seconds);
    }

    /// Removes an endpoint that is deleted or switched off.
    pub fn forget(&self, endpoint: i64) {
        self.behind.remove(&EndpointLabel { endpoint });
        self.lag.remove(&EndpointLabel { endpoint });
    }
}

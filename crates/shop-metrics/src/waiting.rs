//! Metrics of the waiting lists.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// One label: what became of a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

/// The metrics. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct WaitingMetrics {
    places: Family<StatusLabel, Counter>,
    waiting: Gauge,
    offered: Gauge,
    idle: Gauge,
}

impl WaitingMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let places = "Places in waiting lists by the status that this instance gave them";
        r.register("waiting_list_places", places, self.places.clone());
        let waiting = "Buyers who wait for a unit";
        r.register("waiting_list_buyers", waiting, self.waiting.clone());
        let offered = "Units that are held for a buyer who waited";
        r.register("waiting_list_offers", offered, self.offered.clone());
        let idle = "Units that are available although a buyer waits for them";
        r.register("waiting_list_idle_units", idle, self.idle.clone());
    }

    /// Counts a place that got a status.
    pub fn changed(&self, status: &'static str) {
        self.places.get_or_create(&StatusLabel { status }).inc();
    }

    /// Sets the figures of all lists.
    pub fn set(&self, waiting: i64, offered: i64, idle: i64) {
        self.waiting.set(waiting);
        self.offered.set(offered);
        self.idle.set(idle);
    }
}

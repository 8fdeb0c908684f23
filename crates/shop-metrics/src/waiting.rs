//! Metrics of the waiting lists.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::labels::StatusLabel;

crate::metrics! {
    /// The metrics. Clones share the counts.
    pub struct WaitingMetrics {
        places: Family<StatusLabel, Counter>, "waiting_list_places",
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
        self.places.get_or_create(&StatusLabel { status }).inc();
    }

    /// Sets the figures of all lists.
    pub fn set(&self, waiting: i64, offered: i64, idle: i64) {
        self.waiting.set(waiting);
        self.offered.set(offered);
        self.idle.set(idle);
    }
}

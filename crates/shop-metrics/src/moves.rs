//! The metrics of items that move from one ledger to another.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// One label: how far a move has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// The metrics. Clones share the values.
#[derive(Clone, Debug, Default)]
pub struct MoveMetrics {
    under_way: Family<StateLabel, Gauge>,
    oldest: Gauge,
    closed: Gauge,
    /// In milliseconds, since a pause is a fraction of a second.
    pause: Gauge,
    /// Moves that the service has ended, since their mover was gone.
    pub resumed: Counter,
}

impl MoveMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let under_way = "Moves of items between ledgers that are under way";
        r.register("item_moves_under_way", under_way, self.under_way.clone());
        let oldest = "Time since the beginning of the oldest move under way";
        r.register_with_unit("item_moves_oldest", oldest, Unit::Seconds, self.oldest.clone());
        let closed = "Time for which a move has kept an item from selling, up to now";
        r.register_with_unit("item_moves_closed", closed, Unit::Seconds, self.closed.clone());
        let pause =
            "The longest pause of an item, in milliseconds, in the moves of the last 10 minutes";
        r.register("item_moves_pause_ms", pause, self.pause.clone());
        let resumed = "Moves that were broken off, and that the service has ended";
        r.register("item_moves_resumed", resumed, self.resumed.clone());
    }

    /// Sets how many moves in one state are under way.
    pub fn set_under_way(&self, state: &'static str, moves: usize) {
        let moves = i64::try_from(moves).unwrap_or(i64::MAX);
        self.under_way.get_or_create(&StateLabel { state }).set(moves);
    }

    /// Sets the age of the oldest move under way, and for how long an item has been closed.
    pub fn set_times(&self, oldest: Duration, closed: Duration) {
        self.oldest.set(i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX));
        self.closed.set(i64::try_from(closed.as_secs()).unwrap_or(i64::MAX));
    }

    /// Sets the longest pause of the moves that ended a moment ago.
    pub fn set_pause(&self, pause: Duration) {
        self.pause.set(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
    }
}

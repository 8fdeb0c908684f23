//! A histogram of durations that another part counts, such as the locks' crate: its figures are
//! set as a whole before they are written.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// A histogram of durations whose figures are set as a whole. Clones share the figures.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Arc<Mutex<Figures>>);

#[derive(Debug, Default)]
struct Figures {
    sum_seconds: f64,
    /// Upper bounds in seconds, each with the number of durations above the bound before.
    buckets: Vec<(f64, u64)>,
}

impl Times {
    /// Sets the figures. `below_us` has upper bounds in microseconds, each with the number of
    /// durations up to it; `count` and `sum_us` are of all durations.
    pub(super) fn set(&self, below_us: impl Iterator<Item = (u64, u64)>, count: u64, sum_us: u64) {
        let mut before = 0;
        let mut buckets: Vec<(f64, u64)> = below_us
            .map(|(bound_us, below)| {
                let between = below - before;
                before = below;
                (seconds(bound_us), between)
            })
            .collect();
        buckets.push((f64::INFINITY, count - before));
        let figures = Figures { sum_seconds: seconds(sum_us), buckets };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact for centuries")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

impl TypedMetric for Times {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Times {
    fn encode(&self, mut encoder: MetricEncoder) -> Result<(), fmt::Error> {
        let figures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = figures.buckets.iter().map(|(_, between)| between).sum();
        encoder.encode_histogram::<NoLabelSet>(figures.sum_seconds, count, &figures.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

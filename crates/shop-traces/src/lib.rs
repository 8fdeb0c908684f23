//! Which purchases are traced, and the way of their spans to a collector (OTLP).
//!
//! Traces are off without `traces.endpoint`. A request whose `traceparent` has a decision keeps it;
//! any other one is sampled with `traces.sample_ratio`. Neither begins more traces in a second than
//! `traces.per_second_max`, since a stranger may write a `traceparent` too.
//!
//! A span that has ended goes into a queue of limited length, and a worker sends what is there
//! (`export.rs`). A purchase never waits for it: when the queue is full, the span is dropped.

#[cfg(feature = "collector")]
mod export;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use settings::Secret;
use shop_domain::trace::{EndedSpan, Span, SpanKind, SpanSink, TraceContext};
use shop_metrics::Metrics;

/// Whether this program was built with the client for a collector.
pub const ARE_BUILT_IN: bool = cfg!(feature = "collector");

/// The section `traces` of the settings: how requests are traced, and where their spans go.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceOptions {
    /// The address of the collector; empty if there is none.
    pub endpoint: String,
    /// Headers of the requests to the collector, as `name=value,name=value`.
    pub headers: Secret,
    /// A PEM file with authorities that are trusted, besides those of the system; may be empty.
    pub ca_file: PathBuf,
    /// The share of requests without a decision of their own that is sampled.
    pub sample_ratio: f64,
    /// Whether the decision of a request's `traceparent` counts.
    pub accept_parents: bool,
    pub per_second_max: u32,
    pub queue_max: usize,
    pub batch_max: usize,
    /// How long a batch is filled.
    pub period_ms: u64,
    /// How long sending a batch may take.
    pub timeout_ms: u64,
}

/// Begins traces. Clones share everything.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Shared>>);

struct Shared {
    sink: Arc<dyn SpanSink>,
    /// Trace ids whose last 63 bits are below this are sampled, as OpenTelemetry does it.
    sampled_below: u64,
    accepts_parents: bool,
    limit: PerSecond,
}

/// Sends the spans until the token fires, then the spans that still wait.
pub type Worker = Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// Traces as the options want them, and the worker that sends their spans for the instance `name`; none if they are off.
///
/// # Errors
/// A sentence for the operator.
pub fn build(
    options: &TraceOptions,
    name: &str,
    metrics: &Metrics,
) -> Result<(Traces, Option<Worker>), String> {
    if options.endpoint.is_empty() {
        return Ok((Traces::default(), None));
    }
    let (sender, spans) = mpsc::channel(options.queue_max);
    let worker = sender_of(options, name, spans, metrics)?;
    let sink = Arc::new(Queue { sender, metrics: metrics.clone() });
    let shared = Shared {
        sink,
        sampled_below: share_of_ids(options.sample_ratio),
        accepts_parents: options.accept_parents,
        limit: PerSecond::new(options.per_second_max),
    };
    Ok((Traces(Some(Arc::new(shared))), Some(worker)))
}

#[cfg(feature = "collector")]
fn sender_of(
    options: &TraceOptions,
    name: &str,
    spans: mpsc::Receiver<EndedSpan>,
    metrics: &Metrics,
) -> Result<Worker, String> {
    let exporter = export::Exporter::new(options, name, metrics.clone())?;
    Ok(Box::new(|stop| Box::pin(exporter.run(spans, stop))))
}

#[cfg(not(feature = "collector"))]
fn sender_of(
    _: &TraceOptions,
    _: &str,
    _: mpsc::Receiver<EndedSpan>,
    _: &Metrics,
) -> Result<Worker, String> {
    Err("traces.endpoint is set, but this program was built without traces".to_owned())
}

impl Traces {
    /// Begins the span of a request, below the span that its `traceparent` names; empty if the
    /// request is not sampled.
    #[must_use]
    pub fn begin(&self, name: &'static str, kind: SpanKind, parent: Option<TraceContext>) -> Span {
        let Some(shared) = &self.0 else { return Span::default() };
        let parent = parent.filter(|_| shared.accepts_parents);
        let own = TraceContext::new(true);
        let is_sampled = match parent {
            Some(parent) => parent.is_sampled,
            None => sampling_bits(own) < shared.sampled_below,
        };
        if !is_sampled || !shared.limit.permits() {
            return Span::default();
        }
        match parent {
            Some(parent) => Span::below(name, kind, parent, &shared.sink),
            None => Span::begin(name, kind, None, own, &shared.sink),
        }
    }

    /// Whether requests may be traced.
    pub fn are_on(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.are_on() { "Traces(on)" } else { "Traces(off)" })
    }
}

/// The random bits of a trace id that decide about sampling.
fn sampling_bits(context: TraceContext) -> u64 {
    let low = context.trace.get() & u128::from(u64::MAX);
    u64::try_from(low).unwrap_or(u64::MAX) >> 1
}

/// The bound below which the given share of all sampling bits is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share between 0 and 1 of 2^63, which saturates"
)]
fn share_of_ids(ratio: f64) -> u64 {
    (ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64
}

/// Limits how often something happens in a second.
struct PerSecond {
    max: u64,
    began: Instant,
    /// The current second in the upper half, its count in the lower one.
    counted: AtomicU64,
}

impl PerSecond {
    fn new(max: u32) -> Self {
        Self { max: max.into(), began: Instant::now(), counted: AtomicU64::new(0) }
    }

    fn permits(&self) -> bool {
        let second = self.began.elapsed().as_secs() << 32;
        let count = |before: u64| {
            let count = if before >> 32 == second >> 32 { before + 1 } else { second + 1 };
            (count & u64::from(u32::MAX) <= self.max).then_some(count)
        };
        self.counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}

/// The queue before the worker.
struct Queue {
    sender: mpsc::Sender<EndedSpan>,
    metrics: Metrics,
}

impl SpanSink for Queue {
    fn take(&self, span: EndedSpan) {
        if self.sender.try_send(span).is_err() {
            self.metrics.trace_spans("dropped", 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nowhere;

    impl SpanSink for Nowhere {
        fn take(&self, _: EndedSpan) {}
    }

    fn traces(ratio: f64, per_second_max: u32) -> Traces {
        let shared = Shared {
            sink: Arc::new(Nowhere),
            sampled_below: share_of_ids(ratio),
            accepts_parents: true,
            limit: PerSecond::new(per_second_max),
        };
        Traces(Some(Arc::new(shared)))
    }

    fn begun(traces: &Traces, parent: Option<TraceContext>) -> bool {
        traces.begin("test", SpanKind::Server, parent).is_recorded()
    }

    #[test]
    fn the_ratio_decides_about_requests_without_a_parent() {
        for (ratio, least, most) in [(0.0, 0, 0), (0.25, 2_200, 2_800), (1.0, 10_000, 10_000)] {
            let traces = traces(ratio, u32::MAX);
            let sampled = (0..10_000).filter(|_| begun(&traces, None)).count();
            assert!((least..=most).contains(&sampled), "{ratio}: {sampled} of 10000");
        }
    }

    #[test]
    fn the_decision_of_a_parent_counts_more_than_the_ratio() {
        let parent = |is_sampled| Some(TraceContext::new(is_sampled));
        assert!(begun(&traces(0.0, 10), parent(true)));
        assert!(!begun(&traces(1.0, 10), parent(false)));
    }

    #[test]
    fn strangers_cannot_begin_any_number_of_traces() {
        let traces = traces(0.0, 3);
        let parent = Some(TraceContext::new(true));
        let sampled = (0..1_000).filter(|_| begun(&traces, parent)).count();
        // The second may change while the test runs, more than once on a busy machine.
        assert!((3..100).contains(&sampled), "{sampled}");
    }
}

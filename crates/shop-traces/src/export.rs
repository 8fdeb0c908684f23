//! Sends spans to a collector: OTLP over HTTP, as protobuf.
//!
//! A batch that the collector does not take is dropped: a trace is not worth the memory that keeping
//! it would cost, while a collector is away.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, HeaderValue};
use hyper::{Request, Response};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter, SpanLinks};
use outgoing_https::{HttpsClient, PrivateNetworks, Target};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::TraceOptions;
use shop_domain::trace::{self, Attribute, EndedSpan, TraceContext};
use shop_metrics::Metrics;

/// How often the log says that the collector takes nothing.
const REMINDER: Duration = Duration::from_secs(60);
/// The part of the collector's answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// How long the last spans may take when the service stops.
const LAST_SPANS_MAX: Duration = Duration::from_secs(2);

/// Sends spans.
pub(super) struct Exporter {
    otlp: opentelemetry_otlp::SpanExporter,
    scope: InstrumentationScope,
    period: Duration,
    batch_max: usize,
    metrics: Metrics,
    complained: Option<Instant>,
}

impl Exporter {
    /// An exporter to the collector of the options, for the instance `name`.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub(super) fn new(
        options: &TraceOptions,
        name: &str,
        metrics: Metrics,
    ) -> Result<Self, String> {
        let headers = headers(options.headers.reveal())?;
        let timeout = Duration::from_millis(options.timeout_ms);
        let client = HttpsClient::new(PrivateNetworks::all(), &options.ca_file, timeout)
            .map_err(|error| format!("traces.{error}"))?;
        let mut otlp = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(CollectorClient(client))
            .with_endpoint(&options.endpoint)
            .with_timeout(timeout)
            .with_headers(headers)
            .with_retry_policy(RetryPolicy::disabled())
            .build()
            .map_err(|error| format!("traces.endpoint cannot be used: {error}"))?;
        let resource = Resource::builder_empty()
            .with_service_name("seckill")
            .with_attributes([
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", name.to_owned()),
            ])
            .build();
        otlp.set_resource(&resource);
        Ok(Self {
            otlp,
            scope: InstrumentationScope::builder("seckill").build(),
            period: Duration::from_millis(options.period_ms),
            batch_max: options.batch_max,
            metrics,
            complained: None,
        })
    }

    /// Sends spans as they come until `stop` fires, then the spans that still wait.
    pub(super) async fn run(
        mut self,
        mut spans: mpsc::Receiver<EndedSpan>,
        stop: CancellationToken,
    ) {
        let mut batch = Vec::with_capacity(self.batch_max);
        while let Some(received) = stop.run_until_cancelled(spans.recv()).await {
            let Some(first) = received else { return stop.cancelled().await };
            batch.push(first);
            // Others of the same purchases come in a moment.
            let _ = stop.run_until_cancelled(self.fill(&mut spans, &mut batch)).await;
            self.send(std::mem::take(&mut batch)).await;
        }
        spans.close();
        let last = async {
            while spans.recv_many(&mut batch, self.batch_max).await > 0 {
                self.send(std::mem::take(&mut batch)).await;
            }
        };
        let _ = tokio::time::timeout(LAST_SPANS_MAX, last).await;
    }

    /// Waits until the batch is full or the period is over.
    async fn fill(&self, spans: &mut mpsc::Receiver<EndedSpan>, batch: &mut Vec<EndedSpan>) {
        let full = async {
            while batch.len() < self.batch_max {
                let room = self.batch_max - batch.len();
                if spans.recv_many(batch, room).await == 0 {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(self.period, full).await;
    }

    async fn send(&mut self, batch: Vec<EndedSpan>) {
        let count = batch.len();
        let batch = batch.into_iter().map(|span| data_of(span, &self.scope)).collect();
        match self.otlp.export(batch).await {
            Ok(()) => {
                self.metrics.trace_spans("sent", count);
                if self.complained.take().is_some() {
                    tracing::info!("the collector of traces takes spans again");
                }
            }
            Err(error) => {
                self.metrics.trace_spans("failed", count);
                if self.complained.is_none_or(|at| at.elapsed() >= REMINDER) {
                    self.complained = Some(Instant::now());
                    tracing::warn!(%error, "traces not sent; purchases go on");
                }
            }
        }
    }
}

/// A span as OpenTelemetry writes it.
fn data_of(span: EndedSpan, scope: &InstrumentationScope) -> SpanData {
    let links = span
        .links
        .into_iter()
        .map(|link| opentelemetry::trace::Link::with_context(context_of(link)));
    let mut span_links = SpanLinks::default();
    span_links.links = links.collect();
    let attribute = |(name, value)| {
        KeyValue::new(
            name,
            match value {
                Attribute::Text(text) => Value::from(text),
                Attribute::Number(number) => Value::from(number),
            },
        )
    };
    SpanData {
        span_context: context_of(span.context),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |id| id.get().into()),
        parent_span_is_remote: span.is_parent_remote,
        span_kind: match span.kind {
            trace::SpanKind::Server => SpanKind::Server,
            trace::SpanKind::Client => SpanKind::Client,
            trace::SpanKind::Consumer => SpanKind::Consumer,
            trace::SpanKind::Internal => SpanKind::Internal,
        },
        name: span.name.into(),
        start_time: span.began_at,
        end_time: span.began_at + span.took,
        attributes: span.attributes.into_iter().map(attribute).collect(),
        dropped_attributes_count: 0,
        events: opentelemetry_sdk::trace::SpanEvents::default(),
        links: span_links,
        status: if span.has_failed { Status::error("") } else { Status::Unset },
        instrumentation_scope: scope.clone(),
    }
}

fn context_of(context: TraceContext) -> SpanContext {
    let flags = if context.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let trace = TraceId::from(context.trace.get());
    let span = SpanId::from(context.span.get());
    SpanContext::new(trace, span, flags, false, TraceState::NONE)
}

/// Parses `name=value,name=value`.
fn headers(text: &str) -> Result<HashMap<String, String>, String> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let parse = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let is_fine = hyper::header::HeaderName::try_from(name.trim()).is_ok()
            && HeaderValue::try_from(value.trim()).is_ok();
        is_fine.then(|| (name.trim().to_owned(), value.trim().to_owned()))
    };
    let parsed: Option<HashMap<String, String>> = pairs.map(parse).collect();
    parsed.ok_or_else(|| "traces.headers must be name=value, separated by commas".to_owned())
}

/// The connection to the collector: a new one for each batch.
#[derive(Clone)]
struct CollectorClient(HttpsClient);

impl fmt::Debug for CollectorClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CollectorClient")
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let target = Target::parse(&request.uri().to_string())?;
        let mut request = request.map(Full::new);
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        request.headers_mut().insert(ACCEPT, protobuf);
        let (status, body) = self.0.fetch(&target, request, ANSWER_BYTES_MAX).await?;
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        Ok(answer)
    }
}

//! A collector of traces: takes OTLP over HTTP, and remembers the spans.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::support::{eventually, serve_routes};

#[derive(Default)]
struct Seen {
    spans: Vec<Span>,
    headers: HeaderMap,
    resource: Vec<String>,
}

/// The collector.
pub struct Collector {
    seen: Arc<Mutex<Seen>>,
    url: String,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl Collector {
    /// Listens on a free port of this machine.
    pub async fn start() -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let router = Router::new().route("/v1/traces", post(receive)).with_state(Arc::clone(&seen));
        let (addr, _task) = serve_routes(router).await;
        Self { seen, url: format!("http://{addr}/v1/traces"), _task }
    }

    /// Where it takes spans.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        self.seen.lock().expect("no panic").spans.clone()
    }

    /// The header that came with the last spans.
    pub fn header(&self, name: &str) -> Option<String> {
        let seen = self.seen.lock().expect("no panic");
        Some(seen.headers.get(name)?.to_str().ok()?.to_owned())
    }

    /// The facts about the sender, as `name=value`.
    pub fn resource(&self) -> Vec<String> {
        self.seen.lock().expect("no panic").resource.clone()
    }

    /// The spans of a trace, once its request has ended and all below it too.
    pub async fn whole_trace(&self, trace: &str) -> Vec<Span> {
        eventually("the whole trace", || async {
            let spans = self.spans();
            let own: Vec<Span> =
                spans.into_iter().filter(|span| hex::encode(&span.trace_id) == trace).collect();
            let has = |id: &[u8]| own.iter().any(|span| span.span_id == id);
            // The parent of the first span may be the test's own.
            let orphans = own.iter().filter(|span| !has(&span.parent_span_id)).count();
            let has_gate = own.iter().any(|span| span.name == "gate");
            (orphans == 1 && has_gate).then_some(own)
        })
        .await
    }
}

async fn receive(
    State(seen): State<Arc<Mutex<Seen>>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else {
        return StatusCode::BAD_REQUEST;
    };
    let mut seen = seen.lock().expect("no panic");
    seen.headers = headers;
    for resource in request.resource_spans {
        let facts = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
        seen.resource = facts
            .iter()
            .map(|fact| {
                let value = fact.value.as_ref().and_then(|value| value.value.clone());
                let text = match value {
                    Some(Value::StringValue(text)) => text,
                    other => format!("{other:?}"),
                };
                format!("{}={text}", fact.key)
            })
            .collect();
        seen.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
    }
    StatusCode::OK
}

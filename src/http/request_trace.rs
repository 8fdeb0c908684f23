//! Extractor of the trace that a request belongs to.

use std::convert::Infallible;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;

use shop_domain::trace::{Span, SpanKind, TraceContext};
use shop_traces::Traces;

/// The trace that a request belongs to: its `traceparent` says which. One that cannot be read is left
/// out, as the standard says.
#[derive(Clone, Debug)]
pub struct RequestTrace {
    traces: Traces,
    parent: Option<TraceContext>,
}

impl RequestTrace {
    /// Begins the span of the request.
    #[must_use]
    pub fn begin(&self, name: &'static str) -> Span {
        self.traces.begin(name, SpanKind::Server, self.parent)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestTrace
where
    Traces: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let mut values = parts.headers.get_all("traceparent").iter();
        let only = values.next().filter(|_| values.next().is_none());
        let parent = only.and_then(|value| TraceContext::parse(value.to_str().ok()?));
        Ok(Self { traces: Traces::from_ref(state), parent })
    }
}

//! The span of work that is done once for several purchases.

use super::{Attribute, Span, SpanKind, Trace, TraceContext};

/// Work that is done once for several purchases: a span in a trace of its own, and one in the
/// trace of each sampled purchase. They are linked in both directions.
#[derive(Default)]
pub struct SharedSpan {
    common: Span,
    each: Vec<Span>,
}

impl SharedSpan {
    /// Begins it for the purchases at these places.
    #[must_use]
    pub fn begin<'a>(name: &'static str, purchases: impl Iterator<Item = &'a Trace>) -> Self {
        let mut shared = Self::default();
        for trace in purchases {
            let Some(place) = &trace.0 else { continue };
            if !shared.common.is_recorded() {
                let context = TraceContext::new(true);
                shared.common = Span::begin(name, SpanKind::Internal, None, context, &place.sink);
            }
            let mut own = trace.span(name);
            if let (Some(common), Some(one)) = (shared.common.context(), own.context()) {
                shared.common.link(one);
                own.link(common);
            }
            shared.each.push(own);
        }
        shared
    }

    /// Adds a fact to all of them.
    pub fn set(&mut self, name: &'static str, value: impl Into<Attribute> + Copy) {
        self.common.set(name, value);
        self.each.iter_mut().for_each(|span| span.set(name, value));
    }

    /// The span in the trace of its own.
    #[must_use]
    pub fn common(&self) -> &Span {
        &self.common
    }
}

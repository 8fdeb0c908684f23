//! Traces: how long each part of one purchase took, also across services ([W3C Trace Context]).
//!
//! Only sampled purchases are traced. Any other one carries an empty [`Trace`], whose spans are
//! empty too: they read no clock and allocate nothing. A span ends when it is dropped.
//!
//! [W3C Trace Context]: https://www.w3.org/TR/trace-context/

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The length of a `traceparent` of version 00, in bytes.
const TRACEPARENT_BYTES: usize = 55;

/// A span's place in a trace: what `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The id of the trace.
    pub trace: NonZeroU128,
    /// The id of the span.
    pub span: NonZeroU64,
    /// Whether the trace is recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Parses a `traceparent`. Of a later version the parts are read that version 00 has.
    pub fn parse(text: &str) -> Option<Self> {
        let is_written_right = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
        let known = text.get(..TRACEPARENT_BYTES)?;
        let rest = &text[TRACEPARENT_BYTES..];
        if !known.bytes().all(is_written_right) {
            return None;
        }
        let mut parts = known.split('-');
        let version = parts.next()?;
        let trace = parts.next()?;
        let span = parts.next()?;
        let flags = parts.next()?;
        let lengths = [version.len(), trace.len(), span.len(), flags.len()];
        let fits = if version == "00" {
            rest.is_empty()
        } else {
            matches!(rest.as_bytes(), [] | [b'-', ..])
        };
        if lengths != [2, 32, 16, 2] || version == "ff" || !fits {
            return None;
        }
        Some(Self {
            trace: NonZeroU128::new(u128::from_str_radix(trace, 16).ok()?)?,
            span: NonZeroU64::new(u64::from_str_radix(span, 16).ok()?)?,
            is_sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
        })
    }

    /// A new span of the same trace.
    fn child(self) -> Self {
        Self { span: random_span(), ..self }
    }

    /// The first span of a new trace.
    pub fn new(is_sampled: bool) -> Self {
        let trace = NonZeroU128::new(rand::random()).unwrap_or(NonZeroU128::MIN);
        Self { trace, span: random_span(), is_sampled }
    }
}

fn random_span() -> NonZeroU64 {
    NonZeroU64::new(rand::random()).unwrap_or(NonZeroU64::MIN)
}

/// As in the header `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(formatter, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

/// The role of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Answers a request of another program.
    Server,
    /// Waits for the answer of another program.
    Client,
    /// Takes messages from a queue.
    Consumer,
    /// Work inside this program.
    Internal,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Text(String),
    Number(i64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Attribute {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// A span that has ended.
#[derive(Clone, Debug)]
pub struct EndedSpan {
    /// What was done.
    pub name: &'static str,
    /// Its role.
    pub kind: SpanKind,
    /// Its place.
    pub context: TraceContext,
    /// The span that it is a part of.
    pub parent: Option<NonZeroU64>,
    /// Whether that span is another program's.
    pub is_parent_remote: bool,
    /// The time at which it began.
    pub began_at: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// Further facts.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Spans of other traces that have to do with it.
    pub links: Vec<TraceContext>,
    /// Whether it ended in an error.
    pub has_failed: bool,
}

/// Takes the spans that have ended. It must not wait.
pub trait SpanSink: Send + Sync {
    /// Takes a span, or drops it.
    fn take(&self, span: EndedSpan);
}

/// The place at which a purchase makes its next spans; empty if it is not sampled. Clones are the
/// same place.
#[derive(Clone, Default)]
pub struct Trace(Option<Arc<Place>>);

struct Place {
    context: TraceContext,
    sink: Arc<dyn SpanSink>,
}

impl Trace {
    /// Begins a span below this place.
    #[must_use]
    pub fn span(&self, name: &'static str) -> Span {
        let Some(place) = &self.0 else { return Span(None) };
        let parent = Some((place.context, false));
        Span::begin(name, SpanKind::Internal, parent, place.context.child(), &place.sink)
    }

    /// The place; `None` if it is not sampled.
    pub fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|place| place.context)
    }

    /// A span of the log that adds the trace's id to each line; none if it is not sampled.
    #[must_use]
    pub fn log_span(&self) -> tracing::Span {
        let Some(place) = &self.0 else { return tracing::Span::none() };
        let trace_id = format!("{:032x}", place.context.trace);
        // Of the highest level, so that a filter of levels never drops the id.
        tracing::error_span!("trace", trace_id)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.context() {
            Some(context) => write!(formatter, "{context}"),
            None => formatter.write_str("(not sampled)"),
        }
    }
}

/// A span that is under way; empty if its purchase is not sampled. It ends when it is dropped.
#[derive(Default)]
pub struct Span(Option<Box<OpenSpan>>);

struct OpenSpan {
    began: Instant,
    ended: EndedSpan,
    sink: Arc<dyn SpanSink>,
}

impl Span {
    /// Begins a span at the place `context`. `parent` is the span that it is a part of, and whether
    /// that is another program's.
    pub fn begin(
        name: &'static str,
        kind: SpanKind,
        parent: Option<(TraceContext, bool)>,
        context: TraceContext,
        sink: &Arc<dyn SpanSink>,
    ) -> Self {
        let ended = EndedSpan {
            name,
            kind,
            context,
            parent: parent.map(|(parent, _)| parent.span),
            is_parent_remote: parent.is_some_and(|(_, is_remote)| is_remote),
            began_at: SystemTime::now(),
            took: Duration::ZERO,
            attributes: Vec::new(),
            links: Vec::new(),
            has_failed: false,
        };
        Self(Some(Box::new(OpenSpan { began: Instant::now(), ended, sink: Arc::clone(sink) })))
    }

    /// A span of the trace `parent` that another program began.
    pub fn below(
        name: &'static str,
        kind: SpanKind,
        parent: TraceContext,
        sink: &Arc<dyn SpanSink>,
    ) -> Self {
        Self::begin(name, kind, Some((parent, true)), parent.child(), sink)
    }

    /// The place below this span.
    pub fn trace(&self) -> Trace {
        let place = |open: &OpenSpan| {
            Arc::new(Place { context: open.ended.context, sink: Arc::clone(&open.sink) })
        };
        Trace(self.0.as_deref().map(place))
    }

    /// Begins a span below this one.
    pub fn span(&self, name: &'static str) -> Self {
        self.trace().span(name)
    }

    /// Adds a fact.
    pub fn set(&mut self, name: &'static str, value: impl Into<Attribute>) {
        if let Some(open) = &mut self.0 {
            open.ended.attributes.push((name, value.into()));
        }
    }

    /// Links a span of another trace.
    pub fn link(&mut self, other: TraceContext) {
        if let Some(open) = &mut self.0 {
            open.ended.links.push(other);
        }
    }

    /// Notes that it ended in an error.
    pub fn fail(&mut self) {
        if let Some(open) = &mut self.0 {
            open.ended.has_failed = true;
        }
    }

    /// Its place; `None` if it is not sampled.
    pub fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|open| open.ended.context)
    }

    /// Whether it is recorded.
    pub fn is_recorded(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            let OpenSpan { began, mut ended, sink } = *open;
            ended.took = began.elapsed();
            sink.take(ended);
        }
    }
}

/// Work that is done once for several purchases: a span in a trace of its own, and one in the
/// trace of each sampled purchase. They are linked in both directions.
#[derive(Default)]
pub struct SharedSpan {
    common: Span,
    each: Vec<Span>,
}

impl SharedSpan {
    /// Begins it for the purchases at these places.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Taken(Mutex<Vec<EndedSpan>>);

    impl SpanSink for Taken {
        fn take(&self, span: EndedSpan) {
            self.0.lock().expect("no panic").push(span);
        }
    }

    #[test]
    fn a_traceparent_is_read_as_the_standard_says() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = TraceContext::parse(text).expect("the example of the standard");
        assert!(context.is_sampled);
        assert_eq!(context.to_string(), text);
        assert!(!TraceContext::parse(&text.replace("-01", "-00")).expect("read").is_sampled);
        let later = format!("{}-what-comes", text.replacen("00", "cc", 1));
        assert_eq!(TraceContext::parse(&later), Some(context));
        for bad in [
            "",
            "00",
            &text[1..],
            &format!("{text}-more"),
            &text.to_uppercase(),
            &text.replacen("00", "ff", 1),
            &text.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            &text.replace("b7ad6b7169203331", "0000000000000000"),
            &text.replace("-01", "-+1"),
            &text.replace('-', "a"),
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn shared_work_is_linked_to_each_sampled_purchase() {
        let taken = Arc::new(Taken::default());
        let sink: Arc<dyn SpanSink> = taken.clone();
        let root =
            |_| Span::begin("purchase", SpanKind::Server, None, TraceContext::new(true), &sink);
        let roots: Vec<Span> = (0..2).map(root).collect();
        let mut traces: Vec<Trace> = roots.iter().map(Span::trace).collect();
        traces.push(Trace::default());
        drop(SharedSpan::begin("batch", traces.iter()));
        drop(roots);
        let taken = taken.0.lock().expect("no panic");
        assert_eq!(taken.len(), 5, "the batch, two in the purchases' traces, and their roots");
        let batch = taken.iter().find(|span| span.parent.is_none() && span.name == "batch");
        let batch = batch.expect("it has a trace of its own");
        assert_eq!(batch.links.len(), 2);
        for own in taken.iter().filter(|span| span.parent.is_some()) {
            assert!(batch.links.contains(&own.context));
            assert_eq!(own.links, [batch.context]);
        }
    }

    #[test]
    fn what_is_not_sampled_records_nothing() {
        let mut span = Trace::default().span("admission");
        span.set("orders", 3_usize);
        assert!(!span.is_recorded() && !span.span("below").is_recorded());
        assert!(!SharedSpan::begin("batch", [Trace::default()].iter()).common().is_recorded());
        assert_eq!(size_of::<Trace>(), size_of::<usize>());
    }
}

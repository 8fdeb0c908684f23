//! A trace as a tree of names.

use opentelemetry_proto::tonic::trace::v1::Span;

/// Writes the spans below `parent` as lines, indented by their depth. Work that several purchases
/// share is in a trace of its own: a span that links to it has it below itself.
pub fn lines(spans: &[Span], trace: &[u8]) -> String {
    let own: Vec<&Span> = spans.iter().filter(|span| span.trace_id == trace).collect();
    let is_root = |span: &&&Span| own.iter().all(|other| other.span_id != span.parent_span_id);
    own.iter().filter(is_root).map(|root| lines_below(spans, root, 0)).collect()
}

fn lines_below(spans: &[Span], span: &Span, depth: usize) -> String {
    let mut text = format!("{}{}\n", "  ".repeat(depth), span.name);
    let mut below: Vec<&Span> = spans
        .iter()
        .filter(|other| {
            let is_part = other.trace_id == span.trace_id && other.parent_span_id == span.span_id;
            let is_shared = depth > 0
                && span.links.iter().any(|link| {
                    link.trace_id == other.trace_id && link.span_id == other.parent_span_id
                });
            is_part || is_shared
        })
        .collect();
    below.sort_by_key(|span| span.start_time_unix_nano);
    text.extend(below.into_iter().map(|other| lines_below(spans, other, depth + 1)));
    text
}

//! A trace as a tree of names and times.

use std::fmt::Write as _;

use opentelemetry_proto::tonic::trace::v1::Span;

/// Writes the spans below `parent` as lines, indented by their depth. Work that several purchases
/// share is in a trace of its own: a span that links to it has it below itself.
pub fn lines(spans: &[Span], trace: &[u8], with_times: bool) -> String {
    let own: Vec<&Span> = spans.iter().filter(|span| span.trace_id == trace).collect();
    let is_root = |span: &&&Span| own.iter().all(|other| other.span_id != span.parent_span_id);
    let mut text = String::new();
    for root in own.iter().filter(is_root) {
        write_below(&mut text, spans, root, (0, root.start_time_unix_nano), with_times);
    }
    text
}

fn write_below(
    text: &mut String,
    spans: &[Span],
    span: &Span,
    (depth, began): (usize, u64),
    with_times: bool,
) {
    let name = format!("{}{}", "  ".repeat(depth), span.name);
    if with_times {
        let ms = |nanos: u64| std::time::Duration::from_nanos(nanos).as_secs_f64() * 1_000.0;
        let after = ms(span.start_time_unix_nano.saturating_sub(began));
        let took = ms(span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano));
        let _ = writeln!(text, "{name:<48} after {after:6.2} ms, took {took:6.2} ms");
    } else {
        let _ = writeln!(text, "{name}");
    }
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
    for other in below {
        write_below(text, spans, other, (depth + 1, began), with_times);
    }
}

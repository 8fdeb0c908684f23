//! The labels of metrics. Their values come from fixed lists, never from a request.

use prometheus_client::encoding::EncodeLabelSet;

/// Declares the labels of a metric.
macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($label:ident: $value:ty),+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(super) struct $name {
            $(pub(super) $label: $value),+
        }
    )+};
}

labels! {
    /// The labels of a purchase.
    PurchaseLabels { strategy: &'static str, outcome: &'static str }
    /// The labels of an arbiter's refusal.
    RefusalLabels { strategy: &'static str, reason: &'static str }
    /// One label: the strategy.
    StrategyLabel { strategy: &'static str }
    /// The labels of a request.
    RequestLabels { method: &'static str, status: u16 }
    /// The labels of a background job's run.
    JobLabels { job: &'static str, result: &'static str }
    /// The labels of a counter of lock events.
    LockLabels { kind: &'static str, backend: &'static str, event: &'static str }
    /// The labels of a lock.
    LockLabel { kind: &'static str, backend: &'static str }
    /// One label: what the ledger decided about a queued order.
    DecisionLabels { decision: &'static str }
    /// One label: whether the limit is per user or per address.
    LimitLabels { by: &'static str }
    /// One label: the answer of the waiting room.
    AnswerLabel { answer: &'static str }
    /// One label: how a buyer left the waiting room.
    ExitLabel { reason: &'static str }
    /// One label: an invariant of the audit.
    InvariantLabel { invariant: &'static str }
    /// One label: the server.
    DependencyLabel { dependency: &'static str }
    /// One label: the end of a span.
    SpanLabel { result: &'static str }
    /// One label: what became of a place in a waiting list.
    StatusLabel { status: &'static str }
}

//! The labels of metrics. Their values come from fixed lists, never from a request.

use prometheus_client::encoding::EncodeLabelSet;

/// The labels of a purchase.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PurchaseLabels {
    pub(super) strategy: &'static str,
    pub(super) outcome: &'static str,
}

/// The labels of an arbiter's refusal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RefusalLabels {
    pub(super) strategy: &'static str,
    pub(super) reason: &'static str,
}

/// One label: the strategy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StrategyLabel {
    pub(super) strategy: &'static str,
}

/// The labels of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) method: &'static str,
    pub(super) status: u16,
}

/// The labels of a background job's run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct JobLabels {
    pub(super) job: &'static str,
    pub(super) result: &'static str,
}

/// The labels of a counter of lock events.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LockLabels {
    pub(super) kind: &'static str,
    pub(super) backend: &'static str,
    pub(super) event: &'static str,
}

/// The labels of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LockLabel {
    pub(super) kind: &'static str,
    pub(super) backend: &'static str,
}

/// One label: what the ledger decided about a queued order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DecisionLabels {
    pub(super) decision: &'static str,
}

/// One label: whether the limit is per user or per address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LimitLabels {
    pub(super) by: &'static str,
}

/// One label: the answer of the waiting room.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AnswerLabel {
    pub(super) answer: &'static str,
}

/// One label: how a buyer left the waiting room.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ExitLabel {
    pub(super) reason: &'static str,
}

/// One label: an invariant of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct InvariantLabel {
    pub(super) invariant: &'static str,
}

/// One label: the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DependencyLabel {
    pub(super) dependency: &'static str,
}

/// One label: the end of a span.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SpanLabel {
    pub(super) result: &'static str,
}

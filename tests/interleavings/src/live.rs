//! What goes out of an instance: changes to buyers, and no traces.

use std::sync::Arc;

use shop_domain::trace::{SpanKind, TraceContext};
use shop_domain::{Order, Span};

use crate::book::Book;
use crate::events::log;

/// The way to the owners of orders.
#[derive(Clone)]
pub struct Hub(pub(crate) Arc<Book>);

impl Hub {
    pub(crate) fn order_changed(&self, order: &Order) {
        log(&format!("{} is told as {}", order.id, order.status.as_str()));
        let is_there = self.0.order(order.id).is_some_and(|one| one.status == order.status);
        if !is_there {
            self.0.note_broken(format!("{} was told before its COMMIT", order.id));
        }
    }
}

/// Begins no trace.
#[derive(Clone)]
pub struct Traces;

impl Traces {
    pub(crate) fn begin(&self, _: &'static str, _: SpanKind, _: Option<TraceContext>) -> Span {
        Span::default()
    }
}

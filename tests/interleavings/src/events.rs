//! What happens in a run, line by line: what the servers do, and what the real modules say of the batches' protocol.

use std::cell::RefCell;
use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::time::Instant;

/// Ids of orders begin with this; the trace leaves it out.
pub(crate) const ID: &str = "00000000-0000-7000-8000-";

thread_local! {
    /// The events of the present run, and of the runs before it if they are kept.
    static EVENTS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Takes note of an event.
pub(crate) fn log(event: &str) {
    let at = Instant::now().since_begin().as_millis();
    let event = event.replace(ID, "");
    EVENTS.with_borrow_mut(|events| {
        writeln!(events, "{at:>6} ms {event}").expect("a text takes everything");
    });
}

/// Begins the events of a run.
pub(crate) fn begin_run(keeps: bool) {
    if keeps {
        log("a run begins");
    } else {
        EVENTS.take();
    }
}

/// The events so far.
pub(crate) fn events() -> String {
    EVENTS.with_borrow(Clone::clone)
}

/// Whether an event of this run has this text.
pub(crate) fn has(text: &str) -> bool {
    EVENTS.with_borrow(|events| events.contains(text))
}

/// Takes note of the events of the batches' protocol.
pub(crate) struct Protocol;

impl Subscriber for Protocol {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "ledger::protocol"
    }

    fn event(&self, event: &Event<'_>) {
        let mut said = Said("batches:".to_owned());
        event.record(&mut said);
        log(&said.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The values of an event.
struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field} {value:?}").expect("a text takes everything");
    }
}

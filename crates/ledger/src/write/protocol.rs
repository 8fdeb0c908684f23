//! Says what batches and orders decide, for a check that compares a run with the batches' model
//! (`tests/protocol-models`).
//!
//! They are events of `tracing` at the level `TRACE` and under the target `ledger::protocol`: each costs a look at one
//! number while nobody listens.

use super::{Answer, Attempt};
use shop_domain::{Order, Outcome, Purchase};

/// Says what became of purchases, with further values.
macro_rules! protocol {
    ($what:literal, $purchases:expr $(, $field:ident = $value:expr)* $(,)?) => {
        tracing::trace!(
            target: "ledger::protocol",
            what = $what,
            lines = crate::write::protocol::names($purchases)
            $(, $field = $value)*
        )
    };
}

pub(super) use protocol;

/// The ids of purchases. An order with several lines has one for each.
pub(super) fn names<'a>(purchases: impl IntoIterator<Item = &'a Purchase>) -> String {
    let ids: Vec<String> = purchases.into_iter().map(|one| one.order_id.to_string()).collect();
    ids.join(",")
}

/// The kind of an answer.
pub(super) fn kind(answer: &Answer) -> &'static str {
    match answer {
        Ok(Outcome::Sold(_)) => "sold",
        Ok(Outcome::Replayed(_)) => "replayed",
        Ok(Outcome::Refused(_)) => "refused",
        Ok(Outcome::Unavailable(_)) => "unavailable",
        _ => "unknown",
    }
}

/// Says how a try of an order by itself has ended.
pub(super) fn tried(purchase: &Purchase, attempt: &Attempt) {
    let one = [purchase];
    match attempt {
        Attempt::Done(answer) => protocol!("ended", one, answer = kind(answer)),
        Attempt::Again(_) => protocol!("rolled back", one, objected = false),
        Attempt::CommitLost => protocol!("commit lost", one),
        Attempt::CallLost => protocol!("call lost", one),
    }
}

/// Says what the ledger has under the key of an order whose COMMIT was lost; without `found` it could not be asked.
pub(super) fn recovered(purchase: &Purchase, found: Option<&Option<Order>>) {
    let one = [purchase];
    let Some(order) = found else {
        protocol!("ended", one, answer = "unknown");
        return;
    };
    // Another request with the key may have made the order.
    let own = order.as_ref().filter(|order| order.id == purchase.order_id);
    protocol!("recovered", one, written = names(own.map(|_| purchase)));
}

//! I22: an order costs what its units cost.

use crate::{Evidence, Faults, Finding};

/// Judges I22. The price of an item never changes.
pub fn judge(evidence: &Evidence<'_>) -> Finding {
    let mut faults = Faults::default();
    for order in &evidence.after.mispriced {
        faults.add(format_args!(
            "order {} costs {}, its units cost {}",
            order.id, order.amount, order.price
        ));
    }
    let detail = format!("{} orders at another price", faults.count);
    Finding::judged("I22", "each order costs what its units cost", detail, faults)
}

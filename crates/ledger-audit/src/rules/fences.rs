//! I6: a write by a holder of the lock that came too late was not let in.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{Evidence, Faults, Finding, Order};

const CLAIM: &str = "fences of accepted writes never fall";

/// Judges the fences of each counter in the order in which the ledger accepted them.
pub fn judge(evidence: &Evidence<'_>) -> Finding {
    if !evidence.arbiter_on {
        return Finding::not_judged("I6", CLAIM, "the arbiter is off: nothing compares fences");
    }
    let mut faults = Faults::default();
    let mut accepted = 0;
    let mut by_backend: BTreeMap<&str, Vec<(u64, u64, &Order)>> = BTreeMap::new();
    for order in &evidence.after.orders {
        let Some(fence) = &order.fence else { continue };
        match fence.sequence {
            None => faults.add(format_args!(
                "order {} has the fence {}, which nothing compared",
                order.id, fence.number
            )),
            Some(sequence) => {
                let backend = fence.backend.as_deref().unwrap_or_default();
                let write = (sequence, fence.number, order);
                by_backend.entry(backend).or_default().push(write);
                accepted += 1;
            }
        }
    }
    for (backend, mut writes) in by_backend {
        // Those of one write come with the highest fence first: they should have only one.
        writes.sort_unstable_by_key(|(sequence, fence, _)| (*sequence, Reverse(*fence)));
        let mut highest = 0;
        for (sequence, fence, order) in writes {
            if fence < highest {
                faults.add(format_args!(
                        "order {}: write {sequence} under {backend} has the fence {fence}, after {highest}",
                        order.id
                    ));
            }
            highest = highest.max(fence);
        }
    }
    if accepted == 0 && faults.count == 0 {
        return Finding::not_judged("I6", CLAIM, "no order was written under a lock with fences");
    }
    Finding::judged("I6", CLAIM, format!("{accepted} orders with a fence"), faults)
}

//! I22: the log of a sale, from which buyers get receipts.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};
use verify::log::{KnownLog, check_log};

use crate::{Evidence, Faults, Finding, Ledger, Log};

/// I22: the log proves what it says, and it has the orders of the ledger, all and no others; `None` when the item has no log.
pub fn log(evidence: &Evidence<'_>) -> Option<Finding> {
    const CLAIM: &str = "every receipt is in the log, and the log proves the sale";
    let log = evidence.after.log.as_ref()?;
    let report = check_log(&log.text, KnownLog::default());
    let detail = format!("{} entries, {} heads", report.entries, report.heads);
    let mut faults = Faults::default();
    for sentence in report.faults.values() {
        faults.add(format_args!("{sentence}"));
    }
    if log.waiting > 0 {
        faults.add(format_args!("{} answers are not in the log", log.waiting));
    }
    compare(log, evidence.after, i64::try_from(report.item).unwrap_or_default(), &mut faults);
    Some(Finding::judged("I22", CLAIM, detail, faults))
}

/// Compares the orders that have units by the log with those of the ledger.
fn compare(log: &Log, ledger: &Ledger, item: i64, faults: &mut Faults) {
    let mut live: HashSet<&str> = HashSet::new();
    for line in log.text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["sold", _, order, ..] => {
                live.insert(order);
            }
            ["returned", _, order, ..] => {
                live.remove(order);
            }
            _ => {}
        }
    }
    // The ids of lines differ from that of their order.
    let own = ledger.lines.iter().filter(|line| line.item == item);
    let ids: HashMap<&str, &str> =
        own.map(|line| (line.order.as_str(), line.id.as_str())).collect();
    for order in ledger.orders.iter().filter(|order| order.is_live()) {
        let id = ids.get(order.id.as_str()).copied().unwrap_or(&order.id);
        let name = name_of(&log.secret, id);
        if !name.is_some_and(|name| live.remove(name.as_str())) {
            faults.add(format_args!("order {} is not in the log", order.id));
        }
    }
    if !live.is_empty() {
        faults.add(format_args!("{} entries have no order", live.len()));
    }
}

/// The name of an order in the log, as `docs/receipts.md` describes it.
pub(crate) fn name_of(secret: &str, id: &str) -> Option<String> {
    let (secret, id) = (hex::decode(secret).ok()?, hex::decode(id.replace('-', "")).ok()?);
    let nonce = Sha256::new().chain_update(&secret).chain_update(b"n").chain_update(&id).finalize();
    let name = Sha256::new().chain_update(b"seckill order 1\n").chain_update(&nonce[..16]);
    Some(hex::encode(&name.chain_update(&id).finalize()[..16]))
}

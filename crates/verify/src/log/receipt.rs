//! A receipt by itself: its entry leads to a signed head, and is that of the buyer's order.

use serde::{Deserialize, Serialize};

use super::line::Line;
use super::{Head, LogFault, LogReport, Signatures, check_head};
use crate::{Hash, bytes, hash};

/// The receipt of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub item: u64,
    /// The place of the entry in the log, from 0.
    pub position: u64,
    pub entry: String,
    /// The order that the entry means, and the number that proves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    pub path: Vec<String>,
    pub head: Head,
}

pub(super) fn check(
    report: &mut LogReport,
    receipt: &Receipt,
    keys: Option<&[String]>,
    signatures: &mut Signatures,
) {
    let leaf = hash(&[&[0], receipt.entry.as_bytes()]);
    let path: Option<Vec<Hash>> = receipt.path.iter().map(|node| bytes(node)).collect();
    let root = path.and_then(|path| root_of(leaf, receipt.position, receipt.head.size, &path));
    let is_entry = matches!(
        Line::parse(&receipt.entry),
        Some(Line::Sold { .. } | Line::Refused { .. } | Line::Entry { .. })
    );
    if !is_entry || root.is_none() || root != bytes(&receipt.head.root) {
        report.fault(LogFault::Receipt, "the receipt's entry does not lead to its head");
    }
    if let Some(order) = &receipt.order
        && !names(&receipt.entry, order, receipt.nonce.as_deref().unwrap_or(""))
    {
        report.fault(LogFault::Receipt, "the receipt's entry is that of another order");
    }
    check_head(report, receipt.item, &receipt.head, keys, signatures);
}

/// Whether an entry means an order.
fn names(entry: &str, order: &str, nonce: &str) -> bool {
    let (nonce, order) = (bytes::<16>(nonce), bytes::<16>(&order.replace('-', "")));
    let (Some(nonce), Some(order)) = (nonce, order) else { return false };
    let name = hash(&[b"seckill order 1\n", &nonce, &order]);
    entry.split(' ').nth(2) == Some(&hex::encode(&name[..16]))
}

/// The root to which a path leads: RFC 9162, section 2.1.3.2.
fn root_of(leaf: Hash, position: u64, size: u64, path: &[Hash]) -> Option<Hash> {
    let (mut index, mut last) = (position, size.checked_sub(1)?);
    if index > last {
        return None;
    }
    let mut root = leaf;
    for node in path {
        if last == 0 {
            return None;
        }
        if index % 2 == 1 || index == last {
            root = hash(&[&[1], node, &root]);
            while index % 2 == 0 && index != 0 {
                (index, last) = (index / 2, last / 2);
            }
        } else {
            root = hash(&[&[1], &root, node]);
        }
        (index, last) = (index / 2, last / 2);
    }
    (last == 0).then_some(root)
}

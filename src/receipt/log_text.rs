//! A log as text: its entries in their order, and a signed head behind each batch.

use std::collections::HashSet;

use futures::{Stream, stream};

use super::Receipts;
use ledger::rows::receipts::batches;
use shop_domain::{ItemId, LedgerError};

/// Batches of one read.
const PAGE: u32 = 4;

impl Receipts {
    /// The lines of a log. The text ends early with an error when the ledger does not answer.
    pub fn lines(&self, item: ItemId) -> impl Stream<Item = Result<String, LedgerError>> + use<> {
        let receipts = self.clone();
        let begin = Some((0, HashSet::new()));
        stream::try_unfold(begin, move |state| {
            let receipts = receipts.clone();
            async move {
                let Some((position, mut keys)) = state else { return Ok(None) };
                let (logs, _) = receipts.ledgers.of_item(item).await?;
                let ledger = logs.ledger();
                let page = ledger.read(batches(&ledger.pool, item, position, PAGE)).await?;
                let mut text = String::new();
                if position == 0 {
                    text = format!("sale-log 1\nitem {item}\n");
                }
                let is_last = page.len() < PAGE as usize;
                let mut next = position;
                for batch in page {
                    if keys.insert(batch.public_key.clone()) {
                        text += &format!("key {}\n", batch.public_key);
                    }
                    text += &batch.entries;
                    text += &format!(
                        "head {} {} {} {} {} {} {} {}\n",
                        batch.size,
                        batch.root,
                        batch.signed_at,
                        batch.units,
                        batch.orders,
                        batch.refusals,
                        batch.public_key,
                        batch.signature
                    );
                    next = batch.size;
                }
                Ok(Some((text, (!is_last).then_some((next, keys)))))
            }
        })
    }
}

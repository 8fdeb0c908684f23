//! The published list of entries, page by page.

use futures::{Stream, stream};
use serde::Serialize;

use crate::draws::Draws;
use ledger::rows::draws;
use shop_domain::{ItemId, LedgerError};

/// Entries of one read: what a request holds in memory.
const PAGE: u32 = 500;

/// An entry as it is published.
#[derive(Serialize)]
struct EntryLine<'a> {
    entry: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    party: Option<&'a str>,
    place: Option<u32>,
}

impl Draws {
    /// The entries of an item in the order of their ids, a JSON object each, one a line. The list ends early with an error
    /// when the ledger does not answer.
    pub fn lines(&self, item: ItemId) -> impl Stream<Item = Result<String, LedgerError>> + use<> {
        let draws = self.clone();
        stream::try_unfold(Some(String::new()), move |after| {
            let draws = draws.clone();
            async move {
                let Some(after) = after else { return Ok(None) };
                let ledger = draws.parts.transactions.ledger();
                let page = ledger.read(draws::list(&ledger.pool, item, &after, PAGE)).await?;
                let mut lines = String::new();
                for listed in &page {
                    let party = Some(listed.party.as_str()).filter(|party| *party != listed.entry);
                    let line = EntryLine { entry: &listed.entry, party, place: listed.place };
                    lines += &serde_json::to_string(&line).unwrap_or_default();
                    lines.push('\n');
                }
                let next = page.into_iter().nth(PAGE as usize - 1).map(|last| last.entry);
                Ok(Some((lines, next)))
            }
        })
    }
}

//! The published list of entries, page by page.

use std::time::Duration;

use draw_proof::entry_line;
use futures::{Stream, stream};
use tokio::time::timeout;

use crate::draws::Draws;
use crate::sql::rows;
use shop_domain::{ItemId, LedgerError};

/// Entries of one read: what a request holds in memory.
const PAGE: u32 = 500;
/// How long a request waits for its turn to read a page: far longer than it takes while the ledger answers.
const TURN_WAIT_MAX: Duration = Duration::from_secs(60);

impl Draws {
    /// The entries of a draw that is over, in the order of their ids, one a line. The list ends early with an error when
    /// the ledger does not answer.
    pub fn lines(&self, item: ItemId) -> impl Stream<Item = Result<String, LedgerError>> + use<> {
        let draws = self.clone();
        stream::try_unfold(Some(String::new()), move |after| {
            let draws = draws.clone();
            async move {
                let Some(after) = after else { return Ok(None) };
                let ledger = &draws.parts.core.ledger;
                let turn = timeout(TURN_WAIT_MAX, draws.pages.acquire()).await;
                let Ok(Ok(turn)) = turn else { return Err(LedgerError::Overloaded) };
                let page = ledger.read(rows::list(&ledger.pool, item, &after, PAGE)).await?;
                drop(turn);
                let mut lines = String::new();
                for listed in &page {
                    let place = listed.place.unwrap_or_default();
                    lines += &entry_line(&listed.entry, &listed.party, place);
                }
                let next = page.into_iter().nth(PAGE as usize - 1).map(|last| last.entry);
                Ok(Some((lines, next)))
            }
        })
    }
}

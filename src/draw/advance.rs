//! The steps of draws that are due. Any instance may take them, at any time and again.

use futures::{StreamExt, stream};

use super::Draws;
use ledger::draw::Step;
use ledger::rows::{draws, nothing_was_sent};
use shop_domain::ItemId;

/// Draws that are advanced at once.
const AT_ONCE: usize = 4;

impl Draws {
    /// Takes the next steps of the draws; returns how many draws were looked at, and how many of them failed. An error belongs to its draw: it is logged, and the others go on.
    ///
    /// # Errors
    /// The database's, when it does not answer; what was done stays done.
    pub async fn advance(&self) -> ledger::Result<(usize, usize)> {
        let pool = &self.parts.transactions.ledger().pool;
        let due = draws::due(pool).await?;
        let count = due.len();
        let steps = due.into_iter().map(|item| self.advance_or_log(item));
        let mut steps = stream::iter(steps).buffer_unordered(AT_ONCE);
        let mut failed = Ok(0);
        while let Some(step) = steps.next().await {
            failed = failed.and_then(|failed| step.map(|more| failed + more));
        }
        failed.map(|failed| (count, failed))
    }

    /// Returns 1 when the draw failed, and an error when the ledger did.
    async fn advance_or_log(&self, item: ItemId) -> ledger::Result<usize> {
        match self.advance_one(item).await {
            Ok(()) => Ok(0),
            Err(StepError::Ledger(error)) if nothing_was_sent(&error) => Err(error),
            Err(error) => {
                tracing::warn!(%error, %item, "draw not advanced; a later run tries again");
                Ok(1)
            }
        }
    }

    async fn advance_one(&self, item: ItemId) -> Result<(), StepError> {
        let draws = &self.parts.transactions;
        match draws.close(item).await? {
            Step::Nothing => return Ok(()),
            Step::Value { beacon, round, seed } => {
                let now = self.parts.clock.now();
                let value = self.parts.beacons.value((beacon, round, &seed), now).await;
                let Some((signature, value)) = value.map_err(StepError::Beacon)? else {
                    return Ok(());
                };
                draws.take_value(item, &signature, &value).await?;
            }
            Step::Places => {}
        }
        let Some(places) = draws.places(item).await? else { return Ok(()) };
        while let Some(change) = places.write_next().await? {
            self.parts.lists.publish(item, &change).await;
        }
        self.parts.catalog.forget(item);
        Ok(())
    }
}

/// The reason why a step was not taken.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    #[error("the beacon's value cannot be read: {0}")]
    Beacon(String),
}

//! Moves that were broken off: ending them, forwards or backwards, by hand or by the service.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::close::epoch_of;
use super::{MoveError, MoveResult, MoveState, Mover};
use crate::rows::item_lock::{ItemLock, Work};
use crate::rows::moves::{self, ItemMove};
use shop_domain::ItemId;

/// How long a move that still copies is left to its operator, who may run the command again or give the move up.
/// The item sells meanwhile.
const LEFT_TO_OPERATOR: Duration = Duration::from_secs(10);
/// Moves that one look goes on with.
const RESUMED_MAX: usize = 4;

/// The moves that the service has seen without a mover, and since when.
#[derive(Debug, Default)]
pub struct Watch {
    undriven: HashMap<(ItemId, u64), Instant>,
    /// Moves that could not be ended at the last try.
    failed: HashSet<(ItemId, u64)>,
}

/// What one look at the moves has found and done.
#[derive(Debug, Default)]
pub struct ResumeSummary {
    /// Moves that were under way.
    pub under_way: usize,
    /// Moves that were broken off and are ended now: the item lives at the target, or was tidied up.
    pub ended: usize,
    /// Moves that were broken off and are given up: the item sells where it was.
    pub given_up: usize,
    /// Why others are still under way.
    pub failed: Vec<(ItemId, MoveError)>,
}

impl Mover {
    /// Ends a move that is under way: it goes on to its target, or is tidied up if it was given up.
    pub async fn resume(&self, item: ItemId) -> Result<MoveResult, MoveError> {
        let _lock = self.lock(item).await?;
        let of = moves::under_way(self.home()?, item).await?.ok_or(MoveError::NoMove)?;
        self.drive(of).await
    }

    /// Ends a move that is under way: the item stays at its source. After the flip it is too late.
    pub async fn give_up(&self, item: ItemId) -> Result<MoveResult, MoveError> {
        let _lock = self.lock(item).await?;
        let of = moves::under_way(self.home()?, item).await?.ok_or(MoveError::NoMove)?;
        let ends = self.ends(of)?;
        match ends.of.state {
            MoveState::Flipped => Err(MoveError::Flipped(ends.of.target)),
            MoveState::GivenUp => self.tidy_up(&ends).await,
            _ => {
                ends.give_up().await?;
                self.tidy_up_later(&ends).await;
                let (home, epoch) = (ends.of.source, ends.of.epoch);
                Ok(MoveResult { home, epoch, rows: 0, pause: None, given_up: 0 })
            }
        }
    }

    /// Goes on with moves without a mover, one after the other. A move that still copies is left alone for
    /// a while; of any other the item is paused, or nothing can be decided any more.
    pub async fn resume_undriven(&self, watch: &mut Watch) -> Result<ResumeSummary, MoveError> {
        let mut under_way = moves::all_under_way(self.home()?).await?;
        // Paused items first: tidying up behind a ledger that is away takes its time.
        // Those that failed last time come last: others of healthy ledgers must not wait for them.
        under_way.sort_by_key(|of| {
            let state = match of.state {
                MoveState::Closed => 0,
                MoveState::Copying => 1,
                MoveState::Flipped | MoveState::GivenUp | MoveState::Done => 2,
            };
            (watch.failed.contains(&(of.item, of.epoch)), state)
        });
        let mut resumed = ResumeSummary { under_way: under_way.len(), ..ResumeSummary::default() };
        let is_known = |key: &(ItemId, u64)| under_way.iter().any(|of| (of.item, of.epoch) == *key);
        watch.undriven.retain(|key, _| is_known(key));
        watch.failed.retain(is_known);
        let mut begun = 0;
        for of in &under_way {
            if !ItemLock::is_free(self.home()?, Work::Move, of.item).await? {
                watch.undriven.remove(&(of.item, of.epoch));
                continue;
            }
            // Judged without the lock: instances that take it would look to each other like movers.
            let sells = match self.sells_at_source(of).await {
                Ok(sells) => sells,
                Err(error) => {
                    resumed.failed.push((of.item, error));
                    continue;
                }
            };
            if !watch.is_due(of, sells) || begun == RESUMED_MAX {
                continue;
            }
            let Some(_lock) = ItemLock::take_free(self.home()?, Work::Move, of.item).await? else {
                continue;
            };
            // The mover before may have come further, or to the end.
            let Some(of) = moves::under_way(self.home()?, of.item).await? else { continue };
            begun += 1;
            let (item, key) = (of.item, (of.item, of.epoch));
            watch.failed.remove(&key);
            tracing::warn!(%item, state = of.state.as_str(), "move has no mover; the service goes on with it");
            match self.drive(of).await {
                Ok(_) => resumed.ended += 1,
                Err(MoveError::GivenUp { .. }) => resumed.given_up += 1,
                Err(error) => {
                    watch.failed.insert(key);
                    resumed.failed.push((item, error));
                }
            }
        }
        Ok(resumed)
    }

    /// Returns whether the item sells at its source, as it does until it is closed there.
    async fn sells_at_source(&self, of: &ItemMove) -> Result<bool, MoveError> {
        let is_open = of.state == MoveState::Copying
            && epoch_of(self.ledger(of.source)?, of.item).await? != Some(of.epoch);
        Ok(is_open)
    }
}

impl Watch {
    /// Notes that a move has no mover, and returns whether the service is to go on with it.
    fn is_due(&mut self, of: &ItemMove, sells: bool) -> bool {
        let since = self.undriven.entry((of.item, of.epoch)).or_insert_with(Instant::now);
        !sells || since.elapsed() >= LEFT_TO_OPERATOR
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;
    use shop_domain::ShardId;

    #[test]
    fn a_move_that_copies_is_left_to_its_operator_first() {
        let item = ItemId::new(1).expect("positive");
        let of = ItemMove {
            item,
            epoch: 2,
            source: ShardId::HOME,
            target: ShardId::HOME,
            state: MoveState::Copying,
            started_at: OffsetDateTime::UNIX_EPOCH,
            closed_at: None,
            flipped_at: None,
            ended_at: None,
        };
        let mut watch = Watch::default();
        assert!(!watch.is_due(&of, true), "seen for the first time");
        assert!(watch.is_due(&of, false), "the item is paused");
        let long_ago =
            Instant::now().checked_sub(LEFT_TO_OPERATOR).expect("the machine runs longer");
        watch.undriven.insert((item, 2), long_ago);
        assert!(watch.is_due(&of, true), "for long");
    }
}

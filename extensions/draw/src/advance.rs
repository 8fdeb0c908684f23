//! The steps of draws that are due. Any instance may take them, at any time and again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::{StreamExt, stream};

use crate::draws::DrawParts;
use crate::sql::rows::{self, DueDraw};
use crate::sql::{self, Step};
use extension::job::Job;
use ledger::work::nothing_was_sent;
use shop_domain::ItemId;

/// Draws that are advanced at once.
const AT_ONCE: usize = 4;
/// How long another session may have the lock of a draw without a new place before that is reported. An instance that
/// hangs has the lock until the ledger ends its session.
const HELD_MAX: Duration = Duration::from_secs(10);
/// A draw writes its places for so long, and then ends the run if others are due: a list must be published before its
/// round, and a run does not know the draws that closed after it began. The next run goes on.
const PLACING_MAX: Duration = Duration::from_secs(2);
/// A run begins no step of a further draw when its draws with a list have taken so long, such as for a beacon that does
/// not answer. The next run publishes new lists, and goes on behind the last of those draws.
const RUN_MAX: Duration = Duration::from_secs(2);

/// The job that advances the draws.
pub struct DrawJob {
    parts: DrawParts,
    held: HeldDraws,
    /// The last item of the draws with a list that a run has looked at.
    reached: AtomicI64,
}

#[async_trait]
impl Job for DrawJob {
    /// Takes the next steps of the draws. An error belongs to its draw: it is logged, and the others go on.
    async fn run(&self) -> Result<String, String> {
        let due = rows::due(&self.parts.core.ledger.pool).await;
        let mut due = due.map_err(|error| error.to_string())?;
        self.held.keep_only(&due);
        let count = due.len();
        let mut failed = 0;
        let mut held = 0;
        let reached = self.reached.load(Ordering::Relaxed);
        // First those without a list.
        due.sort_by_key(|draw| draw.is_listed.then_some((draw.item.get() <= reached, draw.item)));
        let begun = OnceLock::new();
        let steps = due.into_iter().map(|draw| self.advance_in_time(draw, &begun));
        let mut steps = stream::iter(steps).buffer_unordered(AT_ONCE);
        let mut silent = Ok(());
        while let Some(step) = steps.next().await {
            match step {
                Ok(Ended::Done) => {}
                Ok(Ended::Failed) => failed += 1,
                Ok(Ended::Held) => held += 1,
                Err(error) => silent = Err(error.to_string()),
            }
        }
        silent?;
        if failed > 0 {
            return Err(format!("{failed} of {count} draws failed, see the log"));
        }
        if held > 0 {
            return Err(format!(
                "{held} of {count} draws wait for a lock that another session has"
            ));
        }
        Ok(format!("{count} draws due"))
    }
}

/// The draws whose lock another session has.
#[derive(Default)]
struct HeldDraws(Mutex<HashMap<ItemId, HeldDraw>>);

/// A draw whose lock another session has.
struct HeldDraw {
    placed: u32,
    since: Instant,
}

/// How a step of a draw ended.
enum Ended {
    Done,
    Failed,
    /// Another session has had its lock for long.
    Held,
}

impl DrawJob {
    /// The job over `parts`.
    pub fn new(parts: DrawParts) -> Self {
        Self { parts, held: HeldDraws::default(), reached: AtomicI64::default() }
    }

    /// Takes the next steps of one draw, unless it has a list and the run has lasted for [`RUN_MAX`] since it `begun` with
    /// such draws.
    async fn advance_in_time(
        &self,
        draw: DueDraw,
        begun: &OnceLock<Instant>,
    ) -> ledger::Result<Ended> {
        if draw.is_listed {
            if begun.get_or_init(Instant::now).elapsed() >= RUN_MAX {
                return Ok(Ended::Done);
            }
            self.reached.store(draw.item.get(), Ordering::Relaxed);
        }
        self.advance_or_log(draw.item).await
    }

    /// Takes the next steps of one draw.
    ///
    /// # Errors
    /// The ledger's, when it does not answer.
    async fn advance_or_log(&self, item: ItemId) -> ledger::Result<Ended> {
        match self.advance_one(item).await {
            Ok(ended) => Ok(ended),
            Err(StepError::Ledger(error)) if nothing_was_sent(&error) => Err(error),
            Err(error) => {
                tracing::warn!(%error, %item, "draw not advanced; a later run tries again");
                Ok(Ended::Failed)
            }
        }
    }

    async fn advance_one(&self, item: ItemId) -> Result<Ended, StepError> {
        let core = &self.parts.core;
        let pool = &core.ledger.pool;
        match sql::close(pool, &self.parts.keys, item).await? {
            Step::Nothing => return Ok(Ended::Done),
            Step::Held => return self.held(item).await,
            Step::EarlierBuild => return Err(StepError::EarlierBuild),
            Step::Key { public } => return Err(StepError::Key(public)),
            Step::Value(round) => {
                let now = core.kit.clock.now();
                let signature = self.parts.beacons.signature(&round, now).await;
                let Some(signature) = signature.map_err(StepError::Beacon)? else {
                    return Ok(Ended::Done);
                };
                sql::take_value(pool, item, &signature).await?;
            }
            Step::Places => {}
        }
        let Some(mut places) = sql::places(core, item).await? else { return self.held(item).await };
        let mut looked = Instant::now();
        while let Some(change) = places.write_next().await? {
            core.waiting_lists.publish(item, &change).await;
            if looked.elapsed() >= PLACING_MAX {
                let due = rows::due(pool).await?;
                if due.iter().any(|other| other.item != item) {
                    break;
                }
                looked = Instant::now();
            }
        }
        self.held.forget(item);
        core.items.forget(item);
        Ok(Ended::Done)
    }

    /// Notes that another session has the lock of a draw.
    async fn held(&self, item: ItemId) -> Result<Ended, StepError> {
        let placed = rows::placed(&self.parts.core.ledger.pool, item).await?;
        let is_long = self.held.note(item, placed) >= HELD_MAX;
        Ok(if is_long { Ended::Held } else { Ended::Done })
    }
}

impl HeldDraws {
    /// Notes that a draw is held, and its number of places. Returns for how long it has had no new one.
    fn note(&self, item: ItemId, placed: u32) -> Duration {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.entry(item).or_insert_with(|| HeldDraw { placed, since: Instant::now() });
        if held.placed != placed {
            *held = HeldDraw { placed, since: Instant::now() };
        }
        held.since.elapsed()
    }

    fn forget(&self, item: ItemId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&item);
    }

    fn keep_only(&self, due: &[DueDraw]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|item, _| due.iter().any(|draw| draw.item == *item));
    }
}

/// The reason why a step was not taken.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    #[error("the beacon's value cannot be read: {0}")]
    Beacon(String),
    #[error("a build before this one has announced it, and that build ends it")]
    EarlierBuild,
    #[error("neither draw.signing_key nor draw.signing_key_previous is the key {0} of its rules")]
    Key(String),
}

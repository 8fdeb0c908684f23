//! Optimistic writing: read, compute, write if nothing changed since, otherwise start again.

use std::time::Duration;

use tokio::sync::Semaphore;

use super::{ledger_view, redis_gate};
use crate::arbiter::{Bare, Verdict, Write};
use crate::domain::{Outcome, Unavailable};
use crate::store::mysql::stock::StockRow;
use crate::strategy::{Gear, Request, outcome};

/// How often one purchase tries.
const TRIES_MAX: u32 = 200;
/// Purchases of this process that try at once.
const TRYING_MAX: usize = 8;
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(30);

/// Compare-and-set on the stock row.
pub struct CompareAndSet {
    gear: Gear,
    trying: Semaphore,
    /// From the row as it was read and the computed number: the write that compares.
    bare: fn(&StockRow, i64) -> Bare,
}

impl CompareAndSet {
    /// Writes with what `bare` makes of the row that was read and the units to be left.
    #[must_use]
    pub fn new(gear: &Gear, bare: fn(&StockRow, i64) -> Bare) -> Self {
        Self { gear: gear.clone(), trying: Semaphore::new(TRYING_MAX), bare }
    }

    /// Tries until the write meets the row that it read, each time in a new transaction; gives up
    /// at the deadline.
    pub async fn purchase(&self, request: &Request) -> Outcome {
        for _ in 0..TRIES_MAX {
            let turn = tokio::time::timeout_at(request.deadline, self.trying.acquire()).await;
            let Ok(Ok(turn)) = turn else { break };
            let verdict = match self.try_once(request).await {
                Ok(verdict) => verdict,
                Err(outcome) => return outcome,
            };
            drop(turn);
            if verdict != Verdict::Stale {
                return outcome(verdict);
            }
            if let Some(late) = redis_gate::pause(request, PAUSE_MAX).await {
                return late;
            }
        }
        Outcome::Unavailable(Unavailable::Contended)
    }

    async fn try_once(&self, request: &Request) -> Result<Verdict, Outcome> {
        let purchase = &request.purchase;
        let seen = ledger_view::look(&self.gear.pool, purchase).await?;
        let bare = (self.bare)(&seen, seen.available - purchase.quantity.signed());
        let version_seen = match bare {
            Bare::CompareVersion { version, .. } => Some(version),
            _ => None,
        };
        let write = Write { purchase, fence: None, version_seen, bare };
        Ok(self.gear.arbiter.write(&write).await)
    }
}

//! The forms in which an order's transaction travels to the server: one call, or one statement after
//! the other where the server has no procedure.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::MySqlConnection;

use super::one_call::{self, Called};
use super::{Attempt, OrderWrite, is_guarded, transaction};
use crate::rows::order_routine::{self, RoutineState};
use crate::rows::outbox::Outbox;

/// The procedure is looked at again after this: it may have been made or replaced since, or another
/// server may write.
const LOOK_PERIOD: Duration = Duration::from_secs(30);

/// What is known about the procedure, and since when.
type Known = Option<(RoutineState, Instant)>;

/// The forms that are allowed. Clones share what they know about the procedure.
#[derive(Clone, Debug)]
pub(super) struct Forms {
    /// Whether an order may be one call of the procedure.
    pub(super) is_called: bool,
    known: Arc<Mutex<Known>>,
}

impl Default for Forms {
    fn default() -> Self {
        Self { is_called: true, known: Arc::default() }
    }
}

impl Forms {
    /// One try in the fastest form. `Err` means that nothing was committed and the transaction was
    /// rolled back. Galera never gets a call: a node that rolls a transaction back, because another
    /// node's came first, must be able to say so after each statement.
    pub(super) async fn try_once(
        &self,
        connection: &mut MySqlConnection,
        write: &OrderWrite<'_>,
        outbox: Outbox,
        is_galera: bool,
    ) -> sqlx::Result<Attempt> {
        let fits = is_guarded(write.purchase) && write.stock.fits_a_call();
        if self.is_called && !is_galera && fits && self.is_own(connection).await? {
            match one_call::run(connection, write, outbox).await? {
                Called::Tried(tried) => return Ok(tried),
                Called::NotRaised => {}
                Called::Missing => self.remember(RoutineState::Missing),
            }
        }
        transaction::run(connection, write, outbox).await
    }

    /// Whether the server's procedure is the program's own.
    async fn is_own(&self, connection: &mut MySqlConnection) -> sqlx::Result<bool> {
        match self.recent() {
            Some(found) => Ok(found == RoutineState::Own),
            None => {
                let found = order_routine::look(connection).await?;
                self.remember(found);
                Ok(found == RoutineState::Own)
            }
        }
    }

    /// What is known, if it is known well enough. When it is too old, one caller looks again, and the
    /// others go by it until then.
    fn recent(&self) -> Option<RoutineState> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (found, since) = known.as_mut()?;
        if since.elapsed() < LOOK_PERIOD {
            return Some(*found);
        }
        *since = Instant::now();
        None
    }

    fn remember(&self, found: RoutineState) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.replace((found, Instant::now()));
        if before.is_some_and(|(before, _)| before == found) {
            return;
        }
        match found {
            RoutineState::Own => {}
            RoutineState::Missing => tracing::warn!(
                "the ledger has no procedure for orders, or this account may not execute it; \
                 `seckill migrate` makes it; until then each order takes more round trips"
            ),
            RoutineState::Foreign => tracing::warn!(
                "the ledger's procedure for orders is not the one of this program, or this account may \
                 not read it; it is not called; `seckill migrate` replaces it"
            ),
        }
    }
}

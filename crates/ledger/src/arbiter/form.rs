//! The forms in which an order's transaction travels to the server: one call, or one statement after
//! the other where the server has no procedure.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::MySqlConnection;

use super::one_call::{self, Called};
use super::{Attempt, OrderWrite, is_guarded, transaction};
use crate::store::mysql::outbox::Outbox;

/// A server without the procedure is asked again after this: it may have been made since, or another
/// server may write.
const MISSING_PERIOD: Duration = Duration::from_secs(30);

/// The forms that are allowed. Clones share the last answer of a server without the procedure.
#[derive(Clone, Debug)]
pub(super) struct Forms {
    /// Whether an order may be one call of the procedure.
    pub(super) is_called: bool,
    /// When the server last said that it has no procedure.
    missing_since: Arc<Mutex<Option<Instant>>>,
}

impl Default for Forms {
    fn default() -> Self {
        Self { is_called: true, missing_since: Arc::default() }
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
        if self.is_called && !is_galera && fits && !self.is_missing() {
            match one_call::run(connection, write, outbox).await? {
                Called::Tried(tried) => return Ok(tried),
                Called::NotRaised => {}
                Called::Missing => self.remember_missing(),
            }
        }
        transaction::run(connection, write, outbox).await
    }

    fn is_missing(&self) -> bool {
        let since = *self.missing_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() < MISSING_PERIOD)
    }

    fn remember_missing(&self) {
        let mut since = self.missing_since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.is_none() {
            tracing::warn!(
                "the ledger has no procedure for orders, or this account may not execute it; \
                 `seckill migrate` makes it; until then each order takes more round trips"
            );
        }
        *since = Some(Instant::now());
    }
}

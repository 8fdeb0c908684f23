//! The forms in which an order's transaction travels to the server: one call, two packets, or one
//! statement after the other. The fastest that the server takes is used.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::MySqlConnection;

use super::one_call::{self, Called};
use super::{Attempt, OrderWrite, is_guarded, transaction, two_packets};
use crate::store::mysql::outbox::Outbox;

/// A server without the procedure is asked again after this: it may have been made since, or another
/// server may write.
const MISSING_PERIOD: Duration = Duration::from_secs(30);

/// The forms that are allowed, and what is known of the server. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Forms {
    /// Whether an order may be one call of the procedure.
    pub(super) is_called: bool,
    /// Whether several statements may travel in one packet.
    pub(super) is_packed: bool,
    /// When the server last said that it has no procedure.
    missing_since: Arc<Mutex<Option<Instant>>>,
}

impl Default for Forms {
    fn default() -> Self {
        Self { is_called: true, is_packed: true, missing_since: Arc::default() }
    }
}

impl Forms {
    /// One try in the fastest form. `takes_packets` says whether the engine runs several statements
    /// safely without an answer between them. `Err` means that nothing was committed and the
    /// transaction was rolled back.
    pub(super) async fn try_once(
        &self,
        connection: &mut MySqlConnection,
        write: &OrderWrite<'_>,
        outbox: Outbox,
        takes_packets: bool,
    ) -> sqlx::Result<Attempt> {
        if !takes_packets || !write.stock.fits_a_packet() {
            return transaction::run(connection, write, outbox).await;
        }
        if self.is_called && is_guarded(write.purchase) && !self.is_missing() {
            match one_call::run(connection, write, outbox).await? {
                Called::Tried(tried) => return Ok(tried),
                Called::NotRaised => {}
                Called::Missing => self.remember_missing(),
            }
        }
        if self.is_packed {
            two_packets::run(connection, write, outbox).await
        } else {
            transaction::run(connection, write, outbox).await
        }
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

//! Tokens that were signed out before they expired.
//!
//! The list is short (signing out is rare, and entries leave when the token would have expired), so
//! each instance keeps it whole and reads it again every two seconds: a token that was signed out
//! on another instance is accepted for at most two seconds more. Until an instance has read the
//! list once it cannot know which tokens were signed out, so it refuses all of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use sqlx::MySqlPool;
use time::OffsetDateTime;

use crate::store::mysql::sessions;

/// Rows that one clean-up deletes.
const FORGET_MAX: u32 = 1_000;

/// The signed-out tokens that this instance knows. Clones share the list.
#[derive(Clone)]
pub struct Revocations {
    pool: MySqlPool,
    known: Arc<RwLock<HashMap<String, OffsetDateTime>>>,
    was_read: Arc<AtomicBool>,
}

impl Revocations {
    /// Makes an empty list, before the first read of the ledger's table.
    #[must_use]
    pub fn new(pool: MySqlPool) -> Self {
        Self { pool, known: Arc::default(), was_read: Arc::default() }
    }

    /// Whether the list was read at least once; until then no token may be accepted.
    #[must_use]
    pub fn was_read(&self) -> bool {
        self.was_read.load(Ordering::Acquire)
    }

    /// Whether a token was signed out, as far as this instance knows.
    #[must_use]
    pub fn contains(&self, token_id: &str) -> bool {
        let known = self.known.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        !known.is_empty() && known.contains_key(token_id)
    }

    /// Signs a token out: here at once, on other instances after their next read.
    ///
    /// # Errors
    /// The database's; the token is signed out on this instance all the same.
    pub fn revoke<'a>(
        &'a self,
        token_id: &'a str,
        expires_at: OffsetDateTime,
    ) -> impl Future<Output = sqlx::Result<()>> + 'a {
        // At once, before the returned future writes to the ledger.
        self.write().insert(token_id.to_owned(), expires_at);
        sessions::revoke(&self.pool, token_id, expires_at)
    }

    /// Reads the list again and removes expired tokens.
    ///
    /// # Errors
    /// The database's; the list stays as it was, or expired tokens are not removed yet.
    pub async fn refresh(&self) -> sqlx::Result<usize> {
        let listed = sessions::list(&self.pool).await?;
        let count = listed.len();
        self.write().extend(listed);
        self.was_read.store(true, Ordering::Release);
        let now = OffsetDateTime::now_utc();
        self.write().retain(|_, expires_at| *expires_at > now);
        sessions::forget_expired(&self.pool, FORGET_MAX).await?;
        Ok(count)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<String, OffsetDateTime>> {
        self.known.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

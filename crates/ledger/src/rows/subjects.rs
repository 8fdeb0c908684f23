//! Users whom an identity provider knows: which of its subjects is which user.

use crate::Database;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};
use sqlx::MySqlConnection;
use time::OffsetDateTime;

use super::Fault;
use super::link::answered;
use super::new_id::with_new_id;
use super::statement::{Binds, Read};
use super::transaction::transact;
use shop_domain::UserId;

/// What the folded name of such a user begins with: no name that a person types has a colon.
const FOLDED_PREFIX: &str = "oidc:";

/// A user as an identity provider names it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The provider.
    pub issuer: &'a str,
    /// Its name for the user.
    pub subject: &'a str,
}

impl Subject<'_> {
    fn hash(&self) -> [u8; 32] {
        let hash = Sha256::new().chain_update(self.issuer).chain_update([0]);
        hash.chain_update(self.subject).finalize().into()
    }
}

/// Finds the user of a subject.
pub async fn find(pool: &Database, subject: Subject<'_>) -> sqlx::Result<Option<UserId>> {
    sqlx::query_scalar("SELECT user_id FROM subjects WHERE subject_hash = ?")
        .bind(subject.hash().to_vec())
        .first(pool)
        .await
}

/// Creates the user of a subject, whose name is `name` on pages; `None` when another request was
/// first.
///
/// # Errors
/// The database's; after an error of the COMMIT the user may exist.
pub async fn create(
    pool: &Database,
    subject: Subject<'_>,
    name: &str,
    now: OffsetDateTime,
) -> sqlx::Result<Option<UserId>> {
    let created = with_new_id(|| {
        transact(pool, move |transaction| {
            Box::pin(answered(insert(transaction, subject, name, now)))
        })
    });
    match created.await {
        Err(error) if Fault::of(&error) == Fault::Duplicate => Ok(None),
        user => user.map(Some),
    }
}

async fn insert(
    transaction: &mut MySqlConnection,
    subject: Subject<'_>,
    name: &str,
    now: OffsetDateTime,
) -> sqlx::Result<UserId> {
    let hash = subject.hash();
    let id = UserId::generate();
    sqlx::query(
        "INSERT INTO users (id, username, username_folded, password_hash, role, demo, created_at) \
         VALUES (?, ?, ?, '', 'buyer', FALSE, ?)",
    )
    .binds((id.get(), name, format!("{FOLDED_PREFIX}{}", BASE64.encode(hash)), now))
    .execute(&mut *transaction)
    .await?;
    sqlx::query(
        "INSERT INTO subjects (subject_hash, user_id, issuer, subject, created_at) \
         VALUES (?, ?, ?, ?, ?)",
    )
    .binds((hash.to_vec(), id.get(), subject.issuer, subject.subject, now))
    .execute(transaction)
    .await?;
    Ok(id)
}

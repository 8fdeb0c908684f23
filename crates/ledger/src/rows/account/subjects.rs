//! Users whom an identity provider knows: which of its subjects is which user.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use sqlx::MySqlConnection;
use time::OffsetDateTime;

use super::erased;
use super::users::unless_taken;
use mysql_connection::statement::{Binds, Read};
use mysql_connection::{Database, answered, transact, with_new_id};
use shop_domain::UserId;
use shop_domain::columns::Text;

/// The beginning of the folded name of such a user: no name that a person types has a colon.
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

/// The purpose for which the keys are derived from the secrets.
const KEY_PURPOSE: &str = "seckill: subjects of deleted accounts";

/// Keys under which the subjects of deleted people are hashed: that of the present secret, and that of the one before
/// it. So a copy of the table alone names nobody, also for a reader who knows all subjects.
#[derive(Clone)]
pub struct SubjectKeys {
    present: Hmac<Sha256>,
    previous: Option<Hmac<Sha256>>,
}

impl SubjectKeys {
    /// The keys of the service's secrets.
    pub fn new(secret: &[u8], previous: Option<&[u8]>) -> Self {
        Self { present: key_of(secret), previous: previous.map(key_of) }
    }

    /// The hashes that a subject may have in the table.
    fn hashes(&self, subject: Subject<'_>) -> Vec<[u8; 32]> {
        let keys = std::iter::once(&self.present).chain(&self.previous);
        keys.map(|key| keyed_hash(key, subject)).collect()
    }
}

fn key_of(secret: &[u8]) -> Hmac<Sha256> {
    let mac =
        |key: &[u8]| Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac(&mac(secret).chain_update(KEY_PURPOSE).finalize().into_bytes())
}

fn keyed_hash(key: &Hmac<Sha256>, subject: Subject<'_>) -> [u8; 32] {
    key.clone().chain_update(subject.hash()).finalize().into_bytes().into()
}

/// The hash under the present key of the subject that a user has; `None` for a user without one.
///
/// # Errors
/// The database's; the caller rolls back.
pub async fn hash_of(
    transaction: &mut MySqlConnection,
    user: UserId,
    keys: &SubjectKeys,
) -> sqlx::Result<Option<[u8; 32]>> {
    let read = "SELECT issuer, subject FROM subjects WHERE user_id = ? FOR UPDATE";
    let found: Option<(Text, Text)> =
        sqlx::query_as(read).bind(user.get()).first(transaction).await?;
    let hash = |(Text(issuer), Text(subject)): &(Text, Text)| {
        keyed_hash(&keys.present, Subject { issuer, subject })
    };
    Ok(found.as_ref().map(hash))
}

/// Finds the user of a subject.
pub async fn find(pool: &Database, subject: Subject<'_>) -> sqlx::Result<Option<UserId>> {
    sqlx::query_scalar("SELECT user_id FROM subjects WHERE subject_hash = ?")
        .bind(subject.hash().to_vec())
        .first(pool)
        .await
}

/// Creates the user of a subject, whose name is `name` on pages; `None` when another request was first. A person who
/// was deleted gets the same number again while a sale runs that counts what was bought under it.
///
/// # Errors
/// The database's; after an error of the COMMIT the user may exist.
pub async fn create(
    pool: &Database,
    subject: Subject<'_>,
    keys: &SubjectKeys,
    name: &str,
    now: OffsetDateTime,
) -> sqlx::Result<Option<UserId>> {
    let hashes = keys.hashes(subject);
    let created = with_new_id(|| {
        let hashes = &hashes;
        transact(pool, move |transaction| {
            Box::pin(answered(insert(transaction, subject, hashes, name, now)))
        })
    });
    unless_taken(created.await)
}

async fn insert(
    transaction: &mut MySqlConnection,
    subject: Subject<'_>,
    hashes: &[[u8; 32]],
    name: &str,
    now: OffsetDateTime,
) -> sqlx::Result<UserId> {
    let hash = subject.hash();
    let before = erased::take(transaction, hashes).await?;
    let id = before.unwrap_or_else(UserId::generate);
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

//! Tokens that were signed out before they expired: one by one, all those of a user, or all those of a shop.
//!
//! The lists are short (signing out is rare, and entries leave when the tokens would have expired),
//! so each instance keeps them whole and reads what is new every two seconds: a token that was
//! signed out on another instance is accepted for at most two seconds more. Until an instance has
//! read the lists once it cannot know which tokens were signed out, so it refuses all of them.
//!
//! Signing out everywhere begins a new *generation* of the user's sessions: a token carries the
//! generation of its sign-in, and is refused when the list has a later one. The ledger gives the numbers by its own
//! clock, and they rise, so no clocks are compared. A generation that the list does not have is looked up: if the ledger
//! has not begun it, the ledger has lost commits or went back to an older copy, and the token is refused. The tokens of a
//! shop have generations of their own, which `seckill shop` begins.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use ledger::breaker::Breaker;
use ledger::cache::Cache;
use ledger::work::{ask, failed_read};
use mysql_connection::Database;
use time::{Duration, OffsetDateTime};

use super::Accounts;
use extension::job::Job;
use ledger::rows::sessions::{self, GENERATION_DAYS, Generation};
use ledger::rows::shops;
use shop_domain::{BuyerReference, LedgerError, ShopId, UserId};
use web::session::{SessionState, Sessions};
use web::token::{Claims, Holder};

/// Rows that one clean-up deletes.
const FORGET_MAX: u32 = 1_000;
/// The longest pause before the next try while the lists were never read: until then every token is refused.
const FIRST_READ_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);
/// Users whose generation is remembered after it was looked up.
const LOOKED_UP_MAX: usize = 10_000;

/// The signed-out tokens that this instance knows. Clones share the lists.
#[derive(Clone)]
pub struct Revocations {
    pool: Database,
    breaker: Breaker,
    /// The name of the secret that signs here.
    key_id: String,
    /// The generations of users who are not on the list: they were looked up.
    looked_up: Cache<UserId, u32>,
    known: Arc<RwLock<RevocationLists>>,
    was_read: Arc<AtomicBool>,
    /// Whether the ledger knows that this secret signs: a restored copy needs another one.
    key_is_noted: Arc<AtomicBool>,
}

#[derive(Default)]
struct RevocationLists {
    /// The expiry of each token that was signed out, by the id of the token.
    tokens: HashMap<String, OffsetDateTime>,
    /// The present generation of each user that signed out everywhere lately.
    generations: HashMap<UserId, LatestGeneration>,
    /// The present generation of the tokens of each shop.
    shops: HashMap<ShopId, u32>,
    /// The beginning of the newest generation that was read, by the database's clock.
    newest: Option<OffsetDateTime>,
}

/// A generation of a user's sessions.
#[derive(Clone, Copy)]
struct LatestGeneration {
    generation: u32,
    /// Only for removing it once no earlier token can be valid.
    at: OffsetDateTime,
}

impl Revocations {
    /// Makes empty lists, before the first read of the ledger's tables.
    pub fn new(pool: Database, breaker: Breaker, key_id: String) -> Self {
        Self {
            pool,
            breaker,
            key_id,
            looked_up: Cache::new(LOOKED_UP_MAX),
            known: Arc::default(),
            was_read: Arc::default(),
            key_is_noted: Arc::default(),
        }
    }

    /// Returns whether the lists were read at least once; until then no token may be accepted.
    pub fn was_read(&self) -> bool {
        self.was_read.load(Ordering::Acquire)
    }

    /// What this instance knows of the session of a token. A generation that no list has must be looked up: the user
    /// may have signed out everywhere, and in again, since the last read or long ago.
    pub fn state(&self, claims: &Claims) -> SessionState {
        let known = self.read();
        if known.contains(claims) {
            return SessionState::Ended;
        }
        // The list of signed-out tokens is not read yet: this token may be on it.
        if !self.was_read() {
            return SessionState::Unread;
        }
        let generation = claims.generation;
        let is_listed = match claims.holder {
            Holder::User { id, .. } => {
                generation == 0
                    || known.generation(id) == Some(generation)
                    || self.looked_up.get(id) == Some(generation)
            }
            Holder::Shop(id) => known.shops.get(&id) == Some(&generation),
        };
        if is_listed { SessionState::Live } else { SessionState::Unlisted }
    }

    /// Asks the ledger whether it has begun the generation of a token.
    ///
    /// # Errors
    /// The database's.
    pub async fn has_begun(&self, claims: &Claims) -> ledger::Result<bool> {
        let generation = claims.generation;
        let user = match claims.holder {
            Holder::User { id, .. } => id,
            Holder::Shop(id) => {
                let present = ask(&self.breaker, shops::generations(&self.pool)).await?;
                return Ok(present.contains(&(id, generation)));
            }
        };
        let begun = ask(&self.breaker, sessions::generation(&self.pool, user)).await?;
        self.looked_up.insert(user, begun);
        Ok(begun == generation)
    }

    /// Returns whether this instance knows a later generation than the ledger has, which has lost it.
    pub(super) fn knows_later(&self, user: UserId, generation: u32) -> bool {
        self.read().generation(user).is_some_and(|listed| listed > generation)
    }

    /// Signs a token out: here at once, on other instances after their next read.
    ///
    /// # Errors
    /// The database's; the token is signed out on this instance all the same.
    pub fn revoke<'a>(
        &'a self,
        token_id: &'a str,
        expires_at: OffsetDateTime,
    ) -> impl Future<Output = ledger::Result<()>> + 'a {
        // At once, before the returned future writes to the ledger.
        self.write().tokens.insert(token_id.to_owned(), expires_at);
        sessions::revoke(&self.pool, token_id, expires_at)
    }

    /// Ends all earlier sessions of a user on this instance, after the ledger began `generation`.
    pub(super) fn end_earlier_than(&self, user: UserId, generation: u32) {
        self.write().list(user, LatestGeneration { generation, at: OffsetDateTime::now_utc() });
    }

    /// Reads what is new in the lists and removes expired tokens.
    ///
    /// # Errors
    /// The database's; the lists stay as they were, or expired tokens are not removed yet.
    pub async fn refresh(&self) -> ledger::Result<usize> {
        let listed = sessions::list(&self.pool).await?;
        let newest = self.read().newest;
        let begun = sessions::generations_since(&self.pool, newest).await?;
        let shops = shops::generations(&self.pool).await?;
        let now = OffsetDateTime::now_utc();
        let count = {
            let mut known = self.write();
            known.tokens.extend(listed);
            known.tokens.retain(|_, expires_at| *expires_at > now);
            for Generation { user, generation, began_at } in begun {
                known.list(user, LatestGeneration { generation, at: began_at });
                known.newest = known.newest.max(Some(began_at));
            }
            let listed = Duration::days(GENERATION_DAYS.into());
            known.generations.retain(|_, begun| begun.at + listed > now);
            known.shops = shops.into_iter().collect();
            known.tokens.len()
        };
        self.was_read.store(true, Ordering::Release);
        if !self.key_is_noted.load(Ordering::Acquire) {
            sessions::note_key(&self.pool, &self.key_id).await?;
            self.key_is_noted.store(true, Ordering::Release);
        }
        sessions::forget_expired(&self.pool, FORGET_MAX).await?;
        Ok(count)
    }

    fn read(&self) -> RwLockReadGuard<'_, RevocationLists> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, RevocationLists> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sessions for Accounts {
    fn state(&self, claims: &Claims) -> SessionState {
        self.parts.revocations.state(claims)
    }

    async fn has_begun(&self, claims: &Claims) -> Result<bool, LedgerError> {
        let begun = self.parts.revocations.has_begun(claims).await;
        begun.map_err(|error| failed_read(&error))
    }

    async fn guest(
        &self,
        shop: ShopId,
        reference: BuyerReference,
    ) -> Result<Option<UserId>, LedgerError> {
        let mut guests = self.guests(shop, &BTreeSet::from([reference.clone()])).await?;
        Ok(guests.remove(&reference))
    }
}

/// The job that reads the lists again. This regular read also probes a lost ledger when no request does: changes are
/// refused until a probe is answered.
#[async_trait]
impl Job for Revocations {
    fn pause_max(&self) -> std::time::Duration {
        if self.was_read() { std::time::Duration::MAX } else { FIRST_READ_PAUSE }
    }

    async fn run(&self) -> Result<String, String> {
        let count = ask(&self.breaker, self.refresh()).await;
        let count = count.map_err(|error| error.to_string())?;
        Ok(format!("{count} tokens are signed out"))
    }
}

impl RevocationLists {
    fn list(&mut self, user: UserId, begun: LatestGeneration) {
        let listed = self.generations.entry(user).or_insert(begun);
        if listed.generation <= begun.generation {
            *listed = begun;
        }
    }

    fn generation(&self, user: UserId) -> Option<u32> {
        self.generations.get(&user).map(|listed| listed.generation)
    }

    fn contains(&self, claims: &Claims) -> bool {
        let is_earlier = match claims.holder {
            // Most of the time the list is empty, and every request asks.
            Holder::User { id, .. } => {
                !self.generations.is_empty()
                    && self.generation(id).is_some_and(|listed| claims.generation < listed)
            }
            Holder::Shop(id) => {
                self.shops.get(&id).is_some_and(|present| claims.generation < *present)
            }
        };
        is_earlier || (!self.tokens.is_empty() && self.tokens.contains_key(&claims.token_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use web::token::Role;

    #[test]
    fn a_token_of_an_earlier_generation_is_signed_out_and_a_later_one_is_not() {
        let user = UserId::new(7).expect("positive");
        let mut known = RevocationLists::default();
        for generation in [2, 3, 1] {
            known.list(user, LatestGeneration { generation, at: OffsetDateTime::UNIX_EPOCH });
        }
        let claims = |id, generation| Claims {
            holder: Holder::User { id, role: Role::Buyer },
            expires_at: OffsetDateTime::UNIX_EPOCH,
            token_id: String::new(),
            generation,
        };
        for (generation, refused) in [(0, true), (2, true), (3, false), (4, false)] {
            assert_eq!(known.contains(&claims(user, generation)), refused, "{generation}");
        }
        let other = UserId::new(8).expect("positive");
        assert!(!known.contains(&claims(other, 0)));
        // A shop with the number of the user is not the user, and the other way round.
        let shop = ShopId::new(7).expect("positive");
        let token = |generation| Claims { holder: Holder::Shop(shop), ..claims(other, generation) };
        assert!(!known.contains(&token(0)));
        known.shops.insert(shop, 5);
        for (generation, refused) in [(0, true), (4, true), (5, false), (6, false)] {
            assert_eq!(known.contains(&token(generation)), refused, "{generation}");
        }
        assert!(!known.contains(&claims(user, 3)));
    }
}

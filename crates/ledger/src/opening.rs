//! The opening of a sale with a waiting room: the seed that is committed beforehand, and what proves the places.
//!
//! The list of the buyers is in Redis. Here is what binds the shop: the commitment, then the root of the list, then the
//! value of the beacon. Each is written once, from what was fixed before, so any instance may write it, and again.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::rows::items::datetime;
use crate::rows::statement::{Binds, Read, Write};
use crate::rows::{failed_change, stock};
use crate::waiting_list::lock_stock_shared;
use crate::{Ledger, RetryPolicy};
use draw_proof::{Beacon, Hash, Rules};
use shop_domain::{DrawBeacon, Home, ItemId, ItemRoute, LedgerError, NewDraw};

/// The openings of one ledger.
pub struct Openings {
    ledger: Ledger,
}

/// An opening, as far as it has come.
#[derive(Clone, Debug)]
pub struct Opening {
    pub opens_at: OffsetDateTime,
    pub seed: String,
    pub rules: String,
    pub commitment: String,
    pub beacon: DrawBeacon,
    pub round: u64,
    /// When the list of the buyers was published.
    pub listed_at: Option<OffsetDateTime>,
    pub entries: Option<u32>,
    pub root: Option<String>,
    pub beacon_signature: Option<String>,
    pub beacon_value: Option<String>,
}

from_row!(Opening {
    opens_at,
    seed,
    rules,
    commitment,
    beacon,
    round,
    listed_at,
    entries,
    root,
    beacon_signature,
    beacon_value,
});

impl Openings {
    #[must_use]
    pub fn new(ledger: Ledger) -> Self {
        Self { ledger }
    }

    /// Finds the opening at `opens_at`, with the epoch of the item's stock row.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn find(
        &self,
        item: ItemId,
        home: Home,
        opens_at: OffsetDateTime,
    ) -> Result<(Option<Opening>, Option<u64>), LedgerError> {
        let pool = &self.ledger.pool;
        let read = async move {
            let statement = format!(
                "SELECT {} FROM room_openings WHERE item_id = ? AND opens_at = ?",
                Opening::COLUMNS
            );
            let query = sqlx::query_as(&statement).binds((item.get(), datetime(opens_at)));
            let found = query.first(pool).await?;
            Ok((found, stock::epoch(pool, ItemRoute { item, home }).await?))
        };
        self.ledger.read(read).await
    }

    /// Publishes the commitment to the seed of `new`, unless one is published for this opening.
    ///
    /// # Errors
    /// When the ledger does not answer, or the item has moved.
    pub async fn announce(&self, routed: ItemRoute, new: &NewDraw) -> Result<(), LedgerError> {
        let NewDraw { closes_at: opens_at, beacon, round, seed, party_max } = *new;
        let signer = Beacon::of(beacon.as_str(), &seed).ok_or(LedgerError::Unavailable)?;
        let opening = opens_at.format(&Rfc3339).map_err(|_| LedgerError::Unavailable)?;
        let item = routed.item.get();
        let rules = Rules { item, closes_at: &opening, beacon: &signer, round, party_max }.text();
        let commitment = hex::encode(draw_proof::commitment(&seed, &rules));
        let (seed, beacon) = (hex::encode(seed), beacon.as_str());
        let announced = self.ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
            let (seed, rules, commitment) = (seed.clone(), rules.clone(), commitment.clone());
            Box::pin(async move {
                lock_stock_shared(transaction, routed).await?;
                sqlx::query(
                    "INSERT IGNORE INTO room_openings \
                     (item_id, opens_at, seed, rules, commitment, beacon, round) \
                     VALUES (?, ?, ?, ?, ?, ?, ?)",
                )
                .binds((item, datetime(opens_at), seed, rules, commitment, beacon, round))
                .run(&mut **transaction)
                .await
            })
        });
        announced.await.map_err(|error| failed_change(&error))
    }

    /// Publishes the list of the buyers, once.
    ///
    /// # Errors
    /// As for [`Openings::announce`].
    pub async fn list(
        &self,
        routed: ItemRoute,
        opens_at: OffsetDateTime,
        (entries, root): (usize, &Hash),
    ) -> Result<(), LedgerError> {
        let entries = entries.to_string();
        self.write(
            routed,
            opens_at,
            "UPDATE room_openings SET entries = ?, root = ?, listed_at = UTC_TIMESTAMP(6) \
             WHERE item_id = ? AND opens_at = ? AND listed_at IS NULL",
            [entries, hex::encode(root)],
        )
        .await?;
        failpoint!("room-listed");
        Ok(())
    }

    /// Stores the value of the round. The caller has checked its signature.
    ///
    /// # Errors
    /// As for [`Openings::announce`].
    pub async fn take_value(
        &self,
        routed: ItemRoute,
        opens_at: OffsetDateTime,
        (signature, value): (&[u8], &Hash),
    ) -> Result<(), LedgerError> {
        self.write(
            routed,
            opens_at,
            "UPDATE room_openings SET beacon_signature = ?, beacon_value = ? \
             WHERE item_id = ? AND opens_at = ? AND listed_at IS NOT NULL AND beacon_value IS NULL",
            [hex::encode(signature), hex::encode(value)],
        )
        .await?;
        failpoint!("room-valued");
        Ok(())
    }

    async fn write(
        &self,
        routed: ItemRoute,
        opens_at: OffsetDateTime,
        statement: &'static str,
        values: [String; 2],
    ) -> Result<(), LedgerError> {
        let written = self.ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
            let [first, second] = values.clone();
            Box::pin(async move {
                lock_stock_shared(transaction, routed).await?;
                sqlx::query(statement)
                    .binds((first, second, routed.item.get(), datetime(opens_at)))
                    .run(&mut **transaction)
                    .await
            })
        });
        written.await.map_err(|error| failed_change(&error))
    }
}

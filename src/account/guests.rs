//! The guests for whom the programs of other shops order. The rows are in `ledger::guests`.

use std::collections::{BTreeSet, HashMap};

use super::Accounts;
use ledger::guests;
use shop_domain::{BuyerReference, LedgerError, ShopId, UserId};

/// The buyers of the references of one request. One is missing when the ledger does not know the shop: it is an older
/// copy of the one that has made the token.
pub type Guests = HashMap<BuyerReference, UserId>;

impl Accounts {
    /// Finds the buyers of a shop's references, all with one read; the first request with a reference makes the guest.
    pub async fn guests(
        &self,
        shop: ShopId,
        references: &BTreeSet<BuyerReference>,
    ) -> Result<Guests, LedgerError> {
        guests::find_or_create(&self.parts.ledger, shop, references).await
    }
}

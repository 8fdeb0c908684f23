//! The guests for whom the programs of other shops order. The rows are in `ledger::guests`.

use std::collections::{BTreeSet, HashMap};

use super::Accounts;
use ledger::guests;
use shop_domain::{BuyerReference, LedgerError, ShopId, UserId};

/// The reason why a guest was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// The ledger does not know the shop: it is an older copy of the one that has made the token.
    #[error("no such shop")]
    NoShop,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The buyers of the references of one request.
pub struct Guests(HashMap<BuyerReference, UserId>);

impl Guests {
    /// The buyer of a reference.
    pub fn buyer(&self, reference: &BuyerReference) -> Result<UserId, GuestError> {
        self.0.get(reference).copied().ok_or(GuestError::NoShop)
    }
}

impl Accounts {
    /// Finds the buyers of a shop's references, all with one read; the first request with a reference makes the guest.
    pub async fn guests(
        &self,
        shop: ShopId,
        references: &BTreeSet<BuyerReference>,
    ) -> Result<Guests, LedgerError> {
        guests::find_or_create(&self.parts.ledger, shop, references).await.map(Guests)
    }
}

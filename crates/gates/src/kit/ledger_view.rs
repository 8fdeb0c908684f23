//! Reads the stock row, and converts failures to outcomes.

use ledger::rows::Fault;
use ledger::rows::stock::StockRow;
use ledger::write::Arbiter;
use shop_domain::outcome::Dependency;
use shop_domain::{Outcome, Purchase, Refusal, Unavailable};

/// Reads the item's stock row without a lock; `Err` is the outcome to answer with, among others
/// `sold_out` when fewer units are left than are asked for.
///
/// # Errors
/// The outcome that ends the purchase.
pub async fn read(arbiter: &Arbiter, purchase: &Purchase) -> Result<StockRow, Outcome> {
    let asked_at = Some(std::time::Instant::now());
    match arbiter.stock(purchase.item.id).await {
        Ok(Some(row)) if row.available < purchase.quantity.signed() => {
            Err(Outcome::Refused(Refusal::SoldOut { asked_at }))
        }
        Ok(Some(row)) => Ok(row),
        Ok(None) => Err(Outcome::Refused(Refusal::ItemNotFound)),
        Err(error) => Err(unavailable(&error)),
    }
}

/// The outcome when the ledger cannot be read or refuses writes, before anything was written.
#[must_use]
pub fn unavailable(error: &ledger::Error) -> Outcome {
    tracing::warn!(%error, "ledger not read");
    Outcome::Unavailable(match Fault::of(error) {
        Fault::ReadOnly | Fault::Full => Unavailable::ReadOnly,
        Fault::Connection => Unavailable::Dependency(Dependency::Mysql),
        Fault::AllInUse => Unavailable::Overloaded,
        Fault::Transient => Unavailable::Contended,
        _ => Unavailable::Faulty(Dependency::Mysql),
    })
}

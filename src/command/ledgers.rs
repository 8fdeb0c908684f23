//! The ledgers of the settings, for a command.

use crate::config::Config;
use ledger::route::breaker::Breakers;
use ledger::route::{Homes, Ledger, Shards};
use ledger::rows;
use shop_metrics::Metrics;

/// Opens every ledger; each connects when it is first used.
///
/// # Errors
/// A sentence when a URL cannot be read.
pub fn open(config: &Config) -> Result<Shards<Ledger>, String> {
    let metrics = Metrics::new();
    let ledger = |config: &Config| {
        let breaker = Breakers::new(&metrics).mysql;
        rows::pool(config).map(|pool| Ledger { pool, breaker })
    };
    let each = config.ledgers()?.iter().map(ledger).collect::<Result<Vec<_>, _>>()?;
    let Ledger { pool, breaker } = each[0].clone();
    let age_max = std::time::Duration::from_millis(config.purchase.item_age_ms_max);
    Ok(Shards::new(Homes::new(pool, breaker, each.len(), age_max), each))
}

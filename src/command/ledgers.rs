//! The ledgers of the settings, for a command.

use crate::config::Config;
use crate::metrics::Metrics;
use crate::store::breaker::Breakers;
use crate::store::mysql;
use crate::store::{Homes, Ledger, Shards};

/// Opens every ledger; each connects when it is first used.
///
/// # Errors
/// A sentence when a URL cannot be read.
pub fn open(config: &Config) -> Result<Shards<Ledger>, String> {
    let metrics = Metrics::new();
    let ledger = |config: &Config| {
        let breaker = Breakers::new(&metrics).mysql;
        mysql::pool(config).map(|pool| Ledger { pool, breaker })
    };
    let each = config.ledgers()?.iter().map(ledger).collect::<Result<Vec<_>, _>>()?;
    let Ledger { pool, breaker } = each[0].clone();
    let age_max = std::time::Duration::from_millis(config.purchase.item_age_ms_max);
    Ok(Shards::new(Homes::new(pool, breaker, each.len(), age_max), each))
}

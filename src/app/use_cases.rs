//! The use cases of the core, each over the shared parts.

use std::time::Duration;

use super::shared::Shared;
use crate::account::{self, Accounts, HashingPool};
use crate::config::Config;
use crate::order::Orders;
use crate::purchase::Purchases;
use crate::waiting_list::{WaitingLists, WaitlistParts};
use web::token::Tokens;

/// What the core does for routes, extensions and workers.
pub(super) struct UseCases {
    pub accounts: Accounts,
    pub orders: Orders,
    pub purchases: Purchases,
    pub waiting_lists: WaitingLists,
}

impl UseCases {
    /// Builds the others beside the purchases.
    pub(super) fn beside(purchases: Purchases, config: &Config, shared: &Shared) -> Self {
        let orders = Orders::new(
            shared.ledger.clone(),
            shared.counters.clone(),
            shared.queue.clone(),
            shared.hub.clone(),
            shared.metrics.clone(),
            shared.line.clone(),
        );
        let waiting_lists = WaitingLists::new(WaitlistParts {
            waitlist: shared.eraser.waitlist.clone(),
            counters: shared.counters.clone(),
            metrics: shared.metrics.clone(),
            catalog: shared.catalog.clone(),
            hub: shared.hub.clone(),
            clock: shared.clock.clone(),
        });
        Self { accounts: accounts(config, shared), orders, purchases, waiting_lists }
    }
}

fn accounts(config: &Config, shared: &Shared) -> Accounts {
    let settings = &config.session;
    Accounts::new(account::AccountParts {
        ledger: shared.ledger.clone(),
        eraser: shared.eraser.clone(),
        queue: shared.queue.clone(),
        hashing: HashingPool::new(settings.hashing_max),
        tokens: Tokens::new(&config.secret, &config.secret_previous),
        subject_keys: account::subject_keys(&config.secret, &config.secret_previous),
        revocations: shared.revocations.clone(),
        clock: shared.clock.clone(),
        token_life: Duration::from_secs(u64::from(settings.token_hours) * 3_600),
        demo_accounts: config.demo_accounts,
        own_accounts: config.session.own_accounts,
    })
}

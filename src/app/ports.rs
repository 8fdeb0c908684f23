//! What the extensions ask of the core, answered by its parts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::catalog::Catalog;
use crate::waiting_list::WaitingLists;
use extension::ports;
use ledger::waiting_list::LineChange;
use shop_domain::{Item, ItemId, LedgerError};

#[async_trait]
impl ports::Items for Catalog {
    async fn find_recent(
        &self,
        item: ItemId,
        age_max: Duration,
    ) -> Result<Option<Arc<Item>>, LedgerError> {
        let read = Self::find_recent(self, item, age_max).await?;
        Ok(read.value.map(|found| found.item))
    }

    fn forget(&self, item: ItemId) {
        Self::forget(self, item);
    }
}

#[async_trait]
impl ports::WaitingLists for WaitingLists {
    async fn publish(&self, item: ItemId, change: &LineChange) {
        Self::publish(self, item, change).await;
    }
}

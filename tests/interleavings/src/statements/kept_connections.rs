//! Connections of the ledger: a new one each time.

use crate::rows::item::items::StockRow;
use crate::sql::{Database, MySqlConnection, Result};
use crate::work::breaker::Breaker;
use shop_domain::ItemId;

#[derive(Clone, Debug)]
pub(super) struct KeptConnections(Database);

#[derive(Debug)]
pub(super) struct KeptConnection {
    pub(super) connection: MySqlConnection,
    pub(super) destination: Destination,
}

/// The server that a connection leads to.
#[derive(Debug)]
pub(super) struct Destination;

impl Destination {
    pub(super) fn has_changed(&self) -> bool {
        false
    }
}

impl KeptConnections {
    pub(super) fn new(pool: Database, _: u32) -> Self {
        Self(pool)
    }

    pub(super) fn checked_by(self, _: Breaker) -> Self {
        self
    }

    pub(super) async fn get(&self) -> Result<KeptConnection> {
        self.0.send().await?;
        Ok(KeptConnection { connection: self.0.connection(), destination: Destination })
    }

    pub(super) async fn read_stock(
        &self,
        kept: KeptConnection,
        item: ItemId,
    ) -> Result<Option<StockRow>> {
        kept.connection.server.send().await?;
        let available = kept.connection.server.book.available(item.get(), &[]);
        Ok(available.map(|available| StockRow { available }))
    }

    pub(super) fn keep(&self, _: KeptConnection) {}
}

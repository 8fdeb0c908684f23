//! The statement that takes the stock.

use std::time::Instant;

use tokio::sync::Notify;

use super::Answer;
use crate::rows::outbox::Outbox;
use crate::sql::{MySqlConnection, Result};
use shop_domain::{Item, Outcome, Purchase, Refusal};

#[derive(Clone, Copy, Debug)]
pub enum StockWrite<'a> {
    Guarded,
    Offered,
    Unguarded(UnguardedWrite<'a>),
}

/// Statements without a condition, which no item has.
#[derive(Clone, Copy, Debug)]
pub enum UnguardedWrite<'a> {
    SetFirst { written: &'a Notify },
    Record,
}

impl<'a> StockWrite<'a> {
    pub(crate) fn of(_: &Item, guarded: Self, _: UnguardedWrite<'a>) -> Self {
        guarded
    }

    pub(super) fn table(self) -> Option<NoTable> {
        None
    }

    pub(super) fn is_compared(self) -> bool {
        false
    }
}

/// The table of a strategy, which no item has.
pub(super) struct NoTable;

impl NoTable {
    pub(super) async fn take(&self, _: &mut MySqlConnection, _: &Purchase) -> Result<bool> {
        Ok(true)
    }
}

pub(super) async fn take(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    _: StockWrite<'_>,
    _: Outbox,
) -> Result<Option<Answer>> {
    connection.server.send().await?;
    let asked_at = Some(Instant::now());
    let is_taken = connection.take(purchase.item.id.get(), purchase.quantity.signed()).await?;
    Ok((!is_taken).then_some(Ok(Outcome::Refused(Refusal::SoldOut { asked_at }))))
}

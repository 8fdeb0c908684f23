//! Rows of items, each with the epoch that says whether they count.
//!
//! While an item moves, two ledgers have rows of it. Those count that stand beside a stock row of the epoch
//! that the item's home has, see `Homes::holds`. The epoch is read by the statement that reads the row, so
//! that both are of one moment.

use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, Row};

use shop_domain::ItemId;

/// A row of an item, and the epoch of the item's stock row at the same moment.
#[derive(Clone, Debug)]
pub struct RowAt<T> {
    pub row: T,
    /// The item; `None` for a row of no item.
    pub item: Option<ItemId>,
    /// The epoch; `None` without a stock row in this ledger.
    pub home_epoch: Option<u64>,
}

impl<T> AsMut<T> for RowAt<T> {
    fn as_mut(&mut self) -> &mut T {
        &mut self.row
    }
}

impl<'r, T: FromRow<'r, MySqlRow>> FromRow<'r, MySqlRow> for RowAt<T> {
    fn from_row(row: &'r MySqlRow) -> sqlx::Result<Self> {
        let (item, home_epoch) = (row.try_get("item_id")?, row.try_get("home_epoch")?);
        Ok(Self { row: T::from_row(row)?, item, home_epoch })
    }
}

//! The tables that strategies keep beside the stock row.
//!
//! Such a table has rows for units that are left, and never more than the stock row has. Its strategy takes them at
//! the beginning of an order's transaction. A restock, the job that reconciles and the audit ask all of [`TABLES`],
//! and know none by its name. To add one, write its file here and add it to the list.

pub mod unit_rows;

use std::fmt;

use async_trait::async_trait;
use sqlx::MySqlConnection;

use mysql_connection::Database;
use shop_domain::{ItemId, Purchase};

/// Every table of a strategy.
pub const TABLES: [&dyn StrategyTable; 1] = [&unit_rows::UnitRows];

/// A table of a strategy, with rows for units that the stock row has left.
#[async_trait]
pub trait StrategyTable: fmt::Debug + Send + Sync {
    /// What its rows are called in reports.
    fn name(&self) -> &'static str;

    /// Takes rows for the units of a purchase, in the transaction of the order; `false` when too few are free, and
    /// the transaction must be rolled back.
    async fn take(
        &self,
        transaction: &mut MySqlConnection,
        purchase: &Purchase,
    ) -> sqlx::Result<bool>;

    /// Gives up rows, in the transaction of an operator who takes `units` out of the sale; `false` when purchases
    /// under way have some of them, and the transaction must be rolled back.
    async fn give_up(
        &self,
        transaction: &mut MySqlConnection,
        item: ItemId,
        units: i64,
    ) -> sqlx::Result<bool>;

    /// Counts the rows of an item: no more than its units left, once traffic is quiet.
    async fn count(&self, connection: &mut MySqlConnection, item: ItemId) -> sqlx::Result<i64>;

    /// Puts right the rows of at most `limit` items behind the item `after`, and moves it: to 0 behind the last
    /// item. Returns the number of items that needed it. While there are connections, an item that fails stops no
    /// other one: its error comes when all others are done.
    async fn settle(&self, pool: &Database, after: &mut i64, limit: u32) -> sqlx::Result<usize>;
}

//! Rows of the ledger, read and changed behind the service's back.

use ledger::rows::items::{self, StockRow};
use shop_domain::ItemId;
use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::query::{Query, QueryScalar};
use sqlx::{FromRow, MySql, Transaction};

use super::{Shop, patient_transaction, until};

impl Shop {
    /// Changes rows; returns how many.
    pub async fn change(&self, statement: Query<'_, MySql, MySqlArguments>) -> u64 {
        statement.execute(&self.pool).await.expect("rows are changed").rows_affected()
    }

    /// Begins a transaction with a statement, whose locks it has until it ends or is dropped.
    pub async fn hold(
        &self,
        statement: Query<'_, MySql, MySqlArguments>,
    ) -> Transaction<'static, MySql> {
        let mut holder = patient_transaction(&self.pool).await;
        statement.execute(&mut *holder).await.expect("the rows are held");
        holder
    }

    /// Reads the stock of an item.
    pub async fn stock_row(&self, item: ItemId) -> StockRow {
        items::read_stock(&self.pool, item).await.expect("read").expect("a row")
    }

    /// Sets the units of an item, which are then written down nowhere else.
    pub async fn set_stock(&self, item: i64, units: i64) {
        let set = "UPDATE stock SET available = ?, total = ? WHERE item_id = ?";
        self.change(sqlx::query(set).bind(units).bind(units).bind(item)).await;
        let forget = "UPDATE items SET first_stock = NULL WHERE id = ?";
        self.change(sqlx::query(forget).bind(item)).await;
    }

    /// Reads one value.
    pub async fn read<T>(&self, statement: QueryScalar<'_, MySql, T, MySqlArguments>) -> T
    where
        T: Send + Unpin,
        (T,): for<'r> FromRow<'r, MySqlRow>,
    {
        statement.fetch_one(&self.pool).await.expect("a value is read")
    }

    /// Reads one number.
    pub async fn number(&self, statement: &str) -> i64 {
        self.read(sqlx::query_scalar(statement)).await
    }

    /// Waits until a statement that counts says this number.
    pub async fn until_count(&self, statement: &str, count: i64) {
        until(statement, || self.number(statement), |counted| *counted == count).await;
    }

    /// Reads the values of all rows.
    pub async fn read_all<T>(&self, statement: QueryScalar<'_, MySql, T, MySqlArguments>) -> Vec<T>
    where
        T: Send + Unpin,
        (T,): for<'r> FromRow<'r, MySqlRow>,
    {
        statement.fetch_all(&self.pool).await.expect("values are read")
    }
}

//! Copies the rows of an item from one ledger to another, and compares both.
//!
//! There is one way of copying: read the keys and a digest of every row on both sides, and bring over
//! the rows that differ. So the first copy, a copy after a crash, what was written meanwhile, and the
//! last comparison are the same work, and there is no list of changes that could be incomplete.
//!
//! A row travels as the text of its columns, by the names that the schema has, so a column of a later
//! migration is copied too.

use std::collections::HashMap;

use crate::Database;
use futures::TryStreamExt;
use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::query::Query;
use sqlx::{MySql, MySqlConnection, QueryBuilder, Row};

use super::MoveError;
use super::tables::{ItemTable, RowPolicy};
use crate::rows::link::LONG_READ_MAX;
use crate::rows::statement::{Read, Write};
use crate::rows::within;
use shop_domain::ItemId;

/// Rows that travel together.
pub(super) const CHUNK_ROWS: usize = 256;
/// The most rows of one table that an item may have to be moved: their keys are held in memory.
const TABLE_ROWS_MAX: usize = 2_000_000;
/// Separates the columns of a key; no key has it.
const BETWEEN: char = '\u{1f}';

/// A table with its columns, as both ledgers have them.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub table: ItemTable,
    columns: Vec<String>,
    key: Vec<String>,
}

/// The rows of one table that differ between two ledgers, by their keys.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Rows that the target lacks, or has otherwise.
    pub changed: Vec<String>,
    /// Rows that the target alone has.
    pub extra: Vec<String>,
    /// Rows of the source.
    pub rows: usize,
}

/// A row on its way: the text of each column.
pub(crate) type Values = Vec<Option<String>>;

impl Difference {
    pub fn of_changed(keys: &[String]) -> Self {
        Self { changed: keys.to_vec(), extra: Vec::new(), rows: 0 }
    }

    pub fn of_extra(keys: &[String]) -> Self {
        Self { changed: Vec::new(), extra: keys.to_vec(), rows: 0 }
    }

    pub fn len(&self) -> usize {
        self.changed.len() + self.extra.len()
    }
}

/// Reads the columns and the primary key of a table.
pub(crate) async fn layout(pool: &Database, table: ItemTable) -> sqlx::Result<Layout> {
    let names = async |statement: &str| -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar(statement).bind(table.name).all(pool).await
    };
    let columns = names(
        "SELECT CAST(COLUMN_NAME AS CHAR) FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY COLUMN_NAME",
    );
    let key = names(
        "SELECT CAST(COLUMN_NAME AS CHAR) FROM information_schema.STATISTICS \
         WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND INDEX_NAME = 'PRIMARY' \
         ORDER BY SEQ_IN_INDEX",
    );
    Ok(Layout { table, columns: columns.await?, key: key.await? })
}

impl Layout {
    /// Returns whether another ledger has the same columns and key.
    pub fn is_like(&self, other: &Self) -> bool {
        self.columns == other.columns && self.key == other.key && !self.key.is_empty()
    }

    /// Finds the rows of `item` that differ.
    pub async fn compare(
        &self,
        (source, target): (&Database, &Database),
        item: ItemId,
    ) -> Result<Difference, MoveError> {
        let (wanted, mut there) =
            tokio::try_join!(self.digests(source, item), self.digests(target, item))?;
        let rows = wanted.len();
        let mut changed = Vec::new();
        for (key, digest) in wanted {
            if there.remove(&key) != Some(digest) {
                changed.push(key);
            }
        }
        // Neighbours travel together.
        changed.sort_unstable();
        let extra = match self.table.fate {
            RowPolicy::Shared => Vec::new(),
            _ => there.into_keys().collect(),
        };
        Ok(Difference { changed, extra, rows })
    }

    /// The number of rows of `item`, and the sum of their digests.
    pub async fn sum(&self, pool: &Database, item: ItemId) -> sqlx::Result<(i64, String)> {
        let statement = format!(
            "SELECT COUNT(*), CAST(COALESCE(SUM({}), 0) AS CHAR) FROM {} WHERE {}",
            self.digest(),
            self.table.name,
            self.table.of_item
        );
        let sum = sqlx::query_as(&statement).bind(item.get()).persistent(false).fetch_one(pool);
        within(LONG_READ_MAX, sum).await
    }

    /// Reads the rows with these keys. A row that was deleted meanwhile is left out.
    pub async fn read(&self, pool: &Database, keys: &[String]) -> sqlx::Result<Vec<Values>> {
        let columns = self.columns.iter().map(|name| format!("CAST(`{name}` AS CHAR)"));
        let columns: Vec<String> = columns.collect();
        let mut select =
            QueryBuilder::new(format!("SELECT {} FROM {}", columns.join(", "), self.table.name));
        self.push_keys(&mut select, keys);
        let rows = select.build().persistent(false).all(pool).await?;
        rows.iter().map(|row| texts(row, self.columns.len())).collect()
    }

    /// Writes rows, in place of those with the same keys.
    pub async fn write(
        &self,
        connection: &mut MySqlConnection,
        rows: &[Values],
    ) -> sqlx::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let verb = match self.table.fate {
            RowPolicy::Shared => "INSERT IGNORE INTO",
            _ => "REPLACE INTO",
        };
        let columns: Vec<String> = self.columns.iter().map(|name| format!("`{name}`")).collect();
        let (name, columns) = (self.table.name, columns.join(", "));
        let mut insert = QueryBuilder::new(format!("{verb} {name} ({columns}) "));
        insert.push_values(rows, |mut tuple, values| {
            for value in values {
                tuple.push_bind(value);
            }
        });
        run(connection, insert.build()).await
    }

    /// Deletes the rows with these keys.
    pub async fn delete(
        &self,
        connection: &mut MySqlConnection,
        keys: &[String],
    ) -> sqlx::Result<()> {
        let mut delete = QueryBuilder::new(format!("DELETE FROM {}", self.table.name));
        self.push_keys(&mut delete, keys);
        run(connection, delete.build()).await
    }

    /// The key of each row of `item`, with its digest.
    async fn digests(
        &self,
        pool: &Database,
        item: ItemId,
    ) -> Result<HashMap<String, u64>, MoveError> {
        let key = self.key.iter().map(|name| format!("CAST(`{name}` AS CHAR)"));
        let key: Vec<String> = key.collect();
        let statement = format!(
            "SELECT {}, {} FROM {} WHERE {}",
            key.join(", "),
            self.digest(),
            self.table.name,
            self.table.of_item
        );
        let read = async {
            let mut rows = sqlx::query(&statement).bind(item.get()).persistent(false).fetch(pool);
            let mut digests = HashMap::new();
            while let Some(row) = rows.try_next().await? {
                if digests.len() >= TABLE_ROWS_MAX {
                    return Ok(None);
                }
                let key = texts(&row, self.key.len())?.into_iter().flatten();
                let key: Vec<String> = key.collect();
                digests.insert(key.join(&BETWEEN.to_string()), row.try_get(self.key.len())?);
            }
            Ok(Some(digests))
        };
        within(LONG_READ_MAX, read).await?.ok_or_else(|| {
            MoveError::TooLarge(format!(
                "an item with more than {TABLE_ROWS_MAX} rows in `{}` is not moved",
                self.table.name
            ))
        })
    }

    /// The digest of a row: 60 bits of what all its columns say. QUOTE tells NULL from every text.
    fn digest(&self) -> String {
        let columns: Vec<String> =
            self.columns.iter().map(|name| format!("QUOTE(`{name}`)")).collect();
        let text = columns.join(", ");
        format!("CAST(CONV(LEFT(SHA2(CONCAT_WS(',', {text}), 256), 15), 16, 10) AS UNSIGNED)")
    }

    /// The names of the key's columns, to sort by.
    pub fn key_names(&self) -> String {
        let names: Vec<String> = self.key.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    }

    /// The expression that makes a JSON object of a row: the text of each column.
    pub fn as_object(&self) -> String {
        let columns = self.columns.iter().map(|name| format!("'{name}', CAST(`{name}` AS CHAR)"));
        format!("JSON_OBJECT({})", columns.collect::<Vec<_>>().join(", "))
    }

    /// The columns of a row by such an object; NULL for a column that the table got later.
    pub fn values_of(&self, mut object: HashMap<String, Option<String>>) -> Values {
        self.columns.iter().map(|name| object.remove(name).flatten()).collect()
    }

    fn push_keys(&self, query: &mut QueryBuilder<'_, MySql>, keys: &[String]) {
        let columns: Vec<String> = self.key.iter().map(|name| format!("`{name}`")).collect();
        query.push(format!(" WHERE ({}) IN ", columns.join(", ")));
        query.push_tuples(keys, |mut tuple, key| {
            for part in key.split(BETWEEN) {
                tuple.push_bind(part.to_owned());
            }
        });
    }
}

fn texts(row: &MySqlRow, count: usize) -> sqlx::Result<Values> {
    (0..count).map(|column| row.try_get(column)).collect()
}

/// Runs a statement whose length varies, so that preparing it for the next time is of no use.
async fn run(
    connection: &mut MySqlConnection,
    query: Query<'_, MySql, MySqlArguments>,
) -> sqlx::Result<()> {
    query.persistent(false).run(connection).await
}

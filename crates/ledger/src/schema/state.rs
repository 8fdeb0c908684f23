//! Whether the schema of the ledger and this program fit together.
//!
//! A schema that is newer than the program is fine as long as it only adds: so an upgrade can migrate
//! first and replace the instances afterwards. A migration that takes something away says in the table
//! `schema_needs` which migration a program must know.

use super::migrations::MIGRATIONS;
use mysql_connection::statement::{Read, Write};
use mysql_connection::{Database, Fault, begin};

/// The schema of the ledger, compared with this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaState {
    /// There are no tables of the service.
    Missing,
    /// The newest migration of this program is not applied.
    Old {
        /// The newest migration of the ledger.
        applied: i64,
    },
    /// The schema is the one of this program, or a later one that it can use.
    Current,
    /// A migration that this program does not know took away something that it needs.
    TooNew {
        /// The newest migration that a program must know.
        needed: i64,
    },
}

impl SchemaState {
    /// Returns whether this program can work with the schema.
    pub fn is_usable(self) -> bool {
        self == Self::Current
    }

    /// The state for the readiness document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "schema is missing",
            Self::Old { .. } => "schema is old",
            Self::Current => "schema is current",
            Self::TooNew { .. } => "schema is too new",
        }
    }
}

/// The newest migration of this program.
pub fn newest_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Reads which migrations the ledger has, and what it needs of a program.
pub async fn schema_state(pool: &Database) -> sqlx::Result<SchemaState> {
    let applied = "SELECT MAX(version) FROM _sqlx_migrations WHERE success";
    let Some(applied) = number(pool, applied).await? else { return Ok(SchemaState::Missing) };
    if applied < newest_version() {
        return Ok(SchemaState::Old { applied });
    }
    let needed = number(pool, "SELECT known_version_min FROM schema_needs WHERE id = 1").await?;
    Ok(match needed {
        Some(needed) if needed > newest_version() => SchemaState::TooNew { needed },
        _ => SchemaState::Current,
    })
}

/// Returns whether the database takes rows, and enforces the CHECK constraints that the arbiter relies on.
///
/// Tries a row that `buyer_limits` allows, and then one that it forbids, in a transaction that is
/// rolled back; `false` when the database takes both. No item and no buyer has their ids.
///
/// A server whose disk is full still refuses the forbidden row, but takes no other one.
///
/// Servers that do not know CHECK constraints accept them silently and ignore them, so only a row
/// that violates one proves that they are enforced.
///
/// # Errors
/// The database's, when it can say neither, such as 1114 (its disk is full).
pub async fn enforces_constraints(pool: &Database) -> sqlx::Result<bool> {
    let mut transaction = begin(pool).await?;
    for row in ["(-1, -2, 1, 1)", "(-1, -1, 1, 0)"] {
        let insert =
            format!("INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES {row}");
        if let Err(error) = sqlx::query(&insert).run(&mut *transaction).await {
            transaction.roll_back_after(&error).await;
            return if Fault::of(&error) == Fault::CheckViolated { Ok(true) } else { Err(error) };
        }
    }
    transaction.rollback().await?;
    Ok(false)
}

/// The number that a statement selects; `None` when there is no such table or row.
async fn number(pool: &Database, statement: &str) -> sqlx::Result<Option<i64>> {
    match sqlx::query_scalar::<_, Option<i64>>(statement).first(pool).await {
        Ok(found) => Ok(found.flatten()),
        Err(error) if Fault::of(&error) == Fault::Connection => Err(error),
        Err(_) => Ok(None),
    }
}

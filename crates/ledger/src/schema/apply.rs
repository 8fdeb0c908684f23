//! Runs the migrations beside a sale, and goes on where an earlier run was broken off.
//!
//! A server commits each change of a table at once. So sqlx writes a migration down before its first statement, marks
//! it after the last one, and refuses to go on after one without the mark. Here the statements of that one run again: of
//! those that were done before, the server says so.

use sqlx::migrate::{MigrateError, Migration};
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Executor, MySqlConnection};
use tokio::time::sleep;

use super::alter::{self, PAUSE, TRIES_MAX};
use super::migrations::MIGRATIONS;
use mysql_connection::statement::Read;
use mysql_connection::{Fault, replication};

/// What a server says of a change that was done before: its table (1050), column (1060), index (1061) or constraint (1826
/// in MariaDB, 3822 in MySQL) is there, or what it removes is gone (1091).
const DONE_BEFORE: [u16; 6] = [1050, 1060, 1061, 1091, 1826, 3822];

/// Runs the migrations that the database has not seen. None waits long for a table that is in use, because purchases
/// wait behind it. A vtgate of Vitess knows no such limit.
pub(super) async fn all(connection: &mut MySqlConnection) -> Result<(), MigrateError> {
    if replication::leads_to_vitess(&mut *connection).await? {
        return until_done(connection).await;
    }
    alter::limit_waits(&mut *connection).await?;
    let ended = until_done(&mut *connection).await;
    let reset = "SET SESSION lock_wait_timeout = DEFAULT";
    let reset = connection.execute(sqlx::raw_sql(reset)).await;
    ended?;
    reset?;
    Ok(())
}

/// Tries again while a table is in use.
async fn until_done(connection: &mut MySqlConnection) -> Result<(), MigrateError> {
    let mut tries = 1;
    loop {
        let Err(error) = go_on(&mut *connection).await else { return Ok(()) };
        if tries == TRIES_MAX || !is_passing(&error) {
            return Err(error);
        }
        tracing::warn!(%error, "a long transaction uses a table; trying again");
        tries += 1;
        sleep(PAUSE).await;
    }
}

async fn go_on(connection: &mut MySqlConnection) -> Result<(), MigrateError> {
    finish_broken_off(&mut *connection).await?;
    MIGRATIONS.run(&mut *connection).await
}

/// Runs the statements of migrations without a mark. One whose file was another is left to sqlx, which refuses it.
async fn finish_broken_off(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let begun = "SELECT version, checksum FROM _sqlx_migrations WHERE NOT success ORDER BY version";
    let begun: sqlx::Result<Vec<(i64, Vec<u8>)>> =
        sqlx::query_as(begun).all(&mut *connection).await;
    // A new database has no such table. Any other error comes again.
    for (version, checksum) in begun.unwrap_or_default() {
        let is_it = |migration: &&Migration| {
            migration.version == version && migration.checksum[..] == checksum[..]
        };
        let Some(migration) = MIGRATIONS.iter().find(is_it) else { continue };
        tracing::warn!(version, "going on with a migration that was broken off");
        for statement in statements(&migration.sql) {
            let done = connection.execute(sqlx::raw_sql(&statement)).await;
            if let Err(error) = done
                && !is_done_before(&statement, &error)
            {
                return Err(error);
            }
        }
        let mark = "UPDATE _sqlx_migrations SET success = TRUE WHERE version = ?";
        sqlx::query(mark).bind(version).execute(&mut *connection).await?;
    }
    Ok(())
}

/// The statements of a file. No value in it has a semicolon, or what begins a comment.
fn statements(file: &str) -> Vec<String> {
    let without_comment = |line| str::split_once(line, "--").map_or(line, |(before, _)| before);
    let lines: Vec<&str> = file.lines().map(without_comment).collect();
    let text = lines.join("\n");
    let statements = text.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    statements.map(str::to_owned).collect()
}

/// A duplicate row says so of an INSERT alone: an ALTER that is not done may end with one, because of rows that come
/// meanwhile.
fn is_done_before(statement: &str, error: &sqlx::Error) -> bool {
    if Fault::of(error) == Fault::Duplicate {
        return statement.starts_with("INSERT ");
    }
    let answer = error.as_database_error();
    let answer = answer.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    answer.is_some_and(|error| DONE_BEFORE.contains(&error.number()))
}

/// Whether a migration has waited too long for a table.
fn is_passing(error: &MigrateError) -> bool {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            Fault::of(error) == Fault::Transient
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_split_at_the_ends_of_its_statements() {
        let words = ["CREATE ", "ALTER TABLE ", "INSERT INTO ", "UPDATE "];
        for migration in MIGRATIONS.iter() {
            let statements = statements(&migration.sql);
            assert!(!statements.is_empty(), "{}", migration.version);
            for statement in statements {
                let is_one = words.iter().any(|words| statement.starts_with(words));
                assert!(is_one && !statement.contains("--"), "{statement}");
                let opened = statement.matches('(').count();
                assert_eq!(statement.matches(')').count(), opened, "{statement}");
            }
        }
    }
}

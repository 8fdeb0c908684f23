//! The stored procedure that writes one order, so that an order is one round trip.
//!
//! Its name contains a digest of its text, so that builds of two versions sell side by side. The name
//! proves nothing: others may make a procedure of this name. So the text in the database is compared
//! with the program's own, and another one is not called. The procedure is optional: an engine may have
//! no procedures (TiDB), and an account may not be allowed to create, to execute or to read them. Then
//! the order's statements are sent instead.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};
use sqlx::{Executor, MySqlConnection};

use super::new_order;
use crate::sql::answered;
use crate::sql::statement::Read;

/// The text, with [`PLACEHOLDER`] for the name. Its statements are those of `new_order.rs`.
pub static TEXT: LazyLock<String> =
    LazyLock::new(|| new_order::fill_in(include_str!("order_routine.sql")));
const PLACEHOLDER: &str = "ORDER_ROUTINE";
/// Bytes of the digest that stand in the name.
const DIGEST_BYTES: usize = 6;

/// The procedure's name in the ledger's database.
pub static NAME: LazyLock<String> = LazyLock::new(|| {
    let digest = Sha256::digest(TEXT.as_bytes());
    let digits: Vec<_> =
        digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("write_order_{}", digits.concat())
});

/// The procedure of this name in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineState {
    /// The program's own.
    Own,
    /// One with another text, other parameters or other rights; or this account may not read the text.
    Foreign,
    /// None that this account can see.
    Missing,
}

/// The text from `BEGIN` to `END`, as the server keeps it.
fn body() -> &'static str {
    TEXT.split_once("\nBEGIN\n").map_or("", |(head, _)| &TEXT[head.len() + 1..]).trim_end()
}

/// The names of the parameters in their order, with commas between them.
fn parameters() -> String {
    let head = TEXT.split_once("\nBEGIN\n").map_or("", |(head, _)| head);
    let names = head.lines().filter_map(|line| line.trim_start().split_once(' '));
    let names: Vec<_> = names.map(|(name, _)| name).filter(|name| name.starts_with("p_")).collect();
    names.join(",")
}

/// Compares the procedure in the database with the program's own.
pub async fn compare(connection: &mut MySqlConnection) -> sqlx::Result<RoutineState> {
    let found: Option<(Option<String>, Option<String>, Option<String>)> = sqlx::query_as(
        "SELECT CAST(routine_definition AS CHAR), CAST(security_type AS CHAR), \
         (SELECT CAST(GROUP_CONCAT(CONCAT(parameter_mode, ' ', parameter_name) \
          ORDER BY ordinal_position) AS CHAR) FROM information_schema.parameters \
          WHERE specific_schema = DATABASE() AND specific_name = routine_name) \
         FROM information_schema.routines WHERE routine_schema = DATABASE() AND routine_name = ? \
         AND routine_type = 'PROCEDURE'",
    )
    .bind(&*NAME)
    .first(connection)
    .await?;
    let Some((text, rights, names)) = found else { return Ok(RoutineState::Missing) };
    let names = names.unwrap_or_default().replace("IN ", "");
    let is_own = text.is_some_and(|text| text.trim() == body())
        && rights.as_deref() == Some("INVOKER")
        && names == parameters();
    Ok(if is_own { RoutineState::Own } else { RoutineState::Foreign })
}

/// Creates the procedure unless it is there, and replaces one with another text. The `sql_mode` of the
/// session that makes it is that of all who call it.
///
/// # Errors
/// The database's: it has no procedures, this account may not create them, or it does not answer.
pub async fn install(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let found = compare(connection).await?;
    let work = async {
        match found {
            RoutineState::Own => return Ok(()),
            RoutineState::Missing => {}
            RoutineState::Foreign => {
                tracing::warn!(
                    name = *NAME,
                    "a procedure of this name has another text, and is replaced"
                );
                connection.execute(sqlx::raw_sql(&format!("DROP PROCEDURE {}", *NAME))).await?;
            }
        }
        let text = TEXT.replacen(PLACEHOLDER, &NAME, 1);
        connection.execute(sqlx::raw_sql(&text)).await?;
        Ok(())
    };
    answered(work).await
}

/// Returns whether the server says that this account has no such procedure: it is missing (1305), or may
/// not be executed (1370).
#[must_use]
pub fn is_missing(number: u16) -> bool {
    matches!(number, 1305 | 1370)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_and_parameters_are_found_in_the_text() {
        assert!(body().starts_with("BEGIN\n") && body().ends_with("\nEND"));
        let names = parameters();
        assert!(names.starts_with("p_order,p_item,") && names.ends_with(",p_payload"), "{names}");
        assert_eq!(names.split(',').count(), 23);
    }
}

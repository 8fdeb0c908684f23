//! What may be shown of an error of the database.
//!
//! A vtgate of Vitess writes the statement and its values behind each message: a sign-up that fails would put the
//! password's hash into the log. So each error is cut where work on the database ends: in `limits.rs`.
//! Whoever logs it, keeps its text or reads its message has no values.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use sqlx::error::{DatabaseError, ErrorKind};

/// What stands before the statement and its values.
const VALUES_BEGIN: [&str; 2] = [" (CallerID: ", ": Sql: \""];

/// Hides the values behind the message of an error.
pub(crate) fn without_values(error: sqlx::Error) -> sqlx::Error {
    match error {
        sqlx::Error::Database(whole) if shown(whole.message()) != whole.message() => {
            sqlx::Error::Database(Box::new(WithoutValues(whole)))
        }
        other => other,
    }
}

/// The message without the values behind it.
pub(crate) fn shown(message: &str) -> &str {
    let ends = VALUES_BEGIN.iter().filter_map(|words| message.find(words));
    ends.min().map_or(message, |end| &message[..end])
}

/// An error whose message has values behind it. A caller that asks for the driver's error still gets it, so its number
/// is known.
struct WithoutValues(Box<dyn DatabaseError>);

impl fmt::Display for WithoutValues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(shown(&self.0.to_string()))
    }
}

impl fmt::Debug for WithoutValues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Error for WithoutValues {}

impl DatabaseError for WithoutValues {
    fn message(&self) -> &str {
        shown(self.0.message())
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        self.0.code()
    }

    fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
        self.0.as_error()
    }

    fn as_error_mut(&mut self) -> &mut (dyn Error + Send + Sync + 'static) {
        self.0.as_error_mut()
    }

    fn into_error(self: Box<Self>) -> Box<dyn Error + Send + Sync + 'static> {
        self.0.into_error()
    }

    fn kind(&self) -> ErrorKind {
        self.0.kind()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::within_limit;
    use crate::{Rollback, unconfirmed, within};

    const MARKER: &str = "$argon2id$v=19$";

    /// What a vtgate says of a sign-up.
    #[derive(Debug)]
    struct Said(String);

    impl fmt::Display for Said {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "1406 (22001): {}", self.0)
        }
    }

    impl Error for Said {}

    impl DatabaseError for Said {
        fn message(&self) -> &str {
            &self.0
        }

        fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn Error + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    fn said(caller: &str) -> sqlx::Error {
        let text = format!(
            "Data too long for column 'username' at row 1 (errno 1406) (sqlstate 22001){caller}: \
             Sql: \"insert into users values (:v1)\", BindVars: {{v1: \"type:VARCHAR value:\\\"{MARKER}\\\"\"}}"
        );
        sqlx::Error::Database(Box::new(Said(text)))
    }

    /// A value of a statement is in no text that is made of an error, whichever way the error took.
    #[tokio::test]
    async fn no_value_of_a_statement_is_shown() {
        for caller in [" (CallerID: userData1)", ""] {
            let limit = Duration::from_secs(9);
            let read = within(limit, async { Err::<(), _>(said(caller)) }).await;
            let read = read.expect_err("it failed");
            let work = async { Err::<(), _>(Rollback::<()>::from(said(caller))) };
            let Err(Rollback::Failed(changed)) = within_limit(limit, work).await else {
                panic!("it failed");
            };
            for error in [read, unconfirmed(changed)] {
                let texts = format!("{error} {error:?}");
                assert!(!texts.contains(MARKER), "{texts}");
                assert!(texts.contains("1406 (22001): Data too long for column"), "{texts}");
            }
        }
    }
}

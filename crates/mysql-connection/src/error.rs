//! Classifies database errors by their meaning for the transaction, and hides the values that stand in some of them.
//!
//! Numbers are those of MySQL and MariaDB; where the two differ, both are named.
//!
//! The primary of a shard of Vitess may be out of reach for a while: it is being replaced, its MySQL server is gone, or
//! its tablet has taken the transaction back. A vtgate says this by the number of a client, or by words beside the
//! number that means any error. It counts as a lost connection: before COMMIT nothing was written, and the whole
//! transaction may be tried again. At COMMIT the outcome is unknown, because the tablet may have sent it before it lost
//! its server. After some of these errors, and after a deadlock, vtgate has rolled back. It runs further statements
//! outside of a transaction, and answers a COMMIT as if it had committed something. So each transaction ends with its
//! first error.
//!
//! A vtgate writes the statement and its values behind each message: a sign-up that fails would put the password's hash
//! into the log. So each error is cut where work on the database ends: in `limits.rs`. Whoever logs it, keeps its text or
//! reads its message has no values.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::mysql::MySqlDatabaseError;

/// The error of a call that got no connection although the server answers.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("all connections to the ledger are in use")]
struct AllInUse;

/// Makes the error for a call that got no connection in time because the calls before it have all.
pub fn all_in_use() -> sqlx::Error {
    sqlx::Error::AnyDriverError(Box::new(AllInUse))
}

/// The error of a transaction that is to be tried again.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("another transaction has changed what was read")]
struct Contended;

/// Makes the error for a transaction that read what another one has changed meanwhile. It may be tried again.
pub fn contended() -> sqlx::Error {
    sqlx::Error::AnyDriverError(Box::new(Contended))
}

/// The error of a change whose COMMIT was sent and not confirmed by the present writer.
#[derive(Debug, thiserror::Error)]
#[error("the outcome of COMMIT is unknown: {0}")]
struct Unconfirmed(#[source] sqlx::Error);

/// Makes the error for a COMMIT that was sent and not confirmed, with its cause.
pub fn unconfirmed(cause: sqlx::Error) -> sqlx::Error {
    sqlx::Error::AnyDriverError(Box::new(Unconfirmed(cause)))
}

/// Returns whether an error means that COMMIT was sent and not confirmed: the change may have been made.
pub fn is_unconfirmed(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::AnyDriverError(error) if error.is::<Unconfirmed>())
}

/// Makes the error for a column whose value is out of its range: a damaged row, not a missing one.
pub fn out_of_range(column: &str) -> sqlx::Error {
    let source = "the value is out of its range".into();
    sqlx::Error::ColumnDecode { index: column.to_owned(), source }
}

/// The class of a database error. The transaction is rolled back after each of them: 1205 and 1062
/// undo only their own statement, and a COMMIT after them would keep half of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 1062: a unique key is taken.
    Duplicate,
    /// 4025 (MariaDB) or 3819 (MySQL): a CHECK constraint refused the row.
    CheckViolated,
    /// 1213 deadlock, 1205 lock wait timeout, 3572 locked with NOWAIT (MariaDB: 1205), 1020 changed since read, 3101
    /// rolled back by the group, and the conflicts of TiDB: try the whole transaction again.
    Transient,
    /// The connection is gone or none could be had, or the server is not part of its cluster
    /// (1047). At COMMIT the outcome is unknown.
    Connection,
    /// 1290, 1792 or 1836: the server or the session takes no writes. Nothing was written.
    ReadOnly,
    /// 1114, 1021, 1026, 3, 28, or 1030 with 28 of the system: the server cannot write, as on a full disk. Before COMMIT
    /// nothing was written; at COMMIT the outcome is unknown.
    Full,
    /// 1406, 1264 or 1366: a value is too long for its column, out of its range, or of another charset. Nothing was written.
    DoesNotFit,
    /// The server answers, but our own calls have all connections. Nothing was sent.
    AllInUse,
    /// Any other error of the server.
    Other,
}

impl Fault {
    /// Classifies an error.
    pub fn of(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(database) => database
                .try_downcast_ref::<MySqlDatabaseError>()
                .map_or(Self::Other, |error| Self::of_answer(error.number(), error.message())),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Connection,
            sqlx::Error::AnyDriverError(error) if error.is::<AllInUse>() => Self::AllInUse,
            sqlx::Error::AnyDriverError(error) if error.is::<Contended>() => Self::Transient,
            // The class of its cause; `is_unconfirmed` tells it from an error before COMMIT.
            sqlx::Error::AnyDriverError(error) => {
                error.downcast_ref::<Unconfirmed>().map_or(Self::Other, |error| Self::of(&error.0))
            }
            _ => Self::Other,
        }
    }

    /// Returns whether an error says that a row violates the CHECK constraint of this name.
    pub fn violates(error: &sqlx::Error, constraint: &str) -> bool {
        let named = |error: &dyn DatabaseError| error.message().contains(constraint);
        Self::of(error) == Self::CheckViolated && error.as_database_error().is_some_and(named)
    }

    fn of_answer(number: u16, message: &str) -> Self {
        // The values behind it are anybody's words.
        let message = shown(message);
        match number {
            _ if is_out_of_service(number, message) => Self::Connection,
            _ if is_over_shards(message) => Self::Transient,
            // TiDB: a schema change came between.
            ANY if message.contains("Information schema is changed") => Self::Transient,
            // Any error of the engine, in words.
            1030 if message.contains("error 28 ") => Self::Full,
            _ => Self::of_number(number),
        }
    }

    fn of_number(number: u16) -> Self {
        match number {
            1062 => Self::Duplicate,
            4025 | 3819 => Self::CheckViolated,
            1213 | 1205 | 3572 | 1020 => Self::Transient,
            // Group Replication has rolled the transaction back.
            3101 => Self::Transient,
            // TiDB has rolled it back: retry is disabled, schema changed (twice), foreign keys,
            // write conflict.
            8002 | 8022 | 8028 | 8147 | 9007 => Self::Transient,
            1290 | 1792 | 1836 => Self::ReadOnly,
            3 | 28 | 1021 | 1026 | 1114 => Self::Full,
            1406 | 1264 | 1366 => Self::DoesNotFit,
            // Too many connections; server shutdown in progress; connection killed; query
            // interrupted.
            1040 | 1203 | 1053 | 1927 | 1317 | 3168 | 4031 => Self::Connection,
            // Galera: the node is not ready. TiDB: its storage does not answer.
            1047 | 9001..=9005 => Self::Connection,
            _ => Self::Other,
        }
    }
}

/// The number that means any error.
const ANY: u16 = 1105;

/// The numbers of a client whose server is gone, from Vitess. No server gives them by itself: the tablet is the client.
const OF_A_CLIENT: [u16; 5] = [2002, 2003, 2006, 2012, 2013];

/// What stands in the errors of Vitess that have no number of their own.
const WORDS: [&str; 8] = [
    "code = Unavailable",
    "operation not allowed in state",
    "wrong tablet type",
    "no healthy tablet available",
    "primary is not serving",
    // MoveTables leads the writes to another keyspace at this moment.
    "disallowed due to rule: enforce denied tables",
    // The transaction is lost, and then every statement but ROLLBACK is refused.
    "VT15001",
    "VT09032",
];

/// Returns whether an error with this number and text says that a shard cannot be reached.
fn is_out_of_service(number: u16, message: &str) -> bool {
    OF_A_CLIENT.contains(&number)
        || (number == ANY && WORDS.iter().any(|words| message.contains(words)))
}

/// Returns whether an error says that a transaction has touched a second shard, where one alone is allowed. Vitess has
/// rolled it back. Items were placed otherwise than we knew, as after a split of shards, so another try may be of one
/// shard.
fn is_over_shards(message: &str) -> bool {
    message.contains("multi-db transaction attempted")
}

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
    use crate::new_id::is_of_primary;
    use crate::{Rollback, within};

    #[test]
    fn both_servers_numbers_are_sorted() {
        assert_eq!(Fault::of_number(1062), Fault::Duplicate);
        assert_eq!(Fault::of_number(4025), Fault::CheckViolated);
        assert_eq!(Fault::of_number(3819), Fault::CheckViolated);
        for number in [1213, 1205, 3572, 1020, 3101, 8002, 8022, 8028, 8147, 9007] {
            assert_eq!(Fault::of_number(number), Fault::Transient);
        }
        for number in [1290, 1792, 1836] {
            assert_eq!(Fault::of_number(number), Fault::ReadOnly);
        }
        for number in [3, 28, 1021, 1026, 1114] {
            assert_eq!(Fault::of_number(number), Fault::Full);
        }
        let full = "Got error 28 \"No space left on device\" from storage engine InnoDB";
        assert_eq!(Fault::of_answer(1030, full), Fault::Full);
        assert_eq!(Fault::of_answer(1030, "Got error 168 from storage engine"), Fault::Other);
        assert_eq!(Fault::of(&sqlx::Error::PoolTimedOut), Fault::Connection);
        assert_eq!(Fault::of(&all_in_use()), Fault::AllInUse);
        assert_eq!(Fault::of(&contended()), Fault::Transient);
        for number in [1047, 9001, 9005] {
            assert_eq!(Fault::of_number(number), Fault::Connection);
        }
        let changed = "Information schema is changed during the execution of the statement";
        assert_eq!(Fault::of_answer(1105, changed), Fault::Transient);
        assert_eq!(Fault::of_answer(1105, "something else"), Fault::Other);
        // The hook may have failed before or after the group agreed: the database has to be asked.
        assert_eq!(Fault::of_number(3100), Fault::Other);
    }

    /// What Vitess 24.0.4 said when its MySQL server was killed or frozen, or ended a connection.
    const SAID: [(u16, &str, Fault); 14] = [
        (
            2006,
            "target: seckill.0.primary: vttablet: rpc error: code = Unavailable desc = conn 38: Write(packet) failed: write: broken pipe (errno 2006) (sqlstate HY000) (CallerID: userData1): Sql: \"commit\", BindVars: {}",
            Fault::Connection,
        ),
        (
            2013,
            "target: seckill.0.primary: vttablet: rpc error: code = Canceled desc = EOF (errno 2013) (sqlstate HY000) (CallerID: userData1): Sql: \"commit\", BindVars: {}",
            Fault::Connection,
        ),
        (
            1105,
            "target: seckill.0.primary: no healthy tablet available for 'keyspace:\"seckill\" shard:\"0\" tablet_type:PRIMARY'",
            Fault::Connection,
        ),
        (
            1105,
            "target: seckill.0.primary: vttablet: rpc error: code = Code(17) desc = operation not allowed in state SHUTTING_DOWN",
            Fault::Connection,
        ),
        (
            1105,
            "VT15001: transaction error, issue ROLLBACK and retry the transaction: target: seckill.0.primary: vttablet: rpc error: code = Code(17) desc = operation not allowed in state NOT_SERVING",
            Fault::Connection,
        ),
        (
            1105,
            "VT09032: previous transaction failed. Issue a ROLLBACK to resolve the failure.",
            Fault::Connection,
        ),
        // By its source (`query_executor.go`): the tables of the transaction are moved to another keyspace.
        (
            1105,
            "target: old.0.primary: vttablet: rpc error: code = FailedPrecondition desc = disallowed due to rule: enforce denied tables (CallerID: userData1)",
            Fault::Connection,
        ),
        (
            1317,
            "target: seckill.0.primary: vttablet: rpc error: code = Aborted desc = transaction 1795917989167537612: ended at 2026-11-29 02:19:13.232 UTC (unlocked closed connection) (CallerID: userData1)",
            Fault::Connection,
        ),
        (
            1317,
            "multi-db transaction attempted: [target:{keyspace:\"seckill_items\" shard:\"-80\" tablet_type:PRIMARY} transaction_id:1795929058223496111]",
            Fault::Transient,
        ),
        (
            1213,
            "target: seckill.0.primary: vttablet: rpc error: code = Aborted desc = Deadlock found when trying to get lock; try restarting transaction (errno 1213) (sqlstate 40001) (CallerID: userData1)",
            Fault::Transient,
        ),
        (
            3819,
            "target: seckill.0.primary: vttablet: rpc error: code = Unknown desc = Check constraint 't_chk_1' is violated. (errno 3819) (sqlstate HY000) (CallerID: userData1)",
            Fault::CheckViolated,
        ),
        (
            1062,
            "target: seckill.0.primary: vttablet: rpc error: code = AlreadyExists desc = Duplicate entry '5' for key 'users.PRIMARY' (errno 1062) (sqlstate 23000) (CallerID: userData1): Sql: \"insert into users(id, username) values (:v1 /* INT64 */, :v2 /* VARCHAR */)\", BindVars: {v1: \"type:INT64 value:\\\"5\\\"\"v2: \"type:VARCHAR value:\\\"a name\\\"\"}",
            Fault::Duplicate,
        ),
        (1105, "cannot parse int64 from \"18446744073709551615\": overflow", Fault::Other),
        (
            1105,
            "target: seckill.0.primary: vttablet: rpc error: code = Unknown desc = unknown (errno 1105) (sqlstate HY000) (CallerID: userData1): Sql: \"select :v1 from dual\", BindVars: {v1: \"type:VARCHAR value:\\\"VT15001\\\"\"}",
            Fault::Other,
        ),
    ];

    #[test]
    fn what_a_vtgate_says_is_sorted() {
        for (number, message, fault) in SAID {
            assert_eq!(Fault::of_answer(number, message), fault, "{message}");
            assert!(fault != Fault::Duplicate || is_of_primary(message), "{message}");
        }
    }

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

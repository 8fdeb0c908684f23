//! Classifies database errors by their meaning for the transaction.
//!
//! Numbers are those of MySQL and MariaDB; where the two differ, both are named.

use sqlx::mysql::MySqlDatabaseError;

/// The class of a database error. The transaction is rolled back after each of them: 1205 and 1062
/// undo only their own statement, and a COMMIT after them would keep half an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 1062: a unique key is taken.
    Duplicate,
    /// 4025 (MariaDB) or 3819 (MySQL): a CHECK constraint refused the row.
    CheckViolated,
    /// 1213 deadlock, 1205 lock wait timeout, 1020 changed since read: try the whole transaction
    /// again.
    Transient,
    /// The connection is gone or none could be had.
    Connection,
    /// 1290, 1792 or 1836: the server or the session takes no writes. Nothing was written.
    ReadOnly,
    /// Any other error of the server.
    Other,
}

impl Fault {
    /// Classifies an error.
    #[must_use]
    pub fn of(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(database) => database
                .try_downcast_ref::<MySqlDatabaseError>()
                .map_or(Self::Other, |error| Self::of_number(error.number())),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Connection,
            _ => Self::Other,
        }
    }

    fn of_number(number: u16) -> Self {
        match number {
            1062 => Self::Duplicate,
            4025 | 3819 => Self::CheckViolated,
            1213 | 1205 | 1020 => Self::Transient,
            1290 | 1792 | 1836 => Self::ReadOnly,
            // Too many connections; server shutdown in progress; connection killed; query
            // interrupted.
            1040 | 1203 | 1053 | 1927 | 1317 | 3168 | 4031 => Self::Connection,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_servers_numbers_are_sorted() {
        assert_eq!(Fault::of_number(1062), Fault::Duplicate);
        assert_eq!(Fault::of_number(4025), Fault::CheckViolated);
        assert_eq!(Fault::of_number(3819), Fault::CheckViolated);
        for number in [1213, 1205, 1020] {
            assert_eq!(Fault::of_number(number), Fault::Transient);
        }
        for number in [1290, 1792, 1836] {
            assert_eq!(Fault::of_number(number), Fault::ReadOnly);
        }
        assert_eq!(Fault::of(&sqlx::Error::PoolTimedOut), Fault::Connection);
    }
}

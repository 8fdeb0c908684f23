//! The connections of the ledger, in place of sqlx and of `mysql_connection`: their statements go to the book, and may be slow,
//! fail, or stay without an answer.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::book::{Book, Change, Row};
use crate::events::log;
use crate::explore::reach;
use crate::random::{below, once_in};
use crate::task::yield_now;
use crate::time::{Duration, Instant, sleep};

/// How long a transaction waits for a row, and how often it looks.
const LOCK_WAIT: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(25);
/// Connections of the ledger.
const CONNECTIONS: u32 = 8;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// An error of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    Of(Fault),
    /// COMMIT was sent and not answered.
    Unconfirmed,
    RowNotFound,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self:?}")
    }
}

/// The class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Duplicate,
    CheckViolated,
    Transient,
    Connection,
    ReadOnly,
    Full,
    DoesNotFit,
    AllInUse,
    Other,
}

impl Fault {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Of(fault) => *fault,
            Error::Unconfirmed => Self::Connection,
            Error::RowNotFound => Self::Other,
        }
    }

    pub(crate) fn violates(_: &Error, _: &str) -> bool {
        false
    }
}

/// One instance of the service, which may die: then nothing of it goes on that waits for a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process(Arc<AtomicBool>);

impl Process {
    pub(crate) fn die(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Goes on unless it is dead.
    pub(crate) async fn lives(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }
}

/// The way to a server: a few steps, and in faulty runs a long time.
pub(crate) async fn travel(is_faulty: bool) {
    for _ in 0..below(3) {
        yield_now().await;
    }
    if is_faulty && once_in(12) {
        sleep(Duration::from_millis(u64::from(below(900)))).await;
    }
}

/// The ledger, as one instance reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) book: Arc<Book>,
    pub(crate) process: Process,
    pub(crate) is_faulty: bool,
}

impl Database {
    pub(crate) fn connections_max(&self) -> u32 {
        CONNECTIONS
    }

    pub(crate) fn connection(&self) -> MySqlConnection {
        MySqlConnection { server: self.clone(), transaction: None, changes: Vec::new() }
    }

    pub(crate) async fn after_lost_commit(&self) -> Result<MySqlConnection> {
        self.send().await?;
        Ok(self.connection())
    }

    /// Sends a statement, which may not get through.
    pub(crate) async fn send(&self) -> Result<()> {
        travel(self.is_faulty).await;
        self.process.lives().await;
        if !self.is_faulty || !once_in(32) {
            return Ok(());
        }
        let faults = [Fault::Transient, Fault::Connection, Fault::ReadOnly, Fault::AllInUse];
        let fault = faults[below(4) as usize];
        log(&format!("ledger answers {fault:?}"));
        Err(Error::Of(fault))
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct MySqlConnection {
    pub(crate) server: Database,
    transaction: Option<usize>,
    pub(crate) changes: Vec<Change>,
}

impl MySqlConnection {
    /// Locks a row until the transaction ends. Without one, waits until the row is free.
    pub(crate) async fn lock(&mut self, row: Row) -> Result<()> {
        let until = Instant::now() + LOCK_WAIT;
        while !self.try_lock(&row) {
            if Instant::now() >= until {
                reach("waited for a row in vain", 1);
                return Err(Error::Of(Fault::Transient));
            }
            self.server.book.waits(self.transaction(), &row);
            sleep(LOOK).await;
            self.server.process.lives().await;
        }
        Ok(())
    }

    /// Locks a row that is free.
    pub(crate) fn try_lock(&self, row: &Row) -> bool {
        self.server.book.try_lock(self.transaction(), row)
    }

    /// Takes units of an item; `false` when too few are left.
    pub(crate) async fn take(&mut self, item: i64, units: i64) -> Result<bool> {
        self.lock(Row::Stock(item)).await?;
        let left = self.server.book.available(item, &self.changes).unwrap_or_default();
        if left >= units {
            self.changes.push(Change::Units(Row::Stock(item), units));
        }
        Ok(left >= units)
    }

    fn transaction(&self) -> usize {
        self.transaction.expect("rows are locked in a transaction")
    }

    /// Ends the transaction, with its changes or without.
    fn end(&mut self, keeps: bool) {
        let changes = std::mem::take(&mut self.changes);
        if let Some(transaction) = self.transaction.take() {
            self.server.book.end(transaction, if keeps { changes } else { Vec::new() });
        }
    }

    /// Ends the transaction later: the server goes on, or finds only then that the connection has ended.
    fn end_later(&mut self, keeps: bool) {
        let mut server = Self {
            server: self.server.clone(),
            transaction: self.transaction.take(),
            changes: std::mem::take(&mut self.changes),
        };
        server.server.book.goes_on(server.transaction());
        let time = Duration::from_millis(u64::from(below(900)));
        crate::spawn(async move {
            sleep(time).await;
            server.end(keeps);
        });
    }
}

impl Drop for MySqlConnection {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// A transaction, on a connection of its own or on a lent one.
#[derive(Debug)]
pub(crate) enum LedgerTransaction<'c> {
    Own(Box<MySqlConnection>),
    Lent(&'c mut MySqlConnection),
}

pub(crate) async fn begin(pool: &Database) -> Result<LedgerTransaction<'static>> {
    pool.send().await?;
    let mut connection = Box::new(pool.connection());
    connection.transaction = Some(pool.book.begin(&pool.process));
    Ok(LedgerTransaction::Own(connection))
}

pub(crate) async fn begin_on(connection: &mut MySqlConnection) -> Result<LedgerTransaction<'_>> {
    connection.server.send().await?;
    // BEGIN would commit an open transaction.
    assert!(connection.transaction.is_none(), "a transaction is open");
    connection.transaction = Some(connection.server.book.begin(&connection.server.process));
    Ok(LedgerTransaction::Lent(connection))
}

impl LedgerTransaction<'_> {
    pub(crate) async fn commit(mut self) -> Result<()> {
        let Database { process, is_faulty, .. } = self.server.clone();
        travel(is_faulty).await;
        if process.is_dead() {
            // It was sent, or not.
            self.end_later(once_in(2));
        }
        process.lives().await;
        match if is_faulty { below(24) } else { u32::MAX } {
            0 => {
                self.end(false);
                return Err(Error::Of(Fault::Transient));
            }
            fate @ 1..4 => {
                log("ledger leaves a COMMIT without an answer");
                reach("COMMIT without an answer", 1);
                match fate {
                    1 => self.end(true),
                    _ => self.end_later(fate == 2),
                }
                return Err(Error::Unconfirmed);
            }
            _ => self.end(true),
        }
        travel(is_faulty).await;
        process.lives().await;
        Ok(())
    }

    pub(crate) async fn rollback(mut self) -> Result<()> {
        let is_faulty = self.server.is_faulty;
        travel(is_faulty).await;
        let process = self.server.process.clone();
        process.lives().await;
        self.end(false);
        Ok(())
    }

    pub(crate) async fn roll_back_after(self, _: &Error) {
        let _ = self.rollback().await;
    }
}

impl Drop for LedgerTransaction<'_> {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl Deref for LedgerTransaction<'_> {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        match self {
            Self::Own(connection) => connection,
            Self::Lent(connection) => connection,
        }
    }
}

impl DerefMut for LedgerTransaction<'_> {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        match self {
            Self::Own(connection) => connection,
            Self::Lent(connection) => connection,
        }
    }
}

/// No limit: here each statement ends, and the clock may pass any limit while it is under way.
pub(crate) async fn answered<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    work.await
}

pub(crate) async fn within<T>(_: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    work.await
}

pub(crate) async fn confirmed<T>(_: &Database, work: impl Future<Output = Result<T>>) -> Result<T> {
    work.await
}

pub(crate) mod limits {
    //! Time limits.

    use super::Duration;

    pub(crate) const TRANSACTION_MAX: Duration = Duration::from_secs(10);
}

/// A statement that locks the row of a key, or reads a count that is 0 here.
pub(crate) struct Query(Option<Row>);

pub(crate) fn query(_: &str) -> Query {
    Query(None)
}

pub(crate) fn query_scalar(_: &str) -> Query {
    Query(None)
}

impl Query {
    pub(crate) async fn fetch_optional(self, connection: &mut MySqlConnection) -> Result<()> {
        connection.server.send().await?;
        connection.lock(self.0.expect("it names a key")).await
    }
}

pub(crate) mod statement {
    //! Values of statements.

    use super::{MySqlConnection, Query, Result, Row};

    pub(crate) trait Binds<T> {
        fn binds(self, values: T) -> Self;
    }

    impl Binds<(i64, i64, &str)> for Query {
        fn binds(self, (item, buyer, key): (i64, i64, &str)) -> Self {
            Self(Some(Row::Key(item, buyer, key.to_owned())))
        }
    }

    impl Binds<(i64, i64)> for Query {
        fn binds(self, _: (i64, i64)) -> Self {
            self
        }
    }

    pub(crate) trait Read {
        async fn first(self, connection: &mut MySqlConnection) -> Result<Option<i64>>;
    }

    impl Read for Query {
        async fn first(self, connection: &mut MySqlConnection) -> Result<Option<i64>> {
            connection.server.send().await?;
            Ok(None)
        }
    }
}

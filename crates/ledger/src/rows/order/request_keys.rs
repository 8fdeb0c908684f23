//! Looks up the keys of requests that are turned away: whether they have become an order before, or may still become
//! one.
//!
//! First the requests that run on other instances are read, then the orders: a request that ends in
//! between is found in one of the two. The orders are read with READ UNCOMMITTED on a connection of
//! their own: a transaction that has written the key is seen without waiting for its commit, so no
//! purchase waits for the row of another item.
//!
//! What is found ends a request for good, so it counts only from the present writer of the ledger.
//! While that is in doubt, a key is not looked up.

use std::collections::HashMap;

use sqlx::{Executor, MySqlConnection};

use super::orders::{self, RequestOf};
use super::running;
use mysql_connection::{
    Database, Destination, Fault, Writer, is_unconfirmed, replication, unconfirmed,
};
use shop_domain::Order;

/// Reads what became of requests.
pub struct RequestKeys {
    pool: Database,
    writer: Writer,
    /// The instance that asks, whose own running requests are not read.
    instance: String,
    /// Made when it is first needed, and again after an error or at another writer.
    uncommitted: Option<Uncommitted>,
}

/// A connection that sees what is not committed, with the server that it leads to.
struct Uncommitted {
    connection: MySqlConnection,
    destination: Destination,
}

/// What the rows say of a request that has some.
#[derive(Clone, Debug)]
pub enum KeyState {
    /// The request runs: on another instance, or in a transaction that is not over.
    Running,
    /// The request became this order.
    Order(Order),
}

/// Requests with their rows.
type KeyStates = HashMap<RequestOf, KeyState>;

impl RequestKeys {
    pub fn new(pool: Database, writer: Writer, instance: String) -> Self {
        Self { pool, writer, instance, uncommitted: None }
    }

    /// Reads what became of some requests. Tries a second time after an idle connection turned out to be gone, or to lead to a server that was replaced.
    ///
    /// # Errors
    /// The database's, and that the writer is in doubt.
    pub async fn find(&mut self, requests: &[RequestOf]) -> sqlx::Result<KeyStates> {
        let is_idle = self.uncommitted.is_some();
        match self.find_once(requests).await {
            Err(error)
                if is_unconfirmed(&error) || is_idle && Fault::of(&error) == Fault::Connection =>
            {
                self.find_once(requests).await
            }
            found => found,
        }
    }

    async fn find_once(&mut self, requests: &[RequestOf]) -> sqlx::Result<KeyStates> {
        // Kept only when all went well: a connection in doubt is closed.
        let kept = self.uncommitted.take().filter(|kept| !kept.destination.has_changed());
        let mut uncommitted = match kept {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        let reads = &mut uncommitted.connection;
        let running = running::elsewhere(reads, &self.instance, requests).await?;
        let written = orders::written(reads, requests).await?;
        // Those that are written and no order are not committed, or were taken back a moment ago.
        let open = running.into_iter().chain(written.iter().cloned());
        let mut states: KeyStates = open.map(|request| (request, KeyState::Running)).collect();
        if !written.is_empty() {
            let mut connection = self.pool.acquire().await?;
            let orders = orders::find_by_keys(&mut connection, &written).await?;
            states.extend(orders.into_iter().map(|(key, order)| (key, KeyState::Order(order))));
        }
        self.check_writer(reads).await?;
        if uncommitted.destination.has_changed() {
            return Err(unconfirmed(Destination::replaced()));
        }
        self.uncommitted = Some(uncommitted);
        Ok(states)
    }

    /// Opens a connection beside the pool, because the pool's sessions must not see rows that may be rolled back.
    async fn connect(&self) -> sqlx::Result<Uncommitted> {
        let destination = Destination::of(&self.pool);
        let mut connection = self.pool.acquire().await?.detach();
        let session = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED";
        connection.execute(sqlx::raw_sql(session)).await?;
        Ok(Uncommitted { connection, destination })
    }

    /// Checks that the server still takes writes, where another one may do so instead.
    async fn check_writer(&self, connection: &mut MySqlConnection) -> sqlx::Result<()> {
        if !self.writer.has_several_hosts() {
            return Ok(());
        }
        if !replication::role(connection).await?.writes {
            self.writer.recheck_writer();
            return Err(Destination::replaced());
        }
        if self.writer.is_in_doubt() { Err(Destination::replaced()) } else { Ok(()) }
    }
}

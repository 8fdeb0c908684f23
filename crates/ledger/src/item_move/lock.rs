//! The lock by which one mover at a time works on an item.

use std::time::Duration;

use crate::Database;
use sqlx::{ConnectOptions, Connection, MySqlConnection};

use crate::rows::answered;
use crate::rows::link::{ANSWER_MAX, within};
use crate::rows::statement::Read;
use shop_domain::ItemId;

/// The lock's name, for an item that is bound. MySQL has no MD5 since 9.6, and allows 64 characters.
const NAME: &str = "CONCAT('seckill-move-', LEFT(SHA2(CONCAT(DATABASE(), '/', ?), 256), 32))";

/// How long a mover waits for another one: the server needs a moment to notice that one was killed.
const WAIT_SECONDS: u32 = 2;

/// A named lock of the home ledger, held until it is dropped: it ends with its connection.
#[derive(Debug)]
pub(crate) struct MoveLock {
    _connection: MySqlConnection,
}

impl MoveLock {
    /// Takes the lock of an item; `None` while another mover has it for longer than a moment.
    pub async fn take(home: &Database, item: ItemId) -> sqlx::Result<Option<Self>> {
        Self::take_within(home, item, WAIT_SECONDS).await
    }

    /// Takes the lock of an item if it is free.
    pub async fn take_free(home: &Database, item: ItemId) -> sqlx::Result<Option<Self>> {
        Self::take_within(home, item, 0).await
    }

    /// Returns whether no mover works on an item, as far as can be said without its lock.
    pub async fn is_free(home: &Database, item: ItemId) -> sqlx::Result<bool> {
        let asked = format!("SELECT IS_FREE_LOCK({NAME})");
        let is_free: Option<i64> = sqlx::query_scalar(&asked).bind(item.get()).one(home).await?;
        Ok(is_free == Some(1))
    }

    async fn take_within(
        home: &Database,
        item: ItemId,
        seconds: u32,
    ) -> sqlx::Result<Option<Self>> {
        // The pool's options lead to the writer once one connection was made.
        drop(answered(home.acquire()).await?);
        let mut connection = answered(home.connect_options().connect()).await?;
        let wanted = format!("SELECT GET_LOCK({NAME}, ?)");
        let taken =
            sqlx::query_scalar(&wanted).bind(item.get()).bind(seconds).fetch_one(&mut connection);
        let limit = ANSWER_MAX + Duration::from_secs(seconds.into());
        let taken: Option<i64> = within(limit, taken).await?;
        if taken == Some(1) {
            return Ok(Some(Self { _connection: connection }));
        }
        let _ = answered(connection.close()).await;
        Ok(None)
    }
}

//! A lock by which one process at a time works on an item: moves it, or draws it.

use std::time::Duration;

use crate::Database;
use sqlx::{ConnectOptions, Connection, MySqlConnection};

use super::answered;
use super::link::{ANSWER_MAX, within};
use super::statement::{Binds, Read};
use shop_domain::ItemId;

/// The lock's name, for a kind of work and an item, which are bound. MySQL has no MD5 since 9.6, and allows 64 characters.
const NAME: &str = "CONCAT('seckill-', ?, '-', LEFT(SHA2(CONCAT(DATABASE(), '/', ?), 256), 32))";

/// How long one waits for another one: the server needs a moment to notice that one was killed.
const WAIT_SECONDS: u32 = 2;

/// What is done with the item under its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Move,
    Draw,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Draw => "draw",
        }
    }
}

/// A named lock of a ledger, held until it is dropped: it ends with its connection.
#[derive(Debug)]
pub(crate) struct ItemLock {
    _connection: MySqlConnection,
}

impl ItemLock {
    /// Takes the lock of an item; `None` while another one has it for longer than a moment.
    pub async fn take(ledger: &Database, work: Work, item: ItemId) -> sqlx::Result<Option<Self>> {
        Self::take_within(ledger, work, item, WAIT_SECONDS).await
    }

    /// Takes the lock of an item if it is free.
    pub async fn take_free(
        ledger: &Database,
        work: Work,
        item: ItemId,
    ) -> sqlx::Result<Option<Self>> {
        Self::take_within(ledger, work, item, 0).await
    }

    /// Returns whether nobody works on an item, as far as can be said without its lock.
    pub async fn is_free(ledger: &Database, work: Work, item: ItemId) -> sqlx::Result<bool> {
        let asked = format!("SELECT IS_FREE_LOCK({NAME})");
        let is_free: Option<i64> =
            sqlx::query_scalar(&asked).binds((work.name(), item.get())).one(ledger).await?;
        Ok(is_free == Some(1))
    }

    async fn take_within(
        ledger: &Database,
        work: Work,
        item: ItemId,
        seconds: u32,
    ) -> sqlx::Result<Option<Self>> {
        // The pool's options lead to the writer once one connection was made.
        drop(answered(ledger.acquire()).await?);
        let mut connection = answered(ledger.connect_options().connect()).await?;
        let wanted = format!("SELECT GET_LOCK({NAME}, ?)");
        let taken = sqlx::query_scalar(&wanted).binds((work.name(), item.get(), seconds));
        let taken = taken.fetch_one(&mut connection);
        let limit = ANSWER_MAX + Duration::from_secs(seconds.into());
        let taken: Option<i64> = within(limit, taken).await?;
        if taken == Some(1) {
            return Ok(Some(Self { _connection: connection }));
        }
        let _ = answered(connection.close()).await;
        Ok(None)
    }
}

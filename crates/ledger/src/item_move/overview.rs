//! What an operator sees of several ledgers: each with its items and its state, and the moves of items.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;

use crate::route::{Ledger, Shards};
use crate::rows::moves::{self, ItemMove};
use crate::rows::{self, failed_read, homes};
use shop_domain::{LedgerError, ShardId};

/// How long a ledger may take to say how it is.
const STATE_MAX: Duration = Duration::from_secs(3);

/// A ledger.
#[derive(Clone, Debug)]
pub struct LedgerView {
    /// Its number.
    pub shard: ShardId,
    /// The items that live there.
    pub items: i64,
    /// `ok`, `read-only`, `does not answer`, or what is wrong with its schema.
    pub state: &'static str,
}

/// The ledgers, and the moves between them: those under way first, then the newest.
#[derive(Clone, Debug)]
pub struct View {
    /// In the order of their numbers.
    pub ledgers: Vec<LedgerView>,
    /// At most [`moves::LIST_MAX`].
    pub moves: Vec<ItemMove>,
}

/// Looks at all ledgers. Clones share them.
#[derive(Clone)]
pub struct Overview {
    ledgers: Shards<Ledger>,
}

impl Overview {
    /// Makes a view of these ledgers.
    #[must_use]
    pub fn new(ledgers: Shards<Ledger>) -> Self {
        Self { ledgers }
    }

    /// Reads the state of all ledgers, and the moves.
    pub async fn read(&self) -> Result<View, LedgerError> {
        let Ledger { pool, breaker } = self.ledgers.home();
        let read = async {
            let mut items = homes::count(pool).await?;
            let elsewhere = items.values().sum::<i64>();
            items.insert(ShardId::HOME, homes::count_all(pool).await? - elsewhere);
            Ok((items, moves::list(pool).await?))
        };
        let read = rows::ask(breaker, read).await;
        let (items, moves) = read.map_err(|error| failed_read(&error))?;
        let ledgers = self.ledgers.iter().map(async |(shard, ledger)| {
            let items = items.get(&shard).copied().unwrap_or_default();
            LedgerView { shard, items, state: state_of(ledger).await }
        });
        Ok(View { ledgers: join_all(ledgers).await, moves })
    }
}

async fn state_of(Ledger { pool, breaker }: &Ledger) -> &'static str {
    let asked = timeout(STATE_MAX, rows::ask(breaker, rows::condition(pool))).await;
    match asked {
        Ok(Ok(condition)) if !condition.schema.is_usable() => condition.schema.as_str(),
        Ok(Ok(condition)) if !condition.writable => "read-only",
        Ok(Ok(_)) => "ok",
        Ok(Err(_)) | Err(_) => "does not answer",
    }
}

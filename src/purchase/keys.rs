//! Looking up the keys of requests that are turned away: have they become an order before?
//!
//! Once an item is sold out every request with a key asks this, thousands in a second. So they are
//! asked about together: while one statement runs the next questions gather, up to a bound. There is
//! no timer; a question that comes alone is asked at once.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::MySqlPool;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::domain::{ItemId, Order, RequestKey, UserId};
use crate::store::mysql::link::TRANSACTION_MAX;
use crate::store::mysql::{self, orders};

/// Questions of one statement.
const TOGETHER_MAX: usize = 256;
/// Questions that wait; one more is not answered.
const WAITING_MAX: usize = 16_384;

/// How long a question waits for its answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Why a key was not looked up: too many ask, or the ledger does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key could not be looked up")]
pub struct NotLookedUp;

struct Question {
    buyer: UserId,
    item: ItemId,
    key: RequestKey,
    answer: oneshot::Sender<Result<Option<Order>, NotLookedUp>>,
}

/// Asks about keys. Clones ask together.
#[derive(Clone, Debug)]
pub struct Keys {
    questions: mpsc::Sender<Question>,
}

/// Answers what is asked.
pub struct KeyReader {
    pool: MySqlPool,
    questions: mpsc::Receiver<Question>,
}

impl Keys {
    /// The two ends.
    #[must_use]
    pub fn new(pool: MySqlPool) -> (Self, KeyReader) {
        let (sender, questions) = mpsc::channel(WAITING_MAX);
        (Self { questions: sender }, KeyReader { pool, questions })
    }

    /// The order that a request became, if it did.
    ///
    /// # Errors
    /// When it cannot be known now.
    pub async fn find(
        &self,
        buyer: UserId,
        item: ItemId,
        key: RequestKey,
    ) -> Result<Option<Order>, NotLookedUp> {
        let (answer, found) = oneshot::channel();
        let question = Question { buyer, item, key, answer };
        self.questions.try_send(question).map_err(|_| NotLookedUp)?;
        match timeout(ANSWER_MAX, found).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) | Err(_) => Err(NotLookedUp),
        }
    }
}

impl KeyReader {
    /// Answers until `stop` fires or nobody can ask any more.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut together = Vec::with_capacity(TOGETHER_MAX);
        loop {
            let come = tokio::select! {
                come = self.questions.recv_many(&mut together, TOGETHER_MAX) => come,
                () = stop.cancelled() => 0,
            };
            if come == 0 {
                return;
            }
            let found = mysql::within(TRANSACTION_MAX, self.look_up(&together)).await;
            for Question { buyer, item, key, answer } in together.drain(..) {
                let order = match &found {
                    Ok(found) => Ok(found.get(&(buyer, item, key.as_str().to_owned())).cloned()),
                    Err(_) => Err(NotLookedUp),
                };
                // Who has gone asks again.
                let _ = answer.send(order);
            }
            if let Err(error) = found {
                tracing::warn!(%error, "keys could not be looked up");
            }
        }
    }

    async fn look_up(
        &self,
        together: &[Question],
    ) -> sqlx::Result<HashMap<orders::RequestOf, Order>> {
        let asked: Vec<_> =
            together.iter().map(|one| (one.buyer, one.item, one.key.as_str())).collect();
        let mut connection = self.pool.acquire().await?;
        orders::find_by_keys(&mut connection, &asked).await
    }
}

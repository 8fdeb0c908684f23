//! Looking up the keys of requests that are turned away: have they become an order before, or may
//! they still?
//!
//! Once an item is sold out every request with a key asks this, thousands in a second. So they are
//! asked about together: while one statement runs the next questions gather, up to a bound. There
//! is no timer; a question that comes alone is asked at once.
//!
//! The reads are `ledger::rows::request_keys`.

use std::time::Duration;

use mysql_connection::{Database, Writer};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use ledger::rows::request_keys::{KeyRows, RequestKeys};
use shop_domain::{ItemId, Order, RequestKey, UserId};

/// Questions that one statement asks.
const TOGETHER_MAX: usize = 256;
/// Questions that wait; one more is refused.
const WAITING_MAX: usize = 16_384;

/// How long a question waits for its answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// A key was not looked up: too many requests ask, or the ledger does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key could not be looked up")]
pub struct NotLookedUp;

/// The ledger's knowledge of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// Nothing.
    None,
    /// A request with it runs: on another instance, or in a transaction that is not over.
    Running,
    /// A request with it became this order.
    Order(Order),
}

struct Question {
    buyer: UserId,
    item: ItemId,
    key: RequestKey,
    answer: oneshot::Sender<Result<KeyState, NotLookedUp>>,
}

/// Asks about keys. The questions of all clones are asked together.
#[derive(Clone, Debug)]
pub struct Keys {
    questions: mpsc::Sender<Question>,
}

/// Answers the questions.
pub struct KeyReader {
    rows: RequestKeys,
    questions: mpsc::Receiver<Question>,
}

impl Keys {
    /// The two ends, in the instance that announces its own requests as `instance`.
    #[must_use]
    pub fn new(pool: Database, writer: Writer, instance: String) -> (Self, KeyReader) {
        let (sender, questions) = mpsc::channel(WAITING_MAX);
        let rows = RequestKeys::new(pool, writer, instance);
        (Self { questions: sender }, KeyReader { rows, questions })
    }

    /// Looks up what became of a request that does not run in this process.
    ///
    /// # Errors
    /// When the ledger cannot be asked now.
    pub async fn find(
        &self,
        buyer: UserId,
        item: ItemId,
        key: RequestKey,
    ) -> Result<KeyState, NotLookedUp> {
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
    /// Answers until `stop` fires or all askers are gone.
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
            // The callers of these have stopped waiting.
            together.retain(|question| !question.answer.is_closed());
            if together.is_empty() {
                continue;
            }
            let found = match timeout(ANSWER_MAX, self.look_up(&together)).await {
                Ok(found) => found.map_err(|error| error.to_string()),
                Err(_) => Err("the ledger does not answer".to_owned()),
            };
            for Question { buyer, item, key, answer } in together.drain(..) {
                let request = (buyer, item, key.as_str().to_owned());
                // A client that went away asks again.
                let _ = answer.send(match &found {
                    Ok(rows) => Ok(state_of(rows, &request)),
                    Err(_) => Err(NotLookedUp),
                });
            }
            if let Err(error) = found {
                tracing::warn!(%error, "request keys not looked up");
            }
        }
    }

    async fn look_up(&mut self, together: &[Question]) -> ledger::Result<KeyRows> {
        let asked: Vec<_> =
            together.iter().map(|one| (one.buyer, one.item, one.key.as_str())).collect();
        self.rows.find(&asked).await
    }
}

/// What the rows say of one request.
fn state_of(rows: &KeyRows, request: &(UserId, ItemId, String)) -> KeyState {
    match rows.orders.get(request) {
        Some(order) => KeyState::Order(order.clone()),
        None if rows.running.contains(request) => KeyState::Running,
        None => KeyState::None,
    }
}

//! Looking up the keys of requests that are turned away: have they become an order before, or may
//! they still?
//!
//! Once an item is sold out every request with a key asks this, thousands in a second. So they are
//! asked about together: while one statement runs the next questions gather, up to a bound. There
//! is no timer; a question that comes alone is asked at once.
//!
//! First the requests that run on other instances are read, then the orders: a request that ends in
//! between is found in one of the two. The orders are read with READ UNCOMMITTED on a connection of
//! their own: a transaction that has written the key is seen without waiting for its commit, so no
//! purchase waits for the row of another item.
//!
//! What is found ends a request for good, so it counts only from the present writer of the ledger. While that is
//! in doubt, a key is not looked up.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use ledger::Database;
use sqlx::{Executor, MySqlConnection};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use ledger::rows::{
    Destination, Fault, Writer, is_unconfirmed, orders, replication, running, stock, unconfirmed,
};
use shop_domain::{ItemId, Order, RequestKey, Routed, UserId};

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

/// What the look-up of a key has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// What the ledger knows of the key.
    pub state: KeyState,
    /// The epoch of the item's stock row, read after the rest; `None` without a stock row, and while there
    /// is one ledger.
    pub home_epoch: Option<u64>,
}

struct Question {
    buyer: UserId,
    routed: Routed,
    key: RequestKey,
    answer: oneshot::Sender<Result<Looked, NotLookedUp>>,
}

/// Asks about keys. The questions of all clones are asked together.
#[derive(Clone, Debug)]
pub struct Keys {
    questions: mpsc::Sender<Question>,
}

/// Answers the questions.
pub struct KeyReader {
    pool: Database,
    instance: String,
    writer: Writer,
    /// Made when it is first needed, and again after an error or at another writer.
    uncommitted: Option<Uncommitted>,
    questions: mpsc::Receiver<Question>,
}

/// A connection that sees what is not committed, with the server that it leads to.
struct Uncommitted {
    connection: MySqlConnection,
    destination: Destination,
}

/// The findings about some requests.
#[derive(Default)]
struct Found {
    running: HashSet<orders::RequestOf>,
    orders: HashMap<orders::RequestOf, Order>,
    epochs: HashMap<ItemId, u64>,
}

impl Keys {
    /// The two ends, in the instance that announces its own requests as `instance`.
    #[must_use]
    pub fn new(pool: Database, writer: Writer, instance: String) -> (Self, KeyReader) {
        let (sender, questions) = mpsc::channel(WAITING_MAX);
        (
            Self { questions: sender },
            KeyReader { pool, instance, writer, uncommitted: None, questions },
        )
    }

    /// Looks up what became of a request that does not run in this process, where a route leads.
    ///
    /// # Errors
    /// When the ledger cannot be asked now.
    pub async fn find(
        &self,
        buyer: UserId,
        routed: Routed,
        key: RequestKey,
    ) -> Result<Looked, NotLookedUp> {
        let (answer, found) = oneshot::channel();
        let question = Question { buyer, routed, key, answer };
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
            for Question { buyer, routed, key, answer } in together.drain(..) {
                let request = (buyer, routed.item, key.as_str().to_owned());
                // A client that went away asks again.
                let _ = answer.send(match &found {
                    Ok(found) => Ok(found.look(&request)),
                    Err(_) => Err(NotLookedUp),
                });
            }
            if let Err(error) = found {
                tracing::warn!(%error, "request keys not looked up");
            }
        }
    }

    /// Tries a second time after an idle connection turned out to be gone, or to lead to a server that was replaced.
    async fn look_up(&mut self, together: &[Question]) -> ledger::Result<Found> {
        let is_idle = self.uncommitted.is_some();
        match self.look_up_once(together).await {
            Err(error)
                if is_unconfirmed(&error) || is_idle && Fault::of(&error) == Fault::Connection =>
            {
                self.look_up_once(together).await
            }
            found => found,
        }
    }

    async fn look_up_once(&mut self, together: &[Question]) -> ledger::Result<Found> {
        let asked: Vec<_> =
            together.iter().map(|one| (one.buyer, one.routed.item, one.key.as_str())).collect();
        // Kept only when all went well: a connection in doubt is closed.
        let kept = self.uncommitted.take().filter(|kept| !kept.destination.has_changed());
        let mut uncommitted = match kept {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        let reads = &mut uncommitted.connection;
        let mut running = running::elsewhere(reads, &self.instance, &asked).await?;
        let written = orders::written(reads, &asked).await?;
        let mut orders = HashMap::new();
        if !written.is_empty() {
            let asked: Vec<_> =
                written.iter().map(|(buyer, item, key)| (*buyer, *item, key.as_str())).collect();
            let mut connection = self.pool.acquire().await?;
            orders = orders::find_by_keys(&mut connection, &asked).await?;
            // Written and not committed, or taken back a moment ago.
            let open = written.iter().filter(|request| !orders.contains_key(*request));
            running.extend(open.cloned());
        }
        // After everything else: an item that has moved by now may have been read too late.
        let movable = together.iter().filter(|one| !one.routed.home.is_only);
        let movable: BTreeSet<ItemId> = movable.map(|one| one.routed.item).collect();
        let movable: Vec<ItemId> = movable.into_iter().collect();
        let epochs = stock::epochs(&mut *reads, &movable).await?;
        self.check_writer(reads).await?;
        if uncommitted.destination.has_changed() {
            return Err(unconfirmed(Destination::replaced()));
        }
        self.uncommitted = Some(uncommitted);
        Ok(Found { running, orders, epochs })
    }

    /// A connection beside the pool, since its sessions must not see what may be taken back.
    async fn connect(&self) -> ledger::Result<Uncommitted> {
        let destination = Destination::of(&self.pool);
        let mut connection = self.pool.acquire().await?.detach();
        let session = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED";
        connection.execute(sqlx::raw_sql(session)).await?;
        Ok(Uncommitted { connection, destination })
    }

    /// Checks that the server still takes writes, where another one may do so instead.
    async fn check_writer(&self, connection: &mut MySqlConnection) -> ledger::Result<()> {
        if !self.writer.has_several_hosts() {
            return Ok(());
        }
        if !replication::role(connection).await?.writes {
            self.writer.suspect();
            return Err(Destination::replaced());
        }
        if self.writer.is_in_doubt() { Err(Destination::replaced()) } else { Ok(()) }
    }
}

impl Found {
    fn look(&self, request: &orders::RequestOf) -> Looked {
        let state = match self.orders.get(request) {
            Some(order) => KeyState::Order(order.clone()),
            None if self.running.contains(request) => KeyState::Running,
            None => KeyState::None,
        };
        Looked { state, home_epoch: self.epochs.get(&request.1).copied() }
    }
}

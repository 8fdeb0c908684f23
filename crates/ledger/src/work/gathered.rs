//! Reads rows of items, or of another key, in groups: rows that are asked for at the same time are read together.
//!
//! When a sale of thousands of items opens, each of them is asked for in the same second. While one
//! statement runs the next questions gather, up to a bound. There is no timer: a question that
//! comes alone is asked at once. A question is never answered by a statement that was sent before
//! it came.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use shop_domain::{ItemId, LedgerError};

/// Items, or other keys, that one statement reads.
const TOGETHER_MAX: usize = 128;
/// Items that wait to be read; one more is answered as if the ledger did not answer.
const WAITING_MAX: usize = 16_384;

/// The ledger's answer about one item; `None` when there is no row.
type Answer<T> = Result<Option<T>, LedgerError>;
/// The rows of the items that were asked for. A damaged row is the error of its item alone.
pub type Rows<T, K = ItemId> = Result<HashMap<K, Result<T, LedgerError>>, LedgerError>;
/// Reads several items with one statement.
type Read<T, K> = Box<dyn Fn(Vec<K>) -> BoxFuture<'static, Rows<T, K>> + Send + Sync>;

/// Reads items, or what `K` names. Clones read together.
pub struct GatheredReads<T, K = ItemId> {
    parts: Arc<GatheredParts<T, K>>,
}

struct GatheredParts<T, K> {
    read: Read<T, K>,
    state: Mutex<State<T, K>>,
}

struct State<T, K> {
    waiting: HashMap<K, Vec<oneshot::Sender<Answer<T>>>>,
    /// Whether the task that reads runs.
    is_read: bool,
}

/// The task that reads. Whatever ends it, another one begins with the next question.
struct Reader<T, K> {
    parts: Arc<GatheredParts<T, K>>,
    has_ended: bool,
}

impl<T, K> GatheredReads<T, K>
where
    T: Clone + Send + 'static,
    K: Clone + Eq + Hash + Send + 'static,
{
    /// Reads with the statement of `read`.
    pub fn new(
        read: impl Fn(Vec<K>) -> BoxFuture<'static, Rows<T, K>> + Send + Sync + 'static,
    ) -> Self {
        let state = State { waiting: HashMap::new(), is_read: false };
        Self { parts: Arc::new(GatheredParts { read: Box::new(read), state: Mutex::new(state) }) }
    }

    /// Reads an item with the next statement.
    ///
    /// # Errors
    /// When the ledger does not answer, or the item's row is damaged.
    pub async fn read(&self, id: K) -> Answer<T> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.parts.state();
            if state.waiting.len() >= WAITING_MAX && !state.waiting.contains_key(&id) {
                return Err(LedgerError::Unavailable);
            }
            state.waiting.entry(id).or_default().push(answer);
            if !state.is_read {
                state.is_read = true;
                // A task of its own: the caller who begins it may stop waiting.
                let parts = Arc::clone(&self.parts);
                tokio::spawn(Reader { parts, has_ended: false }.run());
            }
        }
        answered.await.unwrap_or(Err(LedgerError::Unavailable))
    }
}

impl<T: Clone, K: Clone + Eq + Hash> Reader<T, K> {
    /// Reads until nothing is asked.
    async fn run(mut self) {
        loop {
            let asked = self.parts.take();
            if asked.is_empty() {
                self.has_ended = true;
                return;
            }
            let ids: Vec<K> = asked.keys().cloned().collect();
            let mut read = (self.parts.read)(ids).await;
            for (id, askers) in asked {
                let answer = match &mut read {
                    Ok(found) => found.remove(&id).transpose(),
                    Err(error) => Err(*error),
                };
                for asker in askers {
                    // Nobody may be left who wants to know.
                    let _ = asker.send(answer.clone());
                }
            }
        }
    }
}

impl<T, K> Drop for Reader<T, K> {
    fn drop(&mut self) {
        if !self.has_ended {
            // It broke off. The callers that wait are answered: their senders are dropped.
            let mut state = self.parts.state();
            state.waiting.clear();
            state.is_read = false;
        }
    }
}

impl<T, K: Clone + Eq + Hash> GatheredParts<T, K> {
    /// Takes the next questions. With none the task has ended, which is noted under the same lock:
    /// the next question begins another one.
    fn take(&self) -> HashMap<K, Vec<oneshot::Sender<Answer<T>>>> {
        let mut state = self.state();
        // A question whose askers have all left is not asked.
        state.waiting.retain(|_, askers| askers.iter().any(|asker| !asker.is_closed()));
        state.is_read = !state.waiting.is_empty();
        if state.waiting.len() <= TOGETHER_MAX {
            return std::mem::take(&mut state.waiting);
        }
        let ids: Vec<K> = state.waiting.keys().take(TOGETHER_MAX).cloned().collect();
        ids.iter().filter_map(|id| state.waiting.remove_entry(id)).collect()
    }
}

impl<T, K> GatheredParts<T, K> {
    fn state(&self) -> MutexGuard<'_, State<T, K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, K> Clone for GatheredReads<T, K> {
    fn clone(&self) -> Self {
        Self { parts: Arc::clone(&self.parts) }
    }
}

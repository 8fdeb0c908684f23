//! The queues of Redis, in memory: a stream with one group of consumers for each item, a counter beside it, and dead letters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::Stream;
use shop_domain::{ItemId, OrderId};

use crate::events::log;
use crate::explore::reach;
use crate::random::once_in;
use crate::sql::{Process, travel};
use crate::time::Instant;

#[allow(dead_code, reason = "it has callers that this crate has not")]
#[path = "../../../crates/gates/src/redis_store/queue/intention.rs"]
mod intention;

pub(crate) use intention::Intention;

/// Redis has not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoAnswer;

impl fmt::Display for NoAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("no answer")
    }
}

/// Entries and orders of a queue.
pub(crate) type Length = Result<(u64, u64), NoAnswer>;

/// An entry of a queue.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) order: Result<Intention, String>,
}

/// Redis.
#[derive(Default)]
pub(crate) struct Queues {
    state: Mutex<State>,
    is_faulty: bool,
}

#[derive(Default)]
struct State {
    /// Entries by their ids, in the order of arrival.
    entries: BTreeMap<String, Queued>,
    entries_ever: usize,
    /// The orders that are queued.
    queued: BTreeSet<OrderId>,
    dead: BTreeSet<OrderId>,
    /// Units that the counter of an item has given, and not got back.
    taken: BTreeMap<ItemId, i64>,
}

struct Queued {
    item: ItemId,
    text: String,
    /// When a consumer got it, and how often one did.
    delivered: Option<(Instant, u64)>,
}

impl Queues {
    pub(crate) fn new(is_faulty: bool) -> Self {
        Self { state: Mutex::default(), is_faulty }
    }

    /// Queues an order, whose units its gate has taken.
    pub(crate) fn push(&self, item: ItemId, order: &Intention) {
        let mut state = self.state();
        state.entries_ever += 1;
        let id = format!("{:04}", state.entries_ever);
        log(&format!("{} is queued as {id}", order.order));
        state.entries.insert(id, Queued { item, text: order.write(), delivered: None });
        state.queued.insert(order.order);
        *state.taken.entry(item).or_default() += order.quantity.signed();
    }

    /// Whether each order was acknowledged or is a dead letter.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().entries.is_empty()
    }

    pub(crate) fn is_queued(&self, order: OrderId) -> bool {
        self.state().queued.contains(&order)
    }

    pub(crate) fn is_dead_letter(&self, order: OrderId) -> bool {
        self.state().dead.contains(&order)
    }

    pub(crate) fn taken(&self, item: ItemId) -> i64 {
        self.state().taken.get(&item).copied().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One consumer.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) queues: Arc<Queues>,
    pub(crate) process: Process,
}

impl Reader {
    /// Runs a command, which may not get through, or stay without an answer.
    async fn run<T>(&self, command: impl FnOnce(&mut State) -> T) -> Result<T, NoAnswer> {
        let fails = || self.queues.is_faulty && once_in(24);
        travel(self.queues.is_faulty).await;
        self.process.lives().await;
        if fails() {
            log("redis gets no command");
            return Err(NoAnswer);
        }
        let answer = command(&mut self.queues.state());
        travel(self.queues.is_faulty).await;
        self.process.lives().await;
        if fails() {
            log("redis leaves a command without an answer");
            return Err(NoAnswer);
        }
        Ok(answer)
    }

    pub(crate) fn queue(&self) -> &Self {
        self
    }

    /// The items with a queue.
    pub(crate) async fn refresh(&self) -> Result<BTreeSet<ItemId>, NoAnswer> {
        self.run(|state| state.taken.keys().copied().collect()).await
    }

    pub(crate) async fn read(&self, item: ItemId, count: usize) -> Result<Vec<Entry>, NoAnswer> {
        let is_wanted = |one: &Queued| one.delivered.is_none();
        self.run(|state| deliver(state, item, count, is_wanted)).await
    }

    pub(crate) async fn reclaim(
        &self,
        item: ItemId,
        idle: Duration,
        count: usize,
    ) -> Result<Vec<Entry>, NoAnswer> {
        let is_wanted = |one: &Queued| one.delivered.is_some_and(|(at, _)| at.elapsed() >= idle);
        let claimed = self.run(|state| deliver(state, item, count, is_wanted)).await?;
        reach("taken over", claimed.len() as u64);
        Ok(claimed)
    }

    pub(crate) async fn deliveries(&self, _: ItemId, entry: &str) -> Result<u64, NoAnswer> {
        self.run(|state| {
            let delivered = state.entries.get(entry).and_then(|one| one.delivered);
            delivered.map_or(0, |(_, times)| times)
        })
        .await
    }

    pub(crate) async fn ack(
        &self,
        item: ItemId,
        entry: &str,
        order: &Intention,
        refused: bool,
    ) -> Result<bool, NoAnswer> {
        self.run(|state| {
            log(&format!("{} is acknowledged, refused: {refused}", order.order));
            state.entries.remove(entry);
            let was_queued = state.queued.remove(&order.order);
            if was_queued && refused {
                *state.taken.entry(item).or_default() -= order.quantity.signed();
            }
            was_queued
        })
        .await
    }

    pub(crate) async fn move_to_dead_letters(
        &self,
        _: ItemId,
        entry: &Entry,
        why: &str,
    ) -> Result<bool, NoAnswer> {
        self.run(|state| {
            if state.entries.remove(&entry.id).is_none() {
                return false;
            }
            log(&format!("entry {} is a dead letter: {why}", entry.id));
            reach("dead letter", 1);
            state.dead.extend(entry.order.as_ref().map(|order| order.order));
            true
        })
        .await
    }

    /// For each queue, the number of its entries and of its orders.
    pub(crate) fn lengths<'a>(
        &'a self,
        items: &'a [ItemId],
    ) -> impl Stream<Item = Vec<(ItemId, Length)>> + 'a {
        futures::stream::once(async move {
            let mut lengths = Vec::new();
            for &item in items {
                let length = self.run(|state| {
                    let of_item = state.entries.values().filter(|one| one.item == item);
                    (of_item.count() as u64, state.queued.len() as u64)
                });
                lengths.push((item, length.await));
            }
            lengths
        })
    }

    pub(crate) async fn sweep(&self, _: &[ItemId]) -> Result<(), NoAnswer> {
        Ok(())
    }
}

fn deliver(
    state: &mut State,
    item: ItemId,
    count: usize,
    is_wanted: impl Fn(&Queued) -> bool,
) -> Vec<Entry> {
    let entries = state.entries.iter_mut();
    let wanted = entries.filter(|(_, one)| one.item == item && is_wanted(one)).take(count);
    let deliver = |(id, one): (&String, &mut Queued)| {
        let times = one.delivered.map_or(0, |(_, times)| times) + 1;
        one.delivered = Some((Instant::now(), times));
        log(&format!("entry {id} is delivered, time {times}"));
        let order = Intention::read(&one.text).ok_or_else(|| one.text.clone());
        Entry { id: id.clone(), order }
    };
    wanted.map(deliver).collect()
}

//! Loading a counter from the ledger: one instance does it, and the others wait for it.
//!
//! The loading instance takes the next epoch in the ledger, marks the counter with it, reads the
//! ledger, and writes the units last. The mark comes before the read: otherwise units taken from an
//! older load after the read would be in the counter again. A load that takes too long is taken
//! over under the next epoch; if it completes nevertheless, its units are kept, since purchases may
//! have taken some of them already.

use std::sync::LazyLock;
use std::time::Duration;

use futures::future::try_join_all;
use redis_connection::Script;
use tokio::time::{Instant, timeout_at};

use super::counters::{CounterError, Counters};
use ledger::rows::buyers::Holdings;
use ledger::rows::{buyers, items};
use shop_domain::ItemId;

/// How long a process waits for another one's load before it loads itself. The wait doubles with
/// each load that is taken over meanwhile, so that a long load can complete.
const LOAD_WAIT: Duration = Duration::from_millis(250);
/// Number of times that the wait doubles.
const DOUBLED_MAX: u32 = 4;
/// Time between two checks of the load.
const LOAD_CHECK_PERIOD: Duration = Duration::from_millis(10);
/// How long loading is tried in all, while others take the loads over.
const LOADING_MAX: Duration = Duration::from_secs(7);

static BEGIN: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_begin_load.lua")));
static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("counter_load.lua")));

/// The result of marking a counter for a load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoadStart {
    /// The counter is marked and has no units yet.
    Marked,
    /// The load that had timed out is complete; it has the epoch of this load now.
    Kept,
    /// A later load has marked it.
    Later,
}

impl Counters {
    /// Answers the ledger's epoch from this process's memory; loads the counter if it is not remembered. The load goes
    /// on when the caller stops waiting, at `until`.
    ///
    /// # Errors
    /// The load's; [`CounterError::Loading`] when it has not ended in time.
    pub(super) async fn epoch(&self, item: ItemId, until: Instant) -> Result<u64, CounterError> {
        match self.epochs.get(item) {
            Some(epoch) => Ok(epoch),
            None => self.load_once(item, None, until).await,
        }
    }

    /// Forgets the remembered epoch: the counter has another one.
    pub(super) fn forget_epoch(&self, item: ItemId) {
        self.epochs.remove(item);
    }

    /// Loads the counter if it is not, and answers its epoch; callers in this process share a load. A counter
    /// that is still the load of `empty` is loaded again, unless a load runs.
    pub(super) async fn load_once(
        &self,
        item: ItemId,
        empty: Option<u64>,
        until: Instant,
    ) -> Result<u64, CounterError> {
        let counters = self.clone();
        let load = async move {
            if empty.is_some()
                && let Some(next) = counters.claim(item, empty, None).await?
            {
                // If this load is overtaken, then by a later one, which is as good.
                counters.load(item, next, None).await?;
            }
            let epoch = counters.current_epoch(item).await?;
            counters.epochs.insert(item, epoch);
            Ok(epoch)
        };
        in_time(until, self.loads.run(item, || load)).await
    }

    /// Loads the counter in Redis under the ledger's epoch, if it is not; answers the epoch.
    async fn current_epoch(&self, item: ItemId) -> Result<u64, CounterError> {
        let give_up = Instant::now() + LOADING_MAX;
        let mut waiting_for = None;
        let mut loads_seen = 0;
        let mut waiting_until = Instant::now() + load_wait(loads_seen);
        loop {
            let known = self.layout.table.epoch(&self.pool, item).await?;
            let there = self.peek(item).await?.map(|counter| counter.epoch);
            if let Some(known) = known
                && there == Some(known)
            {
                return Ok(known);
            }
            // The wait begins again with each load.
            if waiting_for != known {
                (waiting_for, waiting_until) = (known, Instant::now() + load_wait(loads_seen));
                loads_seen += 1;
            }
            // One instance wins the right to load; the others read its epoch and wait. An emptied
            // Redis is handled as a load that takes too long.
            let being_loaded = known.is_some() && there < known;
            let given_up = Instant::now() >= waiting_until;
            if !being_loaded || given_up {
                let highest = self.highest_mark(item).await?;
                if let Some(epoch) = self.claim(item, known, highest).await?
                    && self.load(item, epoch, known).await?
                {
                    return Ok(epoch);
                }
            }
            if Instant::now() >= give_up {
                return Err(CounterError::Loading);
            }
            tokio::time::sleep(LOAD_CHECK_PERIOD).await;
        }
    }

    /// Reads the highest epoch in Redis, of complete and incomplete loads.
    async fn highest_mark(&self, item: ItemId) -> Result<Option<u64>, CounterError> {
        let marks = (0..self.layout.parts).map(|part| async move {
            let mut command = redis::cmd("HGET");
            command.arg(self.key_of(item, part)).arg("epoch");
            command.query_async::<Option<u64>>(&mut self.redis.shared()).await
        });
        Ok(try_join_all(marks).await?.into_iter().flatten().max())
    }

    /// Takes the next epoch if `known` still is the ledger's; `None` when another instance did.
    async fn claim(
        &self,
        item: ItemId,
        known: Option<u64>,
        there: Option<u64>,
    ) -> Result<Option<u64>, CounterError> {
        let next = known.max(there).unwrap_or(0) + 1;
        let claimed = self.layout.table.claim_epoch(&self.pool, item, (known, next)).await?;
        Ok(claimed.then_some(next))
    }

    /// Loads the counter under `epoch`, which this process has claimed; `false` when a later load
    /// overtook it. Units that the timed-out load of `in_vain` has loaded are kept.
    async fn load(
        &self,
        item: ItemId,
        epoch: u64,
        in_vain: Option<u64>,
    ) -> Result<bool, CounterError> {
        let parts = 0..self.layout.parts;
        let begin = parts.clone().map(|part| self.begin_load(item, part, epoch, in_vain));
        let begun = try_join_all(begin).await?;
        if begun.contains(&LoadStart::Later) {
            return Ok(false);
        }
        if begun.iter().all(|begun| *begun == LoadStart::Kept) {
            return Ok(true);
        }
        // Units are taken from complete loads only, so the parts of an incomplete one are not in
        // use.
        let kept = parts.clone().filter(|&part| begun[part] == LoadStart::Kept);
        let forget = kept.map(|part| self.begin_load(item, part, epoch, None));
        try_join_all(forget).await?;
        // Only the whole counter has a queue. The queue first: an order that moves to the ledger
        // meanwhile is read in both, never in neither.
        let queued = self.queued_units(item).await?;
        let holdings = self.holdings(item).await?;
        self.load_buyer_counts(item, epoch, &holdings.buyers).await?;
        let load = parts.map(|part| self.load_part(item, part, epoch, &holdings, queued));
        let loaded = try_join_all(load).await?.into_iter().all(|loaded| loaded);
        self.metrics.counters_rebuilt.inc();
        let available = holdings.available;
        tracing::debug!(%item, epoch, available, loaded, "counter loaded from the ledger");
        Ok(loaded)
    }

    async fn begin_load(
        &self,
        item: ItemId,
        part: usize,
        epoch: u64,
        in_vain: Option<u64>,
    ) -> Result<LoadStart, CounterError> {
        let mut call = BEGIN.key(self.key_of(item, part));
        call.arg(epoch).arg(in_vain.map(|epoch| epoch.to_string()).unwrap_or_default());
        let word: String = call.invoke_async(&mut self.redis.shared()).await?;
        Ok(match &*word {
            "load" => LoadStart::Marked,
            "kept" => LoadStart::Kept,
            _ => LoadStart::Later,
        })
    }

    async fn load_part(
        &self,
        item: ItemId,
        part: usize,
        epoch: u64,
        holdings: &Holdings,
        queued: i64,
    ) -> Result<bool, CounterError> {
        let mut call = LOAD.key(self.key_of(item, part));
        if self.is_whole() {
            call.key(self.redis.item_key(item, "queued"));
        }
        call.arg(epoch).arg(share(holdings.available, part, self.layout.parts));
        call.arg(queued).arg(holdings.version);
        let loaded: u8 = call.invoke_async(&mut self.redis.shared()).await?;
        Ok(loaded == 1)
    }

    async fn queued_units(&self, item: ItemId) -> Result<i64, CounterError> {
        if !self.is_whole() {
            return Ok(0);
        }
        let mut command = redis::cmd("HGET");
        command.arg(self.redis.item_key(item, "queued")).arg("units");
        let queued: Option<i64> = command.query_async(&mut self.redis.shared()).await?;
        Ok(queued.unwrap_or(0))
    }

    /// Reads the stock and the buyers from the ledger; without buyers for a split counter, which
    /// does not check limits.
    async fn holdings(&self, item: ItemId) -> Result<Holdings, CounterError> {
        let read = match self.is_whole() {
            true => buyers::holdings(&self.pool, item).await?,
            false => items::read_stock(&self.pool, item).await?.map(|row| Holdings {
                available: row.available,
                version: row.version,
                buyers: Vec::new(),
            }),
        };
        read.ok_or(CounterError::ItemNotFound)
    }

    fn is_whole(&self) -> bool {
        self.layout.parts == 1
    }
}

/// Waits until `until` for what a gate needs before it can take.
///
/// # Errors
/// The step's; [`CounterError::Loading`] when it has not ended in time.
pub(super) async fn in_time<T>(
    until: Instant,
    step: impl Future<Output = Result<T, CounterError>>,
) -> Result<T, CounterError> {
    timeout_at(until, step).await.unwrap_or(Err(CounterError::Loading))
}

/// The share of `units` that part number `part` of `parts` gets; all shares add up to `units`.
fn share(units: i64, part: usize, parts: usize) -> i64 {
    let count = |number: usize| i64::try_from(number).expect("a handful of parts");
    let part = count(part);
    let parts = count(parts);
    assert!((0..parts).contains(&part), "a share is of a part that the counter has");
    units.div_euclid(parts) + i64::from(part < units.rem_euclid(parts))
}

/// The wait for a load before it is taken over, after `loads_seen` other loads: jittered by up to
/// half on top, so that processes that wait together do not take over together.
fn load_wait(loads_seen: u32) -> Duration {
    let wait = LOAD_WAIT * 2_u32.pow(loads_seen.min(DOUBLED_MAX));
    wait + wait.mul_f64(rand::random::<f64>() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for units in [-9, -1, 0, 1, 7, 8, 9, 1_000_003] {
            assert_eq!(share(units, 0, 1), units);
            let shares: Vec<i64> = (0..8).map(|part| share(units, part, 8)).collect();
            assert_eq!(shares.iter().sum::<i64>(), units);
            let (least, most) = (shares.iter().min(), shares.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{shares:?}");
        }
    }
}

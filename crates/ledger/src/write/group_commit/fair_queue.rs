//! A queue for many items, from which each batch takes a fair share of every item.
//!
//! A batch is divided among the items that wait: each gets its share in turn, first come first
//! served within the item, and the longest queues fill up the rest. So the only buyer of a cold item
//! is in the next batch, whatever the crowd of a hot one, as long as no more items wait than a batch
//! has places; beyond that the items take turns. All are answered when their batch is committed, so the
//! buyers of a cold item wait longer for a larger batch: beside a crowd, batches have half the size.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use shop_domain::ItemId;

/// Entries of one item that wait; one more is not taken.
const ITEM_WAITING_MAX: usize = 16_384;
/// Entries of all items that wait; one more is not taken.
const WAITING_MAX: usize = 65_536;

/// The entries that left the queue.
pub(super) struct CutBatch<T> {
    pub(super) batch: Vec<T>,
    /// Those that do not begin any more.
    pub(super) dropped: Vec<T>,
    /// The places that the batch takes, and the most that it may take.
    places: usize,
    places_max: usize,
}

pub(super) struct FairQueue<T> {
    by_item: HashMap<ItemId, VecDeque<T>>,
    /// The items that wait, each once; the first is served next.
    turns: VecDeque<ItemId>,
    /// The places of all that wait.
    waiting: usize,
    /// The places that an entry takes in a batch.
    places: fn(&T) -> usize,
}

impl<T> FairQueue<T> {
    /// An empty queue, whose entries take `places` in a batch.
    pub(super) fn new(places: fn(&T) -> usize) -> Self {
        Self { by_item: HashMap::new(), turns: VecDeque::new(), waiting: 0, places }
    }

    /// Adds an entry behind those of its item.
    ///
    /// # Errors
    /// The entry, when too many wait.
    pub(super) fn push(&mut self, item: ItemId, entry: T) -> Result<(), T> {
        if self.waiting >= WAITING_MAX {
            return Err(entry);
        }
        let places = (self.places)(&entry);
        match self.by_item.entry(item) {
            Entry::Occupied(queue) if queue.get().len() >= ITEM_WAITING_MAX => return Err(entry),
            Entry::Occupied(mut queue) => queue.get_mut().push_back(entry),
            Entry::Vacant(vacant) => {
                vacant.insert(VecDeque::from([entry]));
                self.turns.push_back(item);
            }
        }
        self.waiting += places;
        Ok(())
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Whether a batch of `size` places would be full.
    pub(super) fn fills(&self, size: usize) -> bool {
        self.waiting >= size
    }

    /// Cuts the next batch of at most `size_max` places. There are only a few sizes (powers of
    /// two), so that each statement is prepared once; the rest waits for the next batch. Only entries of
    /// several places make other sizes. An entry for which `begins` answers `false` takes no place.
    pub(super) fn cut(
        &mut self,
        size_max: usize,
        mut begins: impl FnMut(&T) -> bool,
    ) -> CutBatch<T> {
        let items = self.turns.len();
        let wanted = if self.has_crowd_beside_others(size_max) { size_max / 2 } else { size_max };
        let size = self.waiting.min(wanted).checked_ilog2().map_or(0, |exponent| 1 << exponent);
        let batch = Vec::with_capacity(size);
        let mut cut = CutBatch { batch, dropped: Vec::new(), places: 0, places_max: size_max };
        let share = size.checked_div(items).unwrap_or(0).max(1);
        for _ in 0..items {
            let free = size.saturating_sub(cut.places);
            if free == 0 {
                break;
            }
            // The item goes to the end of the line; it leaves the line when nothing of it waits.
            let Some(item) = self.turns.pop_front() else { break };
            self.turns.push_back(item);
            self.take(item, share.min(free), &mut cut, &mut begins);
        }
        let mut longest: Vec<(usize, ItemId)> =
            self.by_item.iter().map(|(item, queue)| (queue.len(), *item)).collect();
        longest.sort_unstable_by_key(|(length, item)| (std::cmp::Reverse(*length), *item));
        for (_, item) in longest {
            let free = size.saturating_sub(cut.places);
            if free == 0 {
                break;
            }
            self.take(item, free, &mut cut, &mut begins);
        }
        let by_item = &self.by_item;
        self.turns.retain(|item| by_item.contains_key(item));
        assert_eq!(self.turns.len(), self.by_item.len(), "each item that waits has one turn");
        cut
    }

    /// Whether an item would fill a batch alone, and others wait that half a batch has places for.
    fn has_crowd_beside_others(&self, size_max: usize) -> bool {
        let is_crowd = |queue: &VecDeque<T>| queue.len() >= size_max;
        (2..=size_max / 2).contains(&self.turns.len()) && self.by_item.values().any(is_crowd)
    }

    /// The items of which something waits.
    pub(super) fn items(&self) -> impl Iterator<Item = ItemId> {
        self.turns.iter().copied()
    }

    /// Removes all entries of an item.
    pub(super) fn remove(&mut self, item: ItemId) -> VecDeque<T> {
        let removed = self.by_item.remove(&item).unwrap_or_default();
        self.turns.retain(|turn| *turn != item);
        self.waiting -= removed.iter().map(self.places).sum::<usize>();
        removed
    }

    /// Takes entries of an item that begin: until they take `count` places, or the next does not fit.
    fn take(
        &mut self,
        item: ItemId,
        count: usize,
        cut: &mut CutBatch<T>,
        begins: &mut impl FnMut(&T) -> bool,
    ) {
        let Entry::Occupied(mut queue) = self.by_item.entry(item) else { return };
        let mut taken = 0;
        let fits = |next: Option<&T>, cut: &CutBatch<T>| {
            next.is_some_and(|entry| cut.places + (self.places)(entry) <= cut.places_max)
        };
        while taken < count
            && fits(queue.get().front(), cut)
            && let Some(entry) = queue.get_mut().pop_front()
        {
            let places = (self.places)(&entry);
            self.waiting -= places;
            if begins(&entry) {
                cut.batch.push(entry);
                cut.places += places;
                taken += places;
            } else {
                cut.dropped.push(entry);
            }
        }
        if queue.get().is_empty() {
            queue.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE_MAX: usize = 256;

    fn item(id: usize) -> ItemId {
        ItemId::new(i64::try_from(id).expect("small")).expect("positive")
    }

    /// A queue with `counts[i]` entries of item `i + 1`, which are named by item and number.
    fn queue(counts: &[usize]) -> FairQueue<(usize, usize)> {
        let mut queue = FairQueue::new(|_| 1);
        for (index, count) in counts.iter().enumerate() {
            for number in 0..*count {
                queue.push(item(index + 1), (index + 1, number)).expect("there is room");
            }
        }
        queue
    }

    fn of_item(batch: &[(usize, usize)], id: usize) -> Vec<usize> {
        batch.iter().filter(|(item, _)| *item == id).map(|(_, number)| *number).collect()
    }

    #[test]
    fn a_crowd_leaves_everybody_else_a_place() {
        let mut counts = vec![4_096];
        counts.extend([1; 100]);
        let mut queue = queue(&counts);
        let batch = queue.cut(SIZE_MAX, |_| true).batch;
        assert_eq!(batch.len(), SIZE_MAX / 2);
        for id in 2..=101 {
            assert_eq!(of_item(&batch, id), [0], "item {id}");
        }
        // The crowd fills up the rest, and in its own order.
        assert_eq!(of_item(&batch, 1), (0..28).collect::<Vec<_>>());
        // One who comes now is in the next batch.
        queue.push(item(102), (102, 0)).expect("there is room");
        assert_eq!(of_item(&queue.cut(SIZE_MAX, |_| true).batch, 102), [0]);
        assert_eq!(queue.cut(SIZE_MAX, |_| true).batch.len(), SIZE_MAX, "the crowd is alone");
    }

    #[test]
    fn more_items_than_places_take_turns() {
        let mut queue = queue(&[2; 600]);
        let mut served = vec![0; 601];
        let mut batches = 0;
        while !queue.is_empty() {
            batches += 1;
            for (id, _) in queue.cut(SIZE_MAX, |_| true).batch {
                served[id] += 1;
            }
            let (least, most) = (served[1..].iter().min(), served[1..].iter().max());
            assert!(most.expect("some") - least.expect("some") <= 1, "{served:?}");
        }
        assert!(served[1..].iter().all(|count| *count == 2), "after {batches} batches: {served:?}");
    }

    #[test]
    fn a_batch_is_a_power_of_two_and_nothing_is_lost() {
        for counts in [&[1][..], &[3], &[300], &[5, 1, 7], &[100, 100, 100], &[1; 50]] {
            let mut queue = queue(counts);
            let (mut all, mut left) = (Vec::new(), counts.iter().sum::<usize>());
            while !queue.is_empty() {
                let batch = queue.cut(SIZE_MAX, |_| true).batch;
                assert_eq!(batch.len(), 1 << left.min(SIZE_MAX).ilog2(), "{counts:?}");
                left -= batch.len();
                all.extend(batch);
            }
            for (index, count) in counts.iter().enumerate() {
                let expected: Vec<usize> = (0..*count).collect();
                assert_eq!(of_item(&all, index + 1), expected, "first come, first served");
            }
            assert_eq!((left, queue.items().count()), (0, 0));
        }
    }

    #[test]
    fn what_does_not_begin_takes_no_place() {
        let mut queue = queue(&[4, 4]);
        let CutBatch { batch, dropped, .. } = queue.cut(SIZE_MAX, |(_, number)| number % 2 == 1);
        assert_eq!(dropped, [(1, 0), (1, 2), (2, 0), (2, 2)]);
        assert_eq!((of_item(&batch, 1), of_item(&batch, 2)), (vec![1, 3], vec![1, 3]));
        assert!(queue.is_empty());
        assert_eq!(queue.cut(SIZE_MAX, |_| true).batch, []);
    }

    #[test]
    fn an_order_with_many_lines_takes_their_places() {
        let mut queue: FairQueue<usize> = FairQueue::new(|lines| *lines);
        for lines in [16; 20] {
            queue.push(item(1), lines).expect("there is room");
        }
        queue.push(item(2), 1).expect("there is room");
        let batch = queue.cut(SIZE_MAX, |_| true).batch;
        assert_eq!(batch.iter().sum::<usize>(), 15 * 16 + 1, "one more would not fit");
        let mut left = 5 * 16;
        while !queue.is_empty() {
            let cut: usize = queue.cut(SIZE_MAX, |_| true).batch.iter().sum();
            assert!(cut > 0, "an order is larger than the size of the batch");
            left -= cut;
        }
        assert_eq!(left, 0);
    }

    #[test]
    fn an_item_that_is_removed_leaves_the_others() {
        let mut queue = queue(&[3, 2]);
        assert_eq!(queue.remove(item(1)).len(), 3);
        assert_eq!(queue.items().collect::<Vec<_>>(), [item(2)]);
        assert_eq!(queue.cut(SIZE_MAX, |_| true).batch, [(2, 0), (2, 1)]);
        assert!(queue.remove(item(2)).is_empty() && queue.is_empty());
    }

    #[test]
    fn a_full_queue_of_an_item_takes_no_more() {
        let mut queue = queue(&[ITEM_WAITING_MAX]);
        assert!(queue.push(item(1), (1, 0)).is_err());
        assert!(queue.push(item(2), (2, 0)).is_ok());
    }
}

//! The steps of the move's model, and what its properties ask of a state.

use super::{
    BUYERS, DEATHS_MAX, MOVES_MAX, Mistake, Mover, Next, Record, Request, Route, SOURCE, STOCK,
    Shard, State, StockRow, TARGET, TRIES_MAX,
};

impl State {
    /// The route of a request by a router, which reads the home when it has none.
    pub(super) fn route(&mut self, request: Request, router: usize) -> Option<Request> {
        let Request::Asks { tries } = request else { return None };
        let route = *self.caches[router].get_or_insert(self.home);
        Some(Request::ItemRoute { route, tries })
    }

    /// Whether the row of a shard refuses writes by a route.
    fn is_stale(&self, mistake: Option<Mistake>, route: Route) -> bool {
        let Some(row) = self.shards[route.shard].stock else { return true };
        let is_checked =
            !matches!(mistake, Some(Mistake::FlipWithoutEpoch | Mistake::EpochOfTheRow));
        is_checked && row.epoch != route.epoch
    }

    /// A stale route: the home is read again, once.
    fn again(&mut self, tries: u8, router: usize) -> Request {
        self.caches[router] = None;
        if tries + 1 < TRIES_MAX { Request::Asks { tries: tries + 1 } } else { Request::TryLater }
    }

    pub(super) fn buy(&mut self, mistake: Option<Mistake>, buyer: usize) -> bool {
        let Request::ItemRoute { route, tries } = self.buys[buyer] else { return false };
        if self.is_stale(mistake, route) {
            self.buys[buyer] = self.again(tries, buyer);
            return true;
        }
        let shard = &mut self.shards[route.shard];
        self.buys[buyer] = match &mut shard.stock {
            Some(row) if row.available > 0 => {
                row.available -= 1;
                shard.orders[buyer] = Some(false);
                Request::Acknowledged
            }
            _ => Request::SoldOut,
        };
        true
    }

    pub(super) fn pay(&mut self, mistake: Option<Mistake>) -> bool {
        let Request::ItemRoute { route, tries } = self.payment else { return false };
        let ignores = mistake == Some(Mistake::PaymentWithoutEpoch);
        let order = &mut self.shards[route.shard].orders[0];
        let is_there = order.is_some();
        if ignores && is_there {
            *order = Some(true);
            self.payment = Request::Acknowledged;
        } else if !is_there || self.is_stale(mistake, route) {
            self.payment = self.again(tries, 1);
        } else {
            self.shards[route.shard].orders[0] = Some(true);
            self.payment = Request::Acknowledged;
        }
        true
    }

    /// A new move, or a successor of a mover that died.
    pub(super) fn start(&mut self) -> bool {
        if self.movers[0].is_some() {
            return false;
        }
        if self.is_settled() {
            if self.moves == MOVES_MAX || self.home.shard == TARGET {
                return false;
            }
            self.records[usize::from(self.moves)] = (Record::Copying, false);
            self.moves += 1;
        }
        let epoch = self.moves + 1;
        self.movers[0] =
            Some(Mover { next: Next::ReadRecord, epoch, of_home: 0, differ: [false; BUYERS] });
        true
    }

    pub(super) fn die(&mut self, wakes_up: bool) -> bool {
        let Some(mover) = self.movers[0].take() else { return false };
        self.deaths += 1;
        if wakes_up {
            self.movers[1] = Some(mover);
            self.has_slept = true;
        }
        self.deaths <= DEATHS_MAX
    }

    pub(super) fn give_up(&mut self, number: usize) -> bool {
        let Some(mover) = &mut self.movers[number] else { return false };
        let is_possible = !matches!(
            mover.next,
            Next::ReadRecord
                | Next::Raise
                | Next::Reopen
                | Next::Tidy
                | Next::Remove
                | Next::RemoveStock
                | Next::End
        );
        *mover = Mover { next: Next::Raise, of_home: 0, differ: [false; BUYERS], ..*mover };
        is_possible
    }

    /// One step of a mover. It keeps the next one in its memory alone.
    pub(super) fn advance(&mut self, mistake: Option<Mistake>, number: usize) -> bool {
        let Some(mut mover) = self.movers[number] else { return false };
        let next = self.next_of(mistake, &mut mover);
        if let Some(next) = next {
            mover.next = next;
        }
        self.movers[number] = next.is_some().then_some(mover);
        true
    }

    /// Takes the step of a mover, and answers the one after; `None` ends it.
    fn next_of(&mut self, mistake: Option<Mistake>, mover: &mut Mover) -> Option<Next> {
        let (epoch, is) = (mover.epoch, |one| mistake == Some(one));
        let source_epoch = self.shards[SOURCE].stock.map(|row| row.epoch);
        let (record, has_ended) = self.records[usize::from(epoch) - 2];
        match mover.next {
            Next::ReadRecord => match record {
                Record::Copying | Record::Closed if source_epoch == Some(epoch) => {
                    Some(Next::RecordClosed)
                }
                Record::Copying | Record::Closed => Some(Next::Open),
                Record::Flipped | Record::GivenUp | Record::NotBegun => Some(Next::Tidy),
            },
            Next::Open | Next::OpenAgain => {
                let row = StockRow { available: 0, epoch: 0 };
                let row = self.shards[TARGET].stock.get_or_insert(row);
                row.epoch = if row.epoch < epoch { 0 } else { row.epoch };
                let after = if mover.next == Next::Open { Next::Copy } else { Next::Compare };
                (row.epoch == 0).then_some(after)
            }
            Next::Copy => {
                let is_open = self.is_open(mistake);
                if is_open {
                    self.shards[TARGET].orders = self.shards[SOURCE].orders;
                }
                let skips = is(Mistake::FlipWithoutClose);
                is_open.then_some(if skips { Next::RecordClosed } else { Next::ReadHome })
            }
            Next::ReadHome => {
                mover.of_home = self.home.epoch;
                Some(Next::Close)
            }
            Next::Close => {
                let of_home = std::mem::take(&mut mover.of_home);
                let row = self.shards[SOURCE].stock.as_mut()?;
                let rises = row.epoch < epoch || is(Mistake::CloseLowersEpoch);
                row.epoch = if row.epoch == of_home && rises { epoch } else { row.epoch };
                (row.epoch == epoch).then_some(Next::RecordClosed)
            }
            Next::RecordClosed => {
                let closes = matches!(record, Record::Copying | Record::Closed);
                if closes {
                    self.records[usize::from(epoch) - 2].0 = Record::Closed;
                }
                let is_sealed = self.shards[TARGET].stock.is_some_and(|row| row.epoch == epoch);
                closes.then_some(if is_sealed { Next::Verify } else { Next::OpenAgain })
            }
            Next::Compare => {
                let [source, target] = [SOURCE, TARGET].map(|shard| self.shards[shard].orders);
                for buyer in 0..BUYERS {
                    mover.differ[buyer] =
                        source[buyer] != target[buyer] && !is(Mistake::SealWithoutDelta);
                }
                Some(Next::Seal)
            }
            Next::Seal => {
                let is_open = self.is_open(mistake);
                let differ = std::mem::take(&mut mover.differ);
                if is_open {
                    for buyer in (0..BUYERS).filter(|buyer| differ[*buyer]) {
                        self.shards[TARGET].orders[buyer] = self.shards[SOURCE].orders[buyer];
                    }
                    // The row has the epoch of the move: the source was closed with it.
                    let mut row = self.shards[SOURCE].stock;
                    if let (Some(row), true) = (&mut row, is(Mistake::FlipWithoutClose)) {
                        row.epoch = epoch;
                    }
                    self.shards[TARGET].stock = row;
                }
                is_open.then_some(Next::Verify)
            }
            Next::Verify => {
                let [source, target] = [SOURCE, TARGET].map(|shard| &self.shards[shard]);
                let left = |shard: &Shard| shard.stock.map(|row| row.available);
                let is_like = source.orders == target.orders && left(source) == left(target);
                let skips = is(Mistake::SealWithoutDelta) || is(Mistake::NotVerified);
                Some(if is_like || skips { Next::Flip } else { Next::Raise })
            }
            Next::Flip => {
                if record == Record::Closed {
                    self.home = Route { shard: TARGET, epoch };
                    self.records[usize::from(epoch) - 2].0 = Record::Flipped;
                    return Some(Next::Tidy);
                }
                Some(Next::Raise)
            }
            Next::Raise => {
                if let Some(row) = &mut self.shards[SOURCE].stock
                    && !is(Mistake::GiveUpWithoutEpoch)
                {
                    row.epoch = row.epoch.max(epoch);
                }
                Some(Next::Reopen)
            }
            Next::Reopen => {
                if matches!(record, Record::Copying | Record::Closed) {
                    self.home = Route { shard: SOURCE, epoch };
                    self.records[usize::from(epoch) - 2].0 = Record::GivenUp;
                }
                Some(Next::Tidy)
            }
            Next::Tidy => (!has_ended).then_some(Next::Remove),
            Next::Remove | Next::RemoveStock => {
                let (shard, epochs) = match record {
                    Record::Flipped => (SOURCE, [epoch; 2]),
                    Record::GivenUp => (TARGET, [0, epoch]),
                    Record::Copying | Record::Closed | Record::NotBegun => return None,
                };
                let is_this =
                    self.shards[shard].stock.is_some_and(|row| epochs.contains(&row.epoch));
                if is_this || is(Mistake::RemoveWithoutEpoch) {
                    match mover.next {
                        Next::Remove => self.shards[shard].orders = [None; BUYERS],
                        _ => self.shards[shard].stock = None,
                    }
                }
                Some(if mover.next == Next::Remove { Next::RemoveStock } else { Next::End })
            }
            Next::End => {
                self.records[usize::from(epoch) - 2].1 = true;
                None
            }
        }
    }

    /// Whether rows may be written at the target.
    fn is_open(&self, mistake: Option<Mistake>) -> bool {
        let is_open = self.shards[TARGET].stock.is_some_and(|row| row.epoch == 0);
        is_open || mistake == Some(Mistake::CopyWithoutEpoch)
    }

    /// Whether no move is under way.
    pub(super) fn is_settled(&self) -> bool {
        self.records.iter().all(|(_, has_ended)| *has_ended)
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.buys.iter().filter(|buy| **buy == Request::Acknowledged).count()
    }

    pub(super) fn has_all_acknowledged(&self) -> bool {
        let orders = &self.shards[self.home.shard].orders;
        let mut bought = self.buys.iter().zip(orders);
        bought.all(|(buy, order)| *buy != Request::Acknowledged || order.is_some())
            && (self.payment != Request::Acknowledged || orders[0] == Some(true))
    }

    /// Whether a shard takes a write by a route that a router has or can get.
    pub(super) fn takes_writes(&self, shard: usize) -> bool {
        let routed = self.buys.iter().chain([&self.payment]).filter_map(|request| match request {
            Request::ItemRoute { route, .. } => Some(*route),
            _ => None,
        });
        let mut routes = self.caches.into_iter().flatten().chain(routed).chain([self.home]);
        let epoch = self.shards[shard].stock.map(|row| row.epoch);
        routes.any(|route| route.shard == shard && Some(route.epoch) == epoch)
    }

    pub(super) fn is_open_once(&self) -> bool {
        let is_open = |request: &Request| matches!(request, Request::ItemRoute { .. });
        let is_answered = !self.buys.iter().any(|buy| matches!(buy, Request::Asks { .. }))
            && !self.buys.iter().chain([&self.payment]).any(is_open);
        let here = &self.shards[self.home.shard];
        let sold = here.orders.iter().flatten().count();
        let is_whole = here.stock.is_some_and(|row| {
            row.epoch == self.home.epoch && usize::from(row.available) + sold == usize::from(STOCK)
        });
        // A mover that woke up late may leave rows behind; no route leads to them.
        let is_gone = self.shards[1 - self.home.shard] == Shard::default() || self.has_slept;
        self.is_settled() && is_answered && is_whole && is_gone
    }
}

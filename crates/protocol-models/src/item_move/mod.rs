//! Model of an item's move from one shard to another while it sells: home epoch, cached routes, buyers, a
//! payment, and a mover that dies at any step and is replaced, gives up, or wakes up beside its successor.
//! The model describes `crates/ledger/src/item_move` and the statements by which a write names the epoch of its route.
//!
//! The home ledger says where the item lives: a shard and an epoch. A write names the epoch of the route that
//! led to it, and the stock row refuses another one. A transaction in one ledger is one action; no action
//! writes to two ledgers. Copying reads at the source while it holds the target's stock row, so it is one
//! action too.
//!
//! Assumes: a committed transaction stays; a request is decided by one transaction in one shard.

mod steps;

use stateright::{Model, Property};

use crate::check::is_end;

/// Units of the item.
const STOCK: u8 = 1;
/// Buyers; each asks by a router of its own.
const BUYERS: usize = 2;
/// Routers, each with a cached route, which it keeps until a shard refuses it.
const ROUTERS: usize = 2;
/// How often a mover dies or falls asleep, on one path.
const DEATHS_MAX: u8 = 1;
/// Moves that are begun, on one path.
const MOVES_MAX: u8 = 2;
/// The shard that the item leaves, and the one that it goes to.
const SOURCE: usize = 0;
const TARGET: usize = 1;
/// Tries of a request: the second one follows a fresh look at the home.
const TRIES_MAX: u8 = 2;

/// A planted mistake, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The stock's statement does not compare the epoch.
    FlipWithoutEpoch,
    /// The stock's statement compares the row with the epoch that was read from the row before.
    EpochOfTheRow,
    /// A payment does not look at the epoch.
    PaymentWithoutEpoch,
    /// The copy is sealed without the rows that have changed, and not compared afterwards.
    SealWithoutDelta,
    /// The home is flipped, and the source was not closed.
    FlipWithoutClose,
    /// A mover that gives up sets the new epoch in the home alone.
    GiveUpWithoutEpoch,
    /// A mover writes rows at the target whatever the epoch of the stock row there is.
    CopyWithoutEpoch,
    /// A mover deletes rows whatever the epoch of the stock row beside them is.
    RemoveWithoutEpoch,
    /// The sealed copy is not compared with the original.
    NotVerified,
    /// A mover that woke up late closes the source with its own epoch, although the source has a later one.
    CloseLowersEpoch,
}

/// The model.
#[derive(Clone, Debug)]
pub struct ItemMove(pub Option<Mistake>);

/// Where the item lives, and the epoch that its writes name.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Route {
    shard: usize,
    epoch: u8,
}

/// The rows of the item in one shard.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
struct Shard {
    stock: Option<StockRow>,
    /// By buyer: whether there is an order, and whether it is paid.
    orders: [Option<bool>; BUYERS],
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct StockRow {
    available: u8,
    epoch: u8,
}

/// The state of a move, as the home ledger records it.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Record {
    NotBegun,
    Copying,
    Closed,
    Flipped,
    GivenUp,
}

/// What a mover does next.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Next {
    /// Begins or goes on from the record.
    ReadRecord,
    /// Gives the target's stock row the epoch 0, at which rows may be written.
    Open,
    Copy,
    /// Reads the epoch that the home names.
    ReadHome,
    /// Replaces that epoch at the source, if its own is a later one.
    Close,
    RecordClosed,
    OpenAgain,
    /// Finds the rows that differ.
    Compare,
    /// Writes them, and the stock row with the new epoch.
    Seal,
    Verify,
    Flip,
    /// Gives up: makes sure that the source has the new epoch.
    Raise,
    Reopen,
    /// Reads the record once more.
    Tidy,
    /// Removes the rows where the item does not live, and the stock row last.
    Remove,
    RemoveStock,
    End,
}

/// The memory of a mover.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Mover {
    next: Next,
    /// The epoch of the move that it works on.
    epoch: u8,
    /// The epoch that it read from the home, until it has closed the source.
    of_home: u8,
    /// The orders that it found to differ, until it has sealed the copy.
    differ: [bool; BUYERS],
}

/// The state of a request.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Request {
    /// Has no route; the number of earlier ones that were stale.
    Asks {
        tries: u8,
    },
    ItemRoute {
        route: Route,
        tries: u8,
    },
    Acknowledged,
    SoldOut,
    /// 503 with Retry-After.
    TryLater,
}

/// A state of everything.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    home: Route,
    /// Moves that were begun.
    moves: u8,
    /// Their records, of which the first one has the epoch 2, and whether they have ended.
    records: [(Record, bool); MOVES_MAX as usize],
    shards: [Shard; 2],
    caches: [Option<Route>; ROUTERS],
    buys: [Request; BUYERS],
    /// The payment of buyer 0, by router 1.
    payment: Request,
    /// The mover, and one that is asleep or awake beside its successor.
    movers: [Option<Mover>; 2],
    deaths: u8,
    /// Whether a mover was asleep.
    has_slept: bool,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A router takes its cached route, or reads the home.
    Route(usize),
    /// The buyer's transaction in the shard.
    Buy(usize),
    /// The payment's router takes a route.
    RoutePayment,
    /// The payment's transaction in the shard.
    Pay,
    /// A move is begun, or one that was left is taken up.
    Start,
    /// A mover takes its next step.
    Move(usize),
    /// A mover gives up instead.
    GiveUp(usize),
    /// The mover dies.
    Die,
    /// The mover counts as dead, and goes on later.
    FallAsleep,
}

/// Never more units sold than there are.
pub const NOT_OVERSOLD: &str = "never more sold than the stock";
/// An acknowledged order or payment is in the shard that the home names.
pub const NOTHING_LOST: &str = "no acknowledged order or payment is lost";
/// One shard at most takes writes by any route that a router can have.
pub const ONE_WRITER: &str = "at most one shard takes writes";
/// In the end everything is answered, and the item is open in one shard.
pub const OPEN_ONCE: &str = "the item ends open in exactly one shard";

impl Model for ItemMove {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let stock = Some(StockRow { available: STOCK, epoch: 1 });
        vec![State {
            home: Route { shard: 0, epoch: 1 },
            moves: 0,
            records: [(Record::NotBegun, true); MOVES_MAX as usize],
            shards: [Shard { stock, ..Shard::default() }, Shard::default()],
            caches: [None; ROUTERS],
            buys: [Request::Asks { tries: 0 }; BUYERS],
            payment: Request::Asks { tries: 0 },
            movers: [None; 2],
            deaths: 0,
            has_slept: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        // The likeliest ones first: a state is no end as soon as one of them is possible.
        actions.extend((0..2).flat_map(|mover| [Action::Move(mover), Action::GiveUp(mover)]));
        actions.extend((0..BUYERS).flat_map(|buyer| [Action::Route(buyer), Action::Buy(buyer)]));
        actions.extend([Action::RoutePayment, Action::Pay, Action::Start]);
        actions.extend([Action::Die, Action::FallAsleep]);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let is_possible = match action {
            Action::Route(buyer) => {
                let routed = state.route(state.buys[buyer], buyer);
                routed.map(|routed| state.buys[buyer] = routed).is_some()
            }
            Action::RoutePayment => {
                let routed = state.route(state.payment, 1);
                // Nobody pays for an order that was not acknowledged.
                let is_bought = state.buys[0] == Request::Acknowledged;
                routed.filter(|_| is_bought).map(|routed| state.payment = routed).is_some()
            }
            Action::Buy(buyer) => state.buy(self.0, buyer),
            Action::Pay => state.pay(self.0),
            Action::Start => state.start(),
            Action::Move(mover) => state.advance(self.0, mover),
            Action::GiveUp(mover) => state.give_up(mover),
            Action::Die => state.die(false),
            Action::FallAsleep => state.die(true),
        };
        is_possible.then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOT_OVERSOLD, |_, state: &State| {
                state.acknowledged() <= usize::from(STOCK)
            }),
            Property::always(NOTHING_LOST, |_, state: &State| state.has_all_acknowledged()),
            Property::always(ONE_WRITER, |_, state: &State| {
                !(state.takes_writes(0) && state.takes_writes(1))
            }),
            Property::always(OPEN_ONCE, |model: &Self, state: &State| {
                state.is_open_once() || !is_end(model, state)
            }),
            Property::sometimes("sells in the new shard", |_, state: &State| {
                state.home.shard == TARGET && state.shards[TARGET].orders[1].is_some()
            }),
            Property::sometimes("an order is paid after the move", |_, state: &State| {
                state.payment == Request::Acknowledged && state.home.shard == TARGET
            }),
            Property::sometimes(
                "a second move succeeds after one was given up",
                |_, state: &State| {
                    state.home == Route { shard: TARGET, epoch: 3 } && state.is_settled()
                },
            ),
            Property::sometimes("a mover wakes up after the flip", |_, state: &State| {
                state.home.shard == TARGET && state.movers[1].is_some()
            }),
        ]
    }
}

//! Model of the lock `token` on Redis: lease, fence, queue, hand-over between and inside processes, and a
//! failover that may forget the last writes. It describes `crates/leaselock/src`.
//!
//! One name. The model has two bounds: [`two_processes`], of which the first has two clients, with two
//! faults; and [`three_processes`] with a client each and one fault, where two wait at once. Time goes in
//! ticks, and a lease has [`LEASE`]. A script is one action (Redis runs one at a time); its messages and
//! the writes that a holder begins arrive later, in any order. For the faults see [`Action`].
//!
//! Assumes: clocks run at the same speed, the server's clock is not set back, the ledger checks a
//! fence in the transaction of the write (`crates/ledger/src/write/fence.rs`).

mod steps;
mod symmetry;

use stateright::{Model, Property};

use crate::check::is_end;

/// Processes at most.
const PROCESSES: u8 = 3;
/// Ticks of a lease.
const LEASE: u8 = 2;
/// Ticks after which time stands still.
const TIME_MAX: u8 = 3;

/// A planted mistake, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A release grants first, and takes an answer 0 of PUBLISH for "this process has gone".
    GrantOnPublishCount,
    /// The ledger accepts a write whatever its fence is.
    NoFence,
    /// The next fence is the counter's next number, not at least the clock.
    FenceFromCounterAlone,
    /// A waiter that is in the queue waits for a message and never asks again.
    NoRecheck,
    /// The lease of a grant counts from its arrival, not from the attempt before it.
    LeaseFromArrival,
    /// A grant that answers an older attempt is accepted.
    OldGrantAccepted,
    /// The next client of the process gets the fence of the one before.
    SameFenceHandedOver,
    /// A release looks at the head of the queue alone. When that one does not listen, nobody is granted.
    OnlyTheHead,
}

/// What the model tries, and no more.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// Clients of each process.
    clients: [u8; PROCESSES as usize],
    /// Attempts of a process at a lock that another one holds.
    refusals_max: u8,
    /// Whether the first process renews its lease, once.
    renews: bool,
    /// Faults on one path.
    faults: u8,
    /// Whether all processes are alike, so that one order of them stands for all.
    is_symmetric: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Lock {
    mistake: Option<Mistake>,
    bound: Bound,
}

/// Two processes, of which the first has two clients and renews; two faults.
#[must_use]
pub fn two_processes(mistake: Option<Mistake>) -> Lock {
    let clients = [2, 1, 0];
    let bound = Bound { clients, refusals_max: 2, renews: true, faults: 2, is_symmetric: false };
    Lock { mistake, bound }
}

/// Three processes with a client each; one fault.
#[must_use]
pub fn three_processes(mistake: Option<Mistake>) -> Lock {
    let clients = [1, 1, 1];
    let bound = Bound { clients, refusals_max: 2, renews: false, faults: 1, is_symmetric: true };
    Lock { mistake, bound }
}

/// Guards in the order in which they may write: the grant's number, and the hand-overs since.
pub type Turn = (u8, u8);

/// What a Redis knows of the lock.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct Server {
    hold: Option<Hold>,
    /// The waiters in order of arrival.
    queue: Vec<Waiter>,
    /// The last fence.
    counter: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
struct Hold {
    token: u8,
    grant: u8,
    /// The first of two fences.
    fence: u8,
    until: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
struct Waiter {
    token: u8,
    attempt: u8,
    /// The node on whose channel it is told.
    node: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Idle,
    Waits {
        sent_at: u8,
    },
    Holds {
        turn: Turn,
        fence: u8,
        deadline: u8,
        has_written: bool,
        has_renewed: bool,
    },
    /// Served, or dead.
    Over,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Process {
    phase: Phase,
    /// Clients that were not served yet.
    clients: u8,
    token: u8,
    attempt: u8,
    /// The node whose channel it hears.
    hears: Option<u8>,
}

/// A state of everything.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    now: u8,
    /// Grants so far.
    grants: u8,
    /// The node that is the primary.
    node: u8,
    primary: Server,
    /// The replica, which has not received the last script's write.
    replica: Server,
    faults: u8,
    /// Whether the failover forgot a live hold.
    forgot: bool,
    processes: [Process; PROCESSES as usize],
    /// Messages on their way.
    grants_told: Vec<(Waiter, Hold)>,
    /// Writes on their way, with their fences.
    writes: Vec<(Turn, u8)>,
    /// The last accepted write.
    accepted: Option<(Turn, u8)>,
    accepted_a_stale_one: bool,
}

/// One step. The last six are faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `core/acquire.rs`, `redis/token_acquire.lua`.
    Ask(u8),
    /// `redis/subscriber.rs`: a waiter receives a message.
    Receive(usize),
    /// `core/guard.rs`, `is_lost`, then a statement that may arrive at any later time.
    BeginWrite(u8),
    /// `crates/ledger/src/write/fence.rs`.
    WriteArrives(usize),
    /// `core/renewal.rs`, `redis/token_renew.lua`; the first process does, once.
    Renew(u8),
    /// `core/hand_over.rs`, else `redis/token_release.lua`.
    Release(u8),
    /// Time passes.
    Tick,
    /// The replica becomes the primary, in step or without the last write.
    Failover {
        /// Whether it has missed the last write.
        forgets: bool,
    },
    /// The server ran the script; its answer is lost, and so is the subscription.
    AskUnanswered(u8),
    /// A message is lost.
    LoseMessage(usize),
    /// The connection for messages breaks.
    CutOff(u8),
    /// A process dies.
    Die(u8),
}

impl Model for Lock {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let process =
            |clients| Process { phase: Phase::Idle, clients, token: 0, attempt: 0, hears: Some(0) };
        // One that the bound does not have.
        let none = Process { phase: Phase::Over, clients: 0, token: 0, attempt: 0, hears: None };
        vec![State {
            now: 0,
            grants: 0,
            node: 0,
            primary: Server::default(),
            replica: Server::default(),
            faults: 0,
            forgot: false,
            processes: self.bound.clients.map(|clients| match clients {
                0 => none.clone(),
                _ => process(clients),
            }),
            grants_told: Vec::new(),
            writes: Vec::new(),
            accepted: None,
            accepted_a_stale_one: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        use Action::{Ask, AskUnanswered, BeginWrite, CutOff, Die, Release, Renew};
        // Those that are plainly impossible are left out, since trying one costs a copy of the state.
        let may_fail = state.faults < self.bound.faults;
        for (process, one) in (0..PROCESSES).zip(&state.processes) {
            match one.phase {
                Phase::Idle | Phase::Waits { .. } => {
                    actions.push(Ask(process));
                    actions.extend(may_fail.then_some(AskUnanswered(process)));
                }
                Phase::Holds { .. } => {
                    actions.extend([Release(process), BeginWrite(process), Renew(process)]);
                }
                Phase::Over => {}
            }
            if may_fail && one.phase != Phase::Over {
                actions.extend([CutOff(process), Die(process)]);
            }
        }
        actions.extend((0..state.grants_told.len()).map(Action::Receive));
        actions.extend((0..state.writes.len()).map(Action::WriteArrives));
        actions.extend((state.now < TIME_MAX).then_some(Action::Tick));
        if may_fail {
            actions.extend((0..state.grants_told.len()).map(Action::LoseMessage));
            actions.extend([true, false].map(|forgets| Action::Failover { forgets }));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        if !state.step(self, action) {
            return None;
        }
        // Here and not in the checker, whose search for the shortest path knows no symmetry.
        Some(if self.bound.is_symmetric { state.representative() } else { state })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONE_HOLDER, |_, state: &State| {
                state.forgot || state.live_holders() <= 1
            }),
            Property::always(NO_STALE_WRITE, |_, state: &State| !state.accepted_a_stale_one),
            Property::always(NO_WAKE_UP_LOST, |_, state: &State| !state.passed_a_waiter_by()),
            Property::always(NOBODY_STARVES, |model: &Self, state: &State| {
                state.live_hold().is_some() || state.all_over() || !is_end(model, state)
            }),
            Property::sometimes("two hold after a failover", |_, state: &State| {
                state.live_holders() > 1
            }),
            Property::sometimes("a stale write is refused", |_, state: &State| {
                let is_late = |(_, fence)| state.accepted.is_some_and(|(_, last)| fence < last);
                state.writes.iter().copied().any(is_late)
            }),
        ];
        if self.bound.clients.contains(&2) {
            properties.push(Property::sometimes(
                "a client hands over to the next one",
                |_, state: &State| {
                    let handed =
                        |one: &Process| matches!(one.phase, Phase::Holds { turn: (_, 1), .. });
                    state.processes.iter().any(handed)
                },
            ));
        }
        if !self.bound.clients.contains(&0) {
            properties.push(Property::sometimes(
                "two processes wait in the queue",
                |_, state: &State| state.primary.queue.len() == 2,
            ));
        }
        properties
    }
}

/// At most one process believes in a live lease, unless a failover forgot one.
pub const ONE_HOLDER: &str = "at most one holder believes in a live lease";
/// No write is accepted after one of a later guard, whatever happens.
pub const NO_STALE_WRITE: &str = "no write with a stale fence is accepted";
/// A release leaves the lock free only if no waiter hears the server.
pub const NO_WAKE_UP_LOST: &str = "a release passes no listening waiter by";
/// No path ends with a waiter and a free lock.
pub const NOBODY_STARVES: &str = "nobody waits for ever for a free lock";

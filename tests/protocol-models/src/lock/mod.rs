//! Model of the lock `token` on Redis: lease, fence, queue, hand-over between and inside processes, and a
//! failover that may forget the last writes. It describes `crates/leaselock/src`.
//!
//! One name. The model has two bounds: [`two_processes`], of which the first has two clients, with two
//! faults; and [`three_processes`] with a client each and one fault, where two wait at once. Time goes in
//! ticks, and a lease has [`LEASE`]. A script is one action (Redis runs one at a time); its messages and
//! the writes that a holder begins arrive later, in any order. For the faults see [`Action`].
//!
//! Assumes: clocks run at the same speed, the server's clock is not set back, the ledger checks a
//! fence in the transaction of the write (`crates/ledger/src/write/new_order.rs`).

#[cfg(feature = "checker")]
mod checked;
pub mod replay;
mod steps;
mod symmetry;

/// Processes at most.
const PROCESSES: u8 = 3;
/// Ticks of a lease, where all states are searched.
const LEASE: Number = 2;
/// Ticks after which time stands still there.
const TIME_MAX: Number = 3;
/// Tokens of a process.
const TOKENS: Number = 256;

/// A moment, a fence, a token, or how many of something. As wide as the trace of a run needs it.
type Number = u16;

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
    /// Ticks of a lease.
    lease: Number,
    /// Fences of a grant.
    fences: Number,
    /// Attempts of a process at a lock that another one holds.
    refusals_max: Number,
    /// Whether the first process renews its lease, once.
    renews: bool,
    /// Faults on one path.
    faults: u8,
    /// Whether all processes are alike, so that one order of them stands for all.
    is_symmetric: bool,
}

/// What the bounds share in which all states are searched.
const SMALL: Bound = Bound {
    clients: [0; PROCESSES as usize],
    lease: LEASE,
    fences: 2,
    refusals_max: 2,
    renews: false,
    faults: 0,
    is_symmetric: false,
};

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
    Lock { mistake, bound: Bound { clients, renews: true, faults: 2, ..SMALL } }
}

/// Three processes with a client each; one fault.
#[must_use]
pub fn three_processes(mistake: Option<Mistake>) -> Lock {
    let clients = [1, 1, 1];
    Lock { mistake, bound: Bound { clients, faults: 1, is_symmetric: true, ..SMALL } }
}

/// Guards in the order in which they may write: the grant's number, and the hand-overs since.
pub type Turn = (Number, Number);

/// What a Redis knows of the lock.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct Server {
    hold: Option<Hold>,
    /// The waiters in order of arrival.
    queue: Vec<Waiter>,
    /// The last fence.
    counter: Number,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
struct Hold {
    token: Number,
    grant: Number,
    /// The first of its fences.
    fence: Number,
    until: Number,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
struct Waiter {
    token: Number,
    attempt: Number,
    /// The node on whose channel it is told.
    node: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Idle,
    Waits {
        sent_at: Number,
    },
    Holds {
        turn: Turn,
        fence: Number,
        deadline: Number,
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
    token: Number,
    attempt: Number,
    /// The node whose channel it hears.
    hears: Option<u8>,
}

/// A state of everything.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    now: Number,
    /// Grants so far.
    grants: Number,
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
    writes: Vec<(Turn, Number)>,
    /// The last accepted write.
    accepted: Option<(Turn, Number)>,
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
    /// `crates/ledger/src/write/new_order.rs`.
    WriteArrives(usize),
    /// `core/renewal.rs`, `redis/token_renew.lua`; the first process does, once.
    Renew(u8),
    /// `core/guard.rs`, else `redis/token_release.lua`.
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

impl Lock {
    /// The state in which nobody has asked yet.
    fn first_state(&self) -> State {
        let process =
            |clients| Process { phase: Phase::Idle, clients, token: 0, attempt: 0, hears: Some(0) };
        // One that the bound does not have.
        let none = Process { phase: Phase::Over, clients: 0, token: 0, attempt: 0, hears: None };
        State {
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
        }
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

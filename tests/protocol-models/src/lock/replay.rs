//! A run of the real lock as a path of the model, by the events of `crates/leaselock/src/core/stats.rs`.
//!
//! A command is said twice: when it is sent, and when it is answered. The server runs it at some moment between: that is
//! the silent step, and all orders of the commands that are under way are tried. The values bind the path to the run:
//! a fence is the server's clock when the lock was granted, and a lease counts from when its attempt was sent.
//!
//! The numbers of the model's time, fences and tokens are wide enough for one name in a test. Not replayed: failovers, and
//! a command that the server runs after its sender has given it up.

use std::collections::{BTreeMap, HashMap};

use super::steps::owner;
use super::{Action, Bound, Lock, Number, PROCESSES, Phase, SMALL, State, TOKENS};
use crate::trace::{Event, Explained, Replay, Unexplained, replay};

/// Ticks of a lease in a run: its hundredth is as exact as the margin that a client keeps.
const LEASE: Number = 100;
/// How far the clock of a server and that of the recorder, on one machine, are apart.
const CLOCKS_APART_US: u64 = 5_000;
/// Grants whose fences are remembered.
const GRANTS_KEPT: Number = 8;

/// Replays the events of each name.
///
/// # Errors
/// The first event of a name that no step of the model fits.
pub fn explain(events: &[Event]) -> Result<Explained, Box<Unexplained>> {
    let mut by_name: BTreeMap<&str, Vec<Event>> = BTreeMap::new();
    for event in events {
        by_name.entry(event.text("name")).or_default().push(event.clone());
    }
    let mut all = Explained::default();
    for events in by_name.values() {
        let Explained { events, states_max } = explain_name(events)?;
        all.events += events;
        all.states_max = all.states_max.max(states_max);
    }
    Ok(all)
}

fn explain_name(events: &[Event]) -> Result<Explained, Box<Unexplained>> {
    let largest = |name: &str| events.iter().map(|one| one.number(name)).max().unwrap_or(0);
    let fences = Number::try_from(largest("fences")).unwrap_or(Number::MAX).max(1);
    let grants = events.iter().filter(|one| one.what() == "ask" || one.what() == "release").count();
    assert!(
        grants * usize::from(fences) < usize::from(Number::MAX),
        "a name with {grants} commands is too long for the model's numbers"
    );
    let bound = Bound { clients: [1; PROCESSES as usize], lease: LEASE, fences, ..SMALL };
    let bound = Bound { refusals_max: Number::MAX, renews: true, faults: u8::MAX, ..bound };
    let rules = Rules {
        model: Lock { mistake: None, bound },
        start_us: events.first().map_or(0, |event| event.at_us),
        tick_us: (largest("lease_ms") * 1_000 / u64::from(LEASE)).max(1),
        processes: Vec::new(),
        tokens: HashMap::new(),
    };
    let state = rules.model.first_state();
    replay(rules, Path { state, sent: Vec::new(), minted: Vec::new() }, events)
}

/// A state of the model, and what binds it to the run.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Path {
    state: State,
    /// Commands that are not answered yet.
    sent: Vec<Sent>,
    minted: Vec<Minted>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Command {
    Ask { listens: bool },
    Release,
    Renew,
    Die,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Sent {
    token: Number,
    command: Command,
    at_us: u64,
    /// The server's answer, once it has run the command.
    answer: Option<bool>,
}

/// A grant of the model, and its real fences once they are seen.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Minted {
    grant: Number,
    /// When the command was sent that minted it, and until when the server has run it.
    from_us: u64,
    to_us: u64,
    first: Option<u64>,
    fences: u64,
}

struct Rules {
    model: Lock,
    start_us: u64,
    tick_us: u64,
    /// The names of the processes in the order of their first events.
    processes: Vec<String>,
    tokens: HashMap<String, Number>,
}

impl Replay for Rules {
    type Path = Path;

    fn next(&mut self, path: &Path, event: &Event) -> Vec<Path> {
        if event.what() == "write" {
            return self.writes(path, event).into_iter().collect();
        }
        let Some(token) = self.token(event) else { return Vec::new() };
        let mut next: Vec<Path> = match event.what() {
            "ask" => self.asks(path, event, token).into_iter().collect(),
            "release" => vec![gives_up(path, event, token)],
            "renew" => vec![path.with(token, Command::Renew, event)],
            "dies" => vec![path.with(token, Command::Die, event)],
            "handed" => self.handed(path, event, token).into_iter().collect(),
            "lost" => {
                let mut path = path.clone();
                path.end_lease(token);
                vec![path]
            }
            _ => {
                let reachable = self.reachable(path, event.at_us);
                reachable.iter().flat_map(|path| self.answered(path, event, token)).collect()
            }
        };
        next.iter_mut().for_each(Path::forget);
        next
    }
}

impl Rules {
    /// The model's name of a token; a new one has the next number of its process. A write to the store has none.
    fn token(&mut self, event: &Event) -> Option<Number> {
        if event.what() == "wrote" {
            return Some(0);
        }
        if let Some(token) = self.tokens.get(event.text("token")) {
            return Some(*token);
        }
        let process = event.text("process");
        let known = self.processes.iter().position(|one| one == process);
        let number = known.unwrap_or(self.processes.len());
        if known.is_none() {
            self.processes.push(process.to_owned());
        }
        let number = Number::try_from(number).ok().filter(|one| *one < Number::from(PROCESSES))?;
        let of_process = self.tokens.values().filter(|one| **one / TOKENS == number).count();
        let next = Number::try_from(of_process).ok()? % (TOKENS - 1) + 1;
        let token = number * TOKENS + next;
        self.tokens.insert(event.text("token").to_owned(), token);
        Some(token)
    }

    fn tick(&self, at_us: u64) -> Number {
        let ticks = at_us.saturating_sub(self.start_us) / self.tick_us;
        Number::try_from(ticks + 1).unwrap_or(Number::MAX)
    }

    /// A process that holds, for all that it knows, does not ask for another hold.
    fn asks(&self, path: &Path, event: &Event, token: Number) -> Option<Path> {
        let listens = event.flag("listens")?;
        let mut path = path.with(token, Command::Ask { listens }, event);
        let is_over = |deadline: Number| deadline <= self.tick(event.at_us) + 1;
        let process = path.state.process(owner(token));
        if process.token != token {
            match process.phase {
                Phase::Holds { deadline, .. } if !is_over(deadline) => return None,
                _ => process.phase = Phase::Idle,
            }
            process.clients = u8::try_from(token % TOKENS).ok()?;
        }
        Some(path)
    }

    /// The hold went to the next client of its process, with one of its further fences.
    fn handed(&self, path: &Path, event: &Event, token: Number) -> Option<Path> {
        let mut path = path.clone();
        let fence = event.number("fence");
        let mut last = path.fence_of(token)?;
        let minted = path.minted_of(token)?;
        let end = minted.first? + minted.fences;
        if fence <= last || fence >= end {
            return None;
        }
        // A client that went away when it was its turn has used one up.
        while last < fence {
            path.state.hand_over(&self.model, owner(token));
            last += 1;
        }
        Some(path)
    }

    /// A holder begins to write: with its own fence, and in the time of its lease.
    fn writes(&self, path: &Path, event: &Event) -> Option<Path> {
        let mut path = path.clone();
        let mut tokens = path.state.processes.each_ref().map(|one| one.token).into_iter();
        let token = tokens.find(|one| path.fence_of(*one) == Some(event.number("fence")))?;
        let process = path.state.process(owner(token));
        let Phase::Holds { deadline, has_written, .. } = &mut process.phase else { return None };
        *has_written = false;
        let is_in_time = self.tick(event.at_us) <= *deadline;
        (is_in_time && path.state.begin_write(owner(token))).then_some(path)
    }

    /// All states that the commands under way can lead to.
    fn reachable(&self, path: &Path, at_us: u64) -> Vec<Path> {
        let mut all = vec![path.clone()];
        let mut done = 0;
        while let Some(path) = all.get(done).cloned() {
            let open = (0..path.sent.len()).filter(|index| path.sent[*index].answer.is_none());
            for next in open.flat_map(|index| self.run(&path, index, at_us)) {
                if !all.contains(&next) {
                    all.push(next);
                }
            }
            done += 1;
        }
        all
    }

    /// The server runs a command. Near the end of a lease both sides of it are tried.
    fn run(&self, path: &Path, index: usize, at_us: u64) -> Vec<Path> {
        let from = self.tick(path.sent[index].at_us).saturating_sub(1);
        let to = self.tick(at_us);
        let until = path.state.primary.hold.map(|hold| hold.until);
        let is_near = until.is_some_and(|until| (from..=to + 2).contains(&until));
        let mut moments = if is_near { vec![from, to, to + 1] } else { vec![to] };
        moments.iter_mut().for_each(|moment| *moment = path.state.now.max(*moment));
        moments.dedup();
        let run = |moment| {
            let mut path = path.clone();
            path.state.now = moment;
            self.run_now(&mut path, index, at_us);
            path
        };
        moments.into_iter().map(run).collect()
    }

    fn run_now(&self, path: &mut Path, index: usize, at_us: u64) {
        let Sent { token, command, at_us: from_us, .. } = path.sent[index];
        let grants = path.state.grants;
        let answer = match command {
            Command::Ask { listens } => {
                let process = path.state.process(owner(token));
                process.hears = listens.then_some(0);
                let sent_at = self.tick(from_us);
                path.state.ask(&self.model, owner(token), sent_at, true)
                    && matches!(path.state.process(owner(token)).phase, Phase::Holds { .. })
            }
            Command::Release => path.state.give_back(&self.model, token),
            Command::Renew => path.state.prolong(&self.model, token),
            Command::Die => {
                let process = path.state.process(owner(token));
                process.phase = Phase::Over;
                process.hears = None;
                true
            }
        };
        path.sent[index].answer = Some(answer);
        if path.state.grants > grants {
            let grant = path.state.grants;
            path.minted.push(Minted { grant, from_us, to_us: at_us, first: None, fences: 0 });
        }
    }

    /// The paths on which a command was answered so.
    fn answered(&self, path: &Path, event: &Event, token: Number) -> Vec<Path> {
        match event.what() {
            "refused" => path.without(token, is_ask, Some(false)).into_iter().collect(),
            "holds" => self.holds(path, event, token),
            "unanswered" => vec![path.unanswered(token)],
            "released" => path.without(token, is_release, event.flag("ok")).into_iter().collect(),
            "renewed" => self.renewed(path, event, token).into_iter().collect(),
            "wrote" => self.wrote(path, event).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The lock was granted, by the answer to an attempt or else by a message.
    fn holds(&self, path: &Path, event: &Event, token: Number) -> Vec<Path> {
        let mut granted: Vec<Path> = Vec::new();
        if path.find(token, is_ask).is_some() {
            granted.extend(path.without(token, is_ask, Some(true)));
        } else {
            let messages = path.state.grants_told.iter().enumerate();
            for (index, _) in messages.filter(|(_, (waiter, _))| waiter.token == token) {
                let now = self.tick(event.at_us);
                for moment in [now, now.saturating_sub(1)] {
                    let mut path = path.clone();
                    path.state.now = path.state.now.max(moment);
                    path.state.receive(&self.model, index);
                    let phase = path.state.process(owner(token)).phase;
                    granted.extend(matches!(phase, Phase::Holds { .. }).then_some(path));
                }
            }
        }
        granted.retain_mut(|path| self.binds(path, event, token).is_some());
        granted
    }

    /// Whether the fence and the deadline are those of the model's grant.
    fn binds(&self, path: &mut Path, event: &Event, token: Number) -> Option<()> {
        let fence = event.number("fence");
        let Phase::Holds { turn, deadline, .. } = path.state.process(owner(token)).phase else {
            return None;
        };
        let ends_us = event.at_us + event.number("left_us");
        if ends_us > self.start_us + u64::from(deadline + 1) * self.tick_us {
            return None;
        }
        let last = |one: &Minted| one.first.map(|first| first + one.fences - 1);
        let of_earlier = path.minted.iter().filter(|one| one.grant < turn.0).filter_map(last);
        let highest = of_earlier.max().unwrap_or(0);
        let minted = path.minted.iter_mut().find(|one| one.grant == turn.0)?;
        // The server's clock when it ran the command, or the next number if the counter was ahead of it.
        let is_late_enough = fence > highest && fence + CLOCKS_APART_US >= minted.from_us;
        let is_early_enough = fence <= minted.to_us + CLOCKS_APART_US || fence == highest + 1;
        let is_new = minted.first.is_none() && is_late_enough && is_early_enough;
        if is_new {
            minted.first = Some(fence);
            // Paths that differ in them alone are one from now on.
            minted.from_us = 0;
            minted.to_us = 0;
            minted.fences = event.number("fences");
        }
        (minted.first == Some(fence)).then_some(())
    }

    fn renewed(&self, path: &Path, event: &Event, token: Number) -> Option<Path> {
        let sent_us = path.find(token, is_renewal).map(|index| path.sent[index].at_us)?;
        let ok = event.flag("ok");
        let mut path = path.without(token, is_renewal, ok)?;
        let until = self.tick(sent_us) + self.model.bound.lease;
        let process = path.state.process(owner(token));
        match (&mut process.phase, ok) {
            (Phase::Holds { deadline, .. }, Some(true)) if process.token == token => {
                *deadline = until.max(*deadline);
            }
            (_, Some(false)) => path.end_lease(token),
            _ => {}
        }
        Some(path)
    }

    /// A write has come to the store, which has compared its fence.
    fn wrote(&self, path: &Path, event: &Event) -> Option<Path> {
        let fence = event.number("fence");
        let is_it = |turn: &(Number, Number)| {
            let minted = path.minted.iter().find(|one| one.grant == turn.0);
            minted.and_then(|one| one.first) == fence.checked_sub(u64::from(turn.1))
        };
        let index = path.state.writes.iter().position(|(turn, _)| is_it(turn))?;
        let write = path.state.writes[index];
        let mut path = path.clone();
        path.state.step(&self.model, Action::WriteArrives(index));
        (event.flag("ok") == Some(path.state.accepted == Some(write))).then_some(path)
    }
}

fn is_ask(command: Command) -> bool {
    matches!(command, Command::Ask { .. })
}

fn is_release(command: Command) -> bool {
    command == Command::Release
}

fn is_renewal(command: Command) -> bool {
    command == Command::Renew
}

/// A process gives a hold back, or leaves the queue.
fn gives_up(path: &Path, event: &Event, token: Number) -> Path {
    let mut path = path.with(token, Command::Release, event);
    let process = path.state.process(owner(token));
    if process.token == token && process.phase != Phase::Over {
        process.phase = Phase::Idle;
    }
    path
}

impl Path {
    /// A command is under way.
    fn with(&self, token: Number, command: Command, event: &Event) -> Self {
        let mut path = self.clone();
        path.sent.push(Sent { token, command, at_us: event.at_us, answer: None });
        path
    }

    /// The first command of a kind that is not answered.
    fn find(&self, token: Number, is: fn(Command) -> bool) -> Option<usize> {
        self.sent.iter().position(|one| one.token == token && is(one.command))
    }

    /// Takes a command that the server has answered so. Without an answer it may have run it or not.
    fn without(&self, token: Number, is: fn(Command) -> bool, ok: Option<bool>) -> Option<Self> {
        let index = self.find(token, is)?;
        let mut path = self.clone();
        let sent = path.sent.remove(index);
        (ok.is_none() || sent.answer == ok).then_some(path)
    }

    /// The attempt was not answered; it may have been granted.
    fn unanswered(&self, token: Number) -> Self {
        let mut path = self.without(token, is_ask, None).unwrap_or_else(|| self.clone());
        let process = path.state.process(owner(token));
        process.hears = None;
        if let Phase::Holds { .. } = process.phase {
            process.phase = Phase::Waits { sent_at: 0 };
        }
        path
    }

    fn end_lease(&mut self, token: Number) {
        let now = self.state.now;
        let process = self.state.process(owner(token));
        if process.token == token {
            process.end_lease(now);
        }
    }

    fn minted_of(&mut self, token: Number) -> Option<Minted> {
        let process = self.state.process(owner(token));
        let Phase::Holds { turn, .. } = process.phase else { return None };
        let is_own = process.token == token;
        self.minted.iter().find(|one| is_own && one.grant == turn.0).copied()
    }

    /// The real fence of the client that holds now.
    fn fence_of(&mut self, token: Number) -> Option<u64> {
        let first = self.minted_of(token)?.first?;
        match self.state.process(owner(token)).phase {
            Phase::Holds { turn, .. } => Some(first + u64::from(turn.1)),
            _ => None,
        }
    }

    /// Leaves out what has no effect any more.
    fn forget(&mut self) {
        self.sent.retain(|one| one.command != Command::Die || one.answer.is_none());
        let newest = self.state.grants;
        let State { primary, grants_told, processes, .. } = &self.state;
        let is_used = |grant: Number| {
            let holds =
                |phase: Phase| matches!(phase, Phase::Holds { turn, .. } if turn.0 == grant);
            primary.hold.is_some_and(|hold| hold.grant == grant)
                || grants_told.iter().any(|(_, hold)| hold.grant == grant)
                || processes.iter().any(|process| holds(process.phase))
        };
        self.minted.retain(|one| {
            one.grant + GRANTS_KEPT > newest && (one.first.is_some() || is_used(one.grant))
        });
        let processes = &self.state.processes;
        self.state.grants_told.retain(|(waiter, _)| {
            let process = &processes[usize::from(owner(waiter.token))];
            let is_last = process.token == waiter.token && process.attempt == waiter.attempt;
            is_last && matches!(process.phase, Phase::Waits { .. })
        });
    }
}

//! A run of the real batches as a path of the model, by the events of `crates/ledger/src/write/protocol.rs`.
//!
//! A transaction says which of its rows it has locked, and when its COMMIT is sent and answered. The ledger carries a
//! COMMIT out at some moment between, and runs an order's call at some moment before its end: those are the silent steps.
//! Until it says so, a transaction has locked nothing: no other one can tell, because its own next event comes later.
//!
//! What a run does and the states that are searched do not: any of the orders that wait may be in a batch, which may look
//! at the ledger before its first try; an order may
//! be written by itself at once; and a transaction may be rolled back for no reason of its rows.

mod each;

use std::collections::{HashMap, HashSet};

use super::waits::rows_of;
use super::{Answer, Batch, Kind, LINES, Place, RowLock, State, Step, Transaction, lines_of};
use crate::trace::{Event, Explained, Replay, Unexplained, replay};
pub use each::{EachOrder, explain_each};

/// The lines of the model's orders, which a run has to write: of which order, item, buyer and instance each is.
#[must_use]
pub fn lines() -> Vec<[usize; 4]> {
    let values =
        |line: super::Line| [line.order.into(), line.item.into(), line.buyer.into(), line.instance];
    LINES.map(values).into()
}

/// The units of the two items.
#[must_use]
pub fn stock() -> [u8; 2] {
    super::STOCK
}

/// Replays the events of one round, in which the orders of [`lines`] were written. `names` has the names of the lines.
///
/// # Errors
/// The first event that no step of the model fits.
pub fn explain(events: &[Event], names: &[String]) -> Result<Explained, Box<Unexplained>> {
    let number = |(line, name): (usize, &String)| (name.clone(), line);
    let rules = Rules { names: names.iter().enumerate().map(number).collect() };
    let mut events = events.to_vec();
    // At last every order is answered, and what must always hold does.
    let mut end = Event::default();
    end.fields.insert("what".to_owned(), "end".to_owned());
    events.push(end);
    replay(rules, Path::first(), &events)
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Path {
    state: State,
    /// The lines that are written by themselves now, of whose transactions only the end is said.
    calls: Vec<usize>,
    /// Looks that are not answered yet.
    looks: Vec<Look>,
    /// The lines in the sequence in which batches took them.
    sequence: Vec<usize>,
    /// The lines of the order that is replayed without the others; empty where all orders are.
    alone: Vec<usize>,
    /// Whether a transaction may write this order that is not replayed.
    may_be_written: bool,
}

/// A look at the ledger: at which orders, and whether the ledger has answered it. It reads the orders and limits first,
/// the stock later.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Look {
    lines: Vec<usize>,
    /// What it has found of orders.
    rows: Option<[u8; LINES.len()]>,
    is_done: bool,
}

struct Rules {
    names: HashMap<String, usize>,
}

impl Replay for Rules {
    type Path = Path;

    fn next(&mut self, path: &Path, event: &Event) -> Vec<Path> {
        let Some(lines) = self.lines(event, "lines") else { return Vec::new() };
        let next = |paths: Vec<Path>| -> Vec<Path> {
            let after = paths.into_iter().filter_map(|path| self.after(path, event, &lines));
            after.map(Path::sorted).collect()
        };
        let usual = next(path.reachable(false));
        if usual.is_empty() { next(path.reachable(true)) } else { usual }
    }
}

impl Rules {
    /// The lines that an event names.
    fn lines(&self, event: &Event, field: &str) -> Option<Vec<usize>> {
        let names = event.text(field).split(',').filter(|name| !name.is_empty());
        names.map(|name| self.names.get(name).copied()).collect()
    }

    fn after(&self, mut path: Path, event: &Event, lines: &[usize]) -> Option<Path> {
        let is_possible = match event.what() {
            "begin" => path.begins(event.text("kind"), lines),
            "looks" => path.looks(lines),
            "looked" => {
                let refused = self.lines(event, "refused")?;
                let found = self.lines(event, "found")?;
                path.has_looked(lines, &refused, &found)
            }
            "keys" => path.locks(lines, |_| false, is_key),
            "limits" => path.locks(lines, is_key, is_no_stock),
            "turn" => path.takes_turn(lines),
            "stock" => path.locks(lines, is_no_stock, |_| true),
            "commit" => path.sends_commit(lines),
            "committed" => path.is_committed(lines),
            "commit lost" => path.loses_commit(lines),
            "call lost" => {
                path.may_be_written = true;
                path.loses_commit(lines)
            }
            "recovered" => path.recovers(lines, &self.lines(event, "written")?),
            "rolled back" => path.rolls_back(lines, event.flag("objected") == Some(true)),
            "overtaken" => path.is_overtaken(lines),
            "ended" => path.ends(lines, event.text("answer")),
            "told" => path.is_told(lines, event.text("answer")),
            "end" => path.is_at_its_end(),
            _ => false,
        };
        is_possible.then_some(path)
    }
}

fn is_key(row: &RowLock) -> bool {
    matches!(row, RowLock::Key { .. })
}

fn is_no_stock(row: &RowLock) -> bool {
    !matches!(row, RowLock::Stock(_))
}

fn answer_of(name: &str) -> Option<Answer> {
    match name {
        "sold" => Some(Answer::Sold),
        // Another order has its key.
        "refused" | "replayed" => Some(Answer::Refused),
        "unavailable" => Some(Answer::Unavailable),
        _ => None,
    }
}

impl Path {
    /// All orders wait.
    fn first() -> Self {
        Self {
            state: Batch { mistake: None, missing: None }.first_state(),
            calls: Vec::new(),
            looks: Vec::new(),
            sequence: Vec::new(),
            alone: Vec::new(),
            may_be_written: false,
        }
    }

    fn sorted(mut self) -> Self {
        self.state.transactions.sort_unstable();
        self
    }

    /// All states that the ledger can reach by itself: it carries out a COMMIT, answered or not, or an order's call. With
    /// `may_end` it may also have rolled back a transaction, whose writer does not know it yet.
    fn reachable(&self, may_end: bool) -> Vec<Self> {
        let mut all = vec![self.clone()];
        let mut seen: HashSet<Self> = all.iter().cloned().collect();
        let mut done = 0;
        while let Some(path) = all.get(done).cloned() {
            let mut next = path.others_write();
            for one in 0..path.state.transactions.len() {
                next.extend(path.silent(one));
                next.extend(if may_end { path.aborted(one) } else { None });
            }
            all.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
            done += 1;
        }
        all
    }

    fn silent(&self, one: usize) -> Vec<Self> {
        let transaction = &self.state.transactions[one];
        let is_call = transaction.lines.iter().any(|line| self.calls.contains(line));
        let with = |change: &dyn Fn(&mut State) -> bool| {
            let mut path = self.clone();
            change(&mut path.state).then(|| path.sorted())
        };
        match transaction.step {
            Step::Enters => {
                let mut early = self.clone();
                let has_read = early.reads_orders(one);
                let mut path = self.clone();
                let read = path.reads(one).then(|| path.sorted());
                read.into_iter().chain(has_read.then_some(early)).collect()
            }
            Step::Locks(_) if is_call => with(&|state| state.runs(one)).into_iter().collect(),
            Step::Commits => {
                let lost = |is_done| {
                    with(&|state| state.lose_answer(None, one) && state.decide(one, is_done))
                };
                let commit = with(&|state| state.commits(one));
                [commit, lost(true), lost(false)].into_iter().flatten().collect()
            }
            Step::Unanswered => {
                let decided =
                    [true, false].map(|is_done| with(&|state| state.decide(one, is_done)));
                decided.into_iter().flatten().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The ledger has ended a transaction by itself: it has waited too long, or in a circle.
    fn aborted(&self, one: usize) -> Option<Self> {
        let mut path = self.clone();
        let is_under_way =
            matches!(path.state.transactions[one].step, Step::Locks(locked) if locked > 0);
        path.state.transactions[one].retreat();
        is_under_way.then(|| path.sorted())
    }

    /// The transaction that has one of these lines before it.
    fn find(&self, lines: &[usize]) -> Option<usize> {
        let has = |all: &[usize]| lines.iter().any(|line| all.contains(line));
        self.state
            .transactions
            .iter()
            .position(|one| !one.is_abandoned && (has(&one.lines) || has(&one.passed_over)))
    }

    /// Whole orders, which nobody else writes.
    fn begins(&mut self, kind: &str, lines: &[usize]) -> bool {
        let is_answered = |line: &usize| matches!(self.state.places[*line], Place::Answered(_));
        if !self.alone.is_empty() && lines.iter().all(is_answered) {
            // A queue or a gate hands it over once more.
            self.begins_anew();
        }
        // What was left over belongs to its next transaction.
        self.leaves_over(lines);
        // A look that failed, or that passed this order over.
        self.looks.retain(|look| !look.lines.iter().any(|line| lines.contains(line)));
        let is_whole = |line: &usize| lines_of(*line).all(|other| lines.contains(&other));
        let instance = lines.first().map_or(0, |line| LINES[*line].instance);
        let is_own = |line: &usize| LINES[*line].instance == instance;
        let kind_of = match kind {
            "shared" => Kind::Shared,
            "own" => Kind::Own,
            _ => Kind::Single,
        };
        let has_room = kind_of != Kind::Shared || self.state.may_enter_rows(instance);
        let is_next = |line: &usize| self.waits(*line) && is_whole(line) && is_own(line);
        if !lines.iter().all(is_next) || !has_room {
            return false;
        }
        self.sequence.retain(|line| !lines.contains(line));
        self.sequence.extend(lines);
        if kind == "call" {
            self.calls.extend(lines);
        }
        self.state.begin(instance, kind_of, lines.to_vec())
    }

    fn waits(&self, line: usize) -> bool {
        matches!(self.state.places[line], Place::Shared | Place::Own | Place::Single)
    }

    /// Ends the transaction of these lines if it has nothing in the ledger.
    fn leaves_over(&mut self, lines: &[usize]) {
        if let Some(one) = self.find(lines)
            && matches!(self.state.transactions[one].step, Step::Enters | Step::Locks(0))
        {
            self.state.leave_over(None, one);
        }
    }

    /// A batch begins to look at the ledger, alone in its pipeline.
    fn looks(&mut self, lines: &[usize]) -> bool {
        let Some(one) = self.find(lines) else { return false };
        self.looks.retain(|look| !look.lines.iter().any(|line| lines.contains(line)));
        let Transaction { instance, step, .. } = self.state.transactions[one];
        // Another batch that has not begun to write waits for its own look.
        for other in &mut self.state.transactions {
            let waits = other.instance == instance && other.kind == Kind::Shared;
            if waits && matches!(other.step, Step::Enters | Step::Locks(0)) {
                other.step = Step::Enters;
                other.in_rows = false;
            }
        }
        let sequence = &self.sequence;
        let transaction = &mut self.state.transactions[one];
        transaction.step = Step::Enters;
        transaction.lines.sort_by_key(|line| sequence.iter().position(|one| one == line));
        let lines = transaction.lines.clone();
        self.looks.push(Look { lines, rows: None, is_done: false });
        matches!(step, Step::Enters | Step::Locks(0))
    }

    /// The ledger answers the first part of such a look.
    fn reads_orders(&mut self, one: usize) -> bool {
        let transaction = &self.state.transactions[one];
        let is_its = |look: &&mut Look| look.lines == transaction.lines && look.rows.is_none();
        let Some(look) = self.looks.iter_mut().find(is_its) else { return false };
        look.rows = Some(self.state.rows);
        true
    }

    /// The ledger answers such a look.
    fn reads(&mut self, one: usize) -> bool {
        let transaction = &self.state.transactions[one];
        let is_its = |look: &&mut Look| look.lines == transaction.lines && !look.is_done;
        let Some(look) = self.looks.iter_mut().find(is_its) else { return false };
        look.is_done = true;
        let rows = self.state.rows;
        self.state.rows = look.rows.unwrap_or(rows);
        let is_possible = self.state.enter(None, one);
        self.state.rows = rows;
        is_possible
    }

    /// The batch knows which of its orders it writes together, and which are refused.
    fn has_looked(&mut self, chosen: &[usize], refused: &[usize], found: &[usize]) -> bool {
        let asked = [chosen, refused, found].concat();
        let is_it = |look: &Look| asked.iter().any(|line| look.lines.contains(line));
        let Some(index) = self.looks.iter().position(is_it) else {
            // Orders that the batch has decided before are named again.
            return !self.alone.is_empty()
                && chosen.is_empty()
                && self.has_answered(refused, "refused")
                && self.has_answered(found, "sold");
        };
        if !self.looks[index].is_done {
            let Some(one) = self.find(&asked) else { return false };
            if !self.reads(one) {
                return false;
            }
        }
        let Look { lines, .. } = self.looks.remove(index);
        let is = |line: &&usize, is: Answer| self.state.places[**line] == Place::Answered(is);
        let has = |one: &Transaction, line: &usize| !one.is_abandoned && one.lines.contains(line);
        let are_chosen = |line: &&usize| self.state.transactions.iter().any(|one| has(one, line));
        let of_model: HashSet<&usize> = lines.iter().filter(are_chosen).collect();
        let refused_now: HashSet<&usize> =
            refused.iter().filter(|line| lines.contains(line)).collect();
        let refused_there = lines.iter().filter(|line| is(line, Answer::Refused)).collect();
        of_model == chosen.iter().collect()
            && refused_now == refused_there
            && found.iter().all(|line| is(&line, Answer::Sold))
    }

    /// A statement was answered: after the rows before its own, these are locked, and none of them objects.
    fn locks(
        &mut self,
        lines: &[usize],
        are_before: fn(&RowLock) -> bool,
        are: fn(&RowLock) -> bool,
    ) -> bool {
        let Some(one) = self.find(lines) else { return false };
        if self.looks.iter().any(|look| lines.iter().any(|line| look.lines.contains(line))) {
            return false;
        }
        let transaction = &mut self.state.transactions[one];
        if transaction.step == Step::Enters {
            // Tried again without a look, perhaps without some of its orders.
            let left = transaction.lines.extract_if(.., |line| !lines.contains(line));
            transaction.passed_over = left.collect();
            transaction.step = Step::Locks(0);
            transaction.in_rows = transaction.kind == Kind::Shared;
        }
        let own: HashSet<&usize> = transaction.lines.iter().collect();
        if own != lines.iter().collect() {
            return false;
        }
        let rows = rows_of(None, transaction, &self.state.keyless);
        let count = |are: fn(&RowLock) -> bool| rows.iter().filter(|row| are(row)).count();
        if transaction.step != Step::Locks(count(are_before)) {
            return false;
        }
        let count = count(are);
        self.state.locks(one, count)
    }

    fn takes_turn(&mut self, lines: &[usize]) -> bool {
        let Some(one) = self.find(lines) else { return false };
        let transaction = &self.state.transactions[one];
        let is_taken =
            transaction.kind != Kind::Shared || transaction.in_stock || transaction.is_overtaken;
        is_taken || (self.state.advance(None, one) && self.state.transactions[one].in_stock)
    }

    fn sends_commit(&mut self, lines: &[usize]) -> bool {
        let Some(one) = self.find(lines) else { return false };
        self.state.advance(None, one) && self.state.transactions[one].step == Step::Commits
    }

    fn is_committed(&mut self, lines: &[usize]) -> bool {
        if let Some(one) = self.find(lines)
            && self.state.transactions[one].step == Step::Commits
        {
            return self.state.commits(one);
        }
        self.has_answered(lines, "sold")
    }

    fn loses_commit(&mut self, lines: &[usize]) -> bool {
        if let Some(call) = lines.first().filter(|line| self.calls.contains(line)) {
            let Some(one) = self.find(&[*call]) else { return false };
            // The call may have run to its COMMIT, or to nothing.
            return self.state.transactions[one].step == Step::Locks(0)
                && self.state.locks(one, usize::MAX)
                && self.sends_commit(lines)
                && self.state.lose_answer(None, one);
        }
        let Some(one) = self.find(lines) else { return false };
        match self.state.transactions[one].step {
            Step::Commits => self.state.lose_answer(None, one),
            Step::Unanswered | Step::Decided => true,
            _ => false,
        }
    }

    /// The ledger was asked which orders of a lost COMMIT there are.
    fn recovers(&mut self, lines: &[usize], written: &[usize]) -> bool {
        if !self.alone.is_empty() && !self.awaits_commit(lines) {
            // The server that answered was replaced before its answer was told.
            self.begins_anew();
            for line in written {
                self.state.rows[*line] = 1;
                self.state.places[*line] = Place::Answered(Answer::Sold);
            }
            return true;
        }
        let Some(one) = self.find(lines) else { return false };
        let is_written = |line: &usize| self.state.rows[*line] > 0;
        let are_so = lines.iter().all(|line| is_written(line) == written.contains(line));
        self.calls.retain(|line| !lines.contains(line));
        are_so && self.state.recover(None, one)
    }

    /// Whether a COMMIT of these lines was sent, and its writer does not know what became of it.
    fn awaits_commit(&self, lines: &[usize]) -> bool {
        let step = self.find(lines).map(|one| self.state.transactions[one].step);
        matches!(step, Some(Step::Commits | Step::Unanswered | Step::Decided))
    }

    /// The transaction was rolled back, by a COMMIT that was refused as well. If a row objected, it does so in the model.
    fn rolls_back(&mut self, lines: &[usize], has_objected: bool) -> bool {
        let Some(one) = self.find(lines) else { return false };
        let transaction = &self.state.transactions[one];
        let rows = rows_of(None, transaction, &self.state.keyless);
        let has_reason = rows.iter().any(|row| self.state.objects(None, one, *row).is_some());
        let may_be = matches!(transaction.step, Step::Enters | Step::Locks(_) | Step::Commits);
        if !may_be || (has_objected && !has_reason) {
            return false;
        }
        self.state.transactions[one].retreat();
        self.calls.retain(|line| !lines.contains(line));
        true
    }

    fn is_overtaken(&mut self, lines: &[usize]) -> bool {
        // Of a batch, some orders may be decided already.
        let Some(one) = self.find(lines) else { return !self.alone.is_empty() };
        let transaction = &mut self.state.transactions[one];
        transaction.in_rows = false;
        transaction.in_stock = false;
        transaction.is_overtaken = true;
        true
    }

    /// An order that was written by itself is decided.
    fn ends(&mut self, lines: &[usize], answer: &str) -> bool {
        self.calls.retain(|line| !lines.contains(line));
        let Some(one) = self.find(lines) else { return self.has_answered(lines, answer) };
        match answer_of(answer) {
            Some(Answer::Unavailable) => {
                self.state.transactions[one].retreat();
                self.state.leave_over(None, one);
                lines.iter().for_each(|line| {
                    self.state.places[*line] = Place::Answered(Answer::Unavailable);
                });
                true
            }
            Some(_) => self.state.runs(one) && self.has_answered(lines, answer),
            None => {
                if !self.alone.is_empty() && self.awaits_commit(lines) {
                    self.begins_anew();
                }
                true
            }
        }
    }

    fn has_answered(&self, lines: &[usize], answer: &str) -> bool {
        let Some(answer) = answer_of(answer) else { return true };
        lines.iter().all(|line| self.state.places[*line] == Place::Answered(answer))
    }

    fn is_at_its_end(&self) -> bool {
        let is_answered = |place: &Place| matches!(place, Place::Answered(_));
        self.state.places.iter().all(is_answered)
            && self.state.stock_holds()
            && self.state.are_whole()
            && self.state.each_once()
            && self.state.refuses_for_a_reason()
    }
}

impl State {
    /// Locks rows of a transaction up to this number, or all.
    fn locks(&mut self, one: usize, count: usize) -> bool {
        loop {
            let transaction = &self.transactions[one];
            let Step::Locks(locked) = transaction.step else { return false };
            let all = rows_of(None, transaction, &self.keyless).len();
            if locked >= count.min(all) {
                return true;
            }
            let rows = self.transactions.len();
            if !self.advance(None, one) || self.transactions.len() < rows {
                return false;
            }
        }
    }

    fn commits(&mut self, one: usize) -> bool {
        self.step(None, super::Action::Commit(one))
    }

    /// An order's call: all its rows and COMMIT, unless one of them refuses it.
    fn runs(&mut self, one: usize) -> bool {
        loop {
            let count = self.transactions.len();
            if self.transactions[one].step == Step::Commits {
                return self.commits(one);
            }
            if !self.advance(None, one) {
                return false;
            }
            if self.transactions.len() < count {
                return true;
            }
        }
    }
}

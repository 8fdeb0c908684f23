//! A run of any orders, of which each is replayed by itself: a model of all orders of a shop would have too many states.
//!
//! An order with one line is that of the model, and one with more lines is the model's order with two. The other orders of
//! the run are left out: at any moment they may take the last unit, or give one back. So a refusal always has a reason,
//! and rows exclude nobody. What remains is the sequence of an order's own steps, whatever breaks beside it: which rows
//! come before which, that its lines stay together, that it is told what its COMMIT has decided, and that a lost COMMIT is
//! looked up before it is written again.
//!
//! The events of a process may break off anywhere. The same order may be written by another process.

use std::collections::{BTreeMap, BTreeSet};

use super::{Path, Rules, answer_of};
use crate::batch::{Answer, Place};
use crate::trace::{Event, Unexplained, replay};

/// The model's lines of an order with one line, and of one with more.
const SINGLE: &[usize] = &[1];
const SEVERAL: &[usize] = &[2, 3];
/// The values of an event that name lines.
const NAMING: [&str; 4] = ["lines", "refused", "found", "written"];
/// The length of what the ids of an order's lines share.
const SHARED_LENGTH: usize = 34;

/// What became of a run.
#[derive(Clone, Debug, Default)]
pub struct EachOrder {
    /// Events of all processes.
    pub events: usize,
    /// Events that a step of the model fits for each order that they name.
    pub explained: usize,
    /// Orders, each counted once for each process that has written it.
    pub orders: usize,
    /// The first event of an order that no step fits.
    pub unexplained: Option<Box<Unexplained>>,
}

/// Replays what each process of a run has said, order by order.
#[must_use]
pub fn explain_each(processes: &[Vec<Event>]) -> EachOrder {
    let by_process: Vec<BTreeMap<&str, BTreeSet<&str>>> =
        processes.iter().map(|events| lines_of_orders(events)).collect();
    let mut all = EachOrder::default();
    for (events, lines) in processes.iter().zip(&by_process) {
        let mut unexplained = BTreeSet::new();
        for (order, own) in of_orders(events, lines) {
            let is_elsewhere =
                by_process.iter().filter(|lines| lines.contains_key(order)).count() > 1;
            let model = if lines[order].len() == 1 { SINGLE } else { SEVERAL };
            let names = model.iter().enumerate().map(|(number, line)| (number.to_string(), *line));
            let rules = Rules { names: names.collect() };
            let first = Path::first_alone(model, is_elsewhere);
            let said: Vec<Event> = own.iter().map(|(_, event)| event.clone()).collect();
            if let Err(why) = replay(rules, first, &said) {
                unexplained.extend(own[why.number - 1..].iter().map(|(number, _)| *number));
                all.unexplained.get_or_insert(why);
            }
            all.orders += 1;
        }
        all.events += events.len();
        all.explained += events.len() - unexplained.len();
    }
    all
}

/// The names in a value.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|name| !name.is_empty())
}

/// What names the order of a line.
fn order_of(line: &str) -> &str {
    line.get(..SHARED_LENGTH).unwrap_or(line)
}

/// The lines of each order, sorted.
fn lines_of_orders(events: &[Event]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut lines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for event in events {
        for line in NAMING.iter().flat_map(move |field| names(event.text(field))) {
            lines.entry(order_of(line)).or_default().insert(line);
        }
    }
    lines
}

/// The events of each order, with their numbers, as if there were no other one.
fn of_orders<'a>(
    events: &'a [Event],
    lines: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> BTreeMap<&'a str, Vec<(usize, Event)>> {
    let mut orders: BTreeMap<&str, Vec<(usize, Event)>> = BTreeMap::new();
    for (number, event) in events.iter().enumerate() {
        for field in NAMING {
            let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for line in names(event.text(field)) {
                named.entry(order_of(line)).or_default().push(line);
            }
            for (order, some) in named {
                let own = orders.entry(order).or_default();
                if own.last().is_none_or(|(last, _)| *last != number) {
                    own.push((number, nameless(event, order)));
                }
                let text = in_model(&some, &lines[order], event.what() == "told");
                if let Some((_, event)) = own.last_mut() {
                    event.fields.insert(field.to_owned(), text);
                }
            }
        }
    }
    orders
}

/// The event without the names in it.
fn nameless(event: &Event, order: &str) -> Event {
    let fields = event.fields.iter().filter(|(name, _)| !NAMING.contains(&name.as_str()));
    let fields = fields.map(|(name, value)| (name.clone(), value.clone()));
    let order = ("order".to_owned(), order.to_owned());
    Event { at_us: event.at_us, fields: fields.chain([order]).collect() }
}

/// The names in the model of some lines of an order. Buyers are told line by line; elsewhere the lines stand together, or
/// one is missing.
fn in_model(some: &[&str], all: &BTreeSet<&str>, is_told: bool) -> String {
    if !is_told && some.len() < all.len() {
        return "0".to_owned();
    }
    let numbers = all.iter().enumerate().filter(|(_, line)| some.contains(line));
    // The third line and the next ones go the way of the second.
    let numbers: BTreeSet<usize> = numbers.map(|(number, _)| number.min(1)).collect();
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    numbers.join(",")
}

impl Path {
    /// The order with these lines waits, and no other one is replayed.
    fn first_alone(lines: &[usize], may_be_written: bool) -> Self {
        let mut path = Self { alone: lines.to_vec(), may_be_written, ..Self::first() };
        for (line, place) in path.state.places.iter_mut().enumerate() {
            if !lines.contains(&line) {
                *place = Place::Answered(Answer::Unavailable);
            }
        }
        path
    }

    /// Orders that are not replayed take the last units or give one back; a transaction that is not replayed writes this
    /// order.
    pub(super) fn others_write(&self) -> Vec<Self> {
        if self.alone.is_empty() {
            return Vec::new();
        }
        let mut paths = vec![self.clone(), self.clone()];
        paths[0].state.stock.fill(0);
        paths[1].state.stock.fill(1);
        if self.may_be_written {
            let mut path = self.clone();
            self.alone.iter().for_each(|line| path.state.rows[*line] = 1);
            paths.push(path);
        }
        paths
    }

    /// Nothing is known of the order that is replayed alone: its writer has gone, and may have written it.
    pub(super) fn begins_anew(&mut self) {
        self.state.transactions.clear();
        self.calls.clear();
        self.looks.clear();
        for line in &self.alone {
            self.state.rows[*line] = 0;
            self.state.places[*line] = Place::Single;
        }
        self.may_be_written = true;
    }

    /// The buyer is told. Beside orders that are not replayed, the time of this one may be over before it is written, and
    /// a transaction that is not replayed may have written it.
    pub(super) fn is_told(&mut self, lines: &[usize], answer: &str) -> bool {
        let known = answer_of(answer);
        if self.alone.is_empty() || (known.is_some() && self.has_answered(lines, answer)) {
            return self.has_answered(lines, answer);
        }
        match known {
            None => {
                self.begins_anew();
                true
            }
            Some(Answer::Sold) => {
                self.may_be_written && lines.iter().all(|line| self.state.rows[*line] > 0)
            }
            Some(Answer::Refused) => {
                let waits = lines.iter().all(|line| self.waits(*line));
                answer == "replayed" && (waits || self.may_be_written)
            }
            Some(Answer::Unavailable) => {
                self.leaves_over(lines);
                let have_waited = lines.iter().all(|line| self.waits(*line));
                for line in lines {
                    self.state.places[*line] = Place::Answered(Answer::Unavailable);
                }
                have_waited
            }
        }
    }
}

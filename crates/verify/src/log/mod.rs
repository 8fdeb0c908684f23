//! Checks the public log of a sale, and the receipts of its answers.
//!
//! It is written from `docs/receipts.md` and shares no code with the service. `static/js/verify/log.js` is the same in
//! JavaScript; both find the same faults in `vectors-log.json`.

mod books;
mod line;
mod receipt;
mod sold_out;

use std::collections::{BTreeMap, HashMap};

use ring::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::{Hash, bytes, hash};
use books::Books;
use line::Line;

pub use receipt::Receipt;

/// How far clocks may differ, and how long a COMMIT may take, in microseconds.
const TOLERANCE: i64 = 5_000_000;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFault {
    /// A line is none of a log.
    Unreadable,
    /// A head does not fit the entries before it, or entries have no head.
    Root,
    /// A head is not signed by a key of the log.
    Signature,
    /// A head is signed by a key that the shop had not published.
    Key,
    /// A head counts otherwise than the entries.
    Sums,
    /// An answer came into the log later than promised, or a time is in the future.
    Late,
    /// More was sold than there was.
    Oversold,
    /// A buyer has more than the limit.
    Limit,
    /// An order was sold twice, or came back without being sold.
    Orders,
    /// A buyer heard "sold out" while units were left.
    SoldOut,
    /// The log is not a continuation of what it was earlier.
    Cut,
    /// A receipt's entry is not in the log.
    Missing,
    /// A receipt does not prove what it says.
    Receipt,
}

/// A signed head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub size: u64,
    pub root: String,
    /// In microseconds since 1970.
    pub time: i64,
    pub units: i64,
    pub orders: i64,
    pub refusals: i64,
    pub key: String,
    pub signature: String,
}

/// What the checker compares a log with.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownLog<'a> {
    /// The keys that the shop had published.
    pub keys: Option<&'a [String]>,
    /// Heads that were saved earlier.
    pub earlier: &'a [Head],
    /// Receipts that must be in the log.
    pub receipts: &'a [Receipt],
}

/// What was found in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Each kind of fault once, with a sentence about the first.
    pub faults: BTreeMap<LogFault, String>,
    pub item: u64,
    pub entries: u64,
    pub heads: u64,
    /// Units that are sold, and the orders that hold them.
    pub units: i64,
    pub orders: i64,
    pub refusals: i64,
}

impl LogReport {
    fn fault(&mut self, kind: LogFault, sentence: impl Into<String>) {
        self.faults.entry(kind).or_insert_with(|| sentence.into());
    }
}

/// Signatures that were checked already: many receipts have the same head.
type Signatures = HashMap<(String, String, String), bool>;

/// Checks a log.
#[must_use]
pub fn check_log(text: &str, known: KnownLog<'_>) -> LogReport {
    let mut check = Check::new(known);
    let mut lines = text.split_terminator('\n');
    let item = lines.next().filter(|first| *first == "sale-log 1").and(lines.next());
    let item = item.and_then(|line| line::number(line.strip_prefix("item ")?, 15));
    match item {
        None => check.report.fault(LogFault::Unreadable, "the text does not begin as a log"),
        Some(item) => {
            check.report.item = item.unsigned_abs();
            for (number, text) in (3..).zip(lines) {
                let Some(line) = Line::parse(text) else {
                    let sentence = format!("line {number} is none of a log");
                    check.report.fault(LogFault::Unreadable, sentence);
                    return check.report;
                };
                check.take(text, line);
            }
            check.end();
        }
    }
    check.report
}

/// Checks a receipt by itself.
#[must_use]
pub fn check_receipt(receipt: &Receipt, keys: Option<&[String]>) -> BTreeMap<LogFault, String> {
    let mut report = LogReport::default();
    receipt::check(&mut report, receipt, keys, &mut Signatures::new());
    report.faults
}

/// A log on its way through the checker.
struct Check<'a> {
    report: LogReport,
    known: KnownLog<'a>,
    keys: Vec<String>,
    tree: Tree,
    books: Books,
    signatures: Signatures,
    /// Earlier heads by size, and receipts by position; those that were not reached yet.
    earlier: std::iter::Peekable<std::vec::IntoIter<&'a Head>>,
    receipts: std::iter::Peekable<std::vec::IntoIter<&'a Receipt>>,
    /// The size and the time of the last head.
    last: (u64, i64),
    /// The first and the last time of answers since then.
    times: Option<(i64, i64)>,
}

impl<'a> Check<'a> {
    fn new(known: KnownLog<'a>) -> Self {
        let mut earlier: Vec<&Head> = known.earlier.iter().collect();
        earlier.sort_by_key(|head| head.size);
        let mut receipts: Vec<&Receipt> = known.receipts.iter().collect();
        receipts.sort_by_key(|receipt| receipt.position);
        Self {
            report: LogReport::default(),
            known,
            keys: Vec::new(),
            tree: Tree::default(),
            books: Books::default(),
            signatures: Signatures::new(),
            earlier: earlier.into_iter().peekable(),
            receipts: receipts.into_iter().peekable(),
            last: (0, 0),
            times: None,
        }
    }

    fn take(&mut self, text: &str, line: Line<'_>) {
        match line {
            Line::Key(key) => self.keys.push(key.to_owned()),
            Line::Head(head) => self.take_head(&head),
            entry => {
                let position = self.tree.size;
                while let Some(receipt) = self.receipts.next_if(|next| next.position <= position) {
                    if receipt.position != position || receipt.entry != text {
                        let sentence = format!("the receipt's entry is not at {position}");
                        self.report.fault(LogFault::Missing, sentence);
                    }
                }
                if let Some(time) = entry.time_of_answer() {
                    let (first, last) = self.times.unwrap_or((time, time));
                    self.times = Some((first.min(time), last.max(time)));
                }
                self.books.take(&mut self.report, position, &entry);
                self.tree.push(hash(&[&[0], text.as_bytes()]));
                self.meet_earlier();
            }
        }
    }

    /// Compares with heads of the present size that were saved earlier.
    fn meet_earlier(&mut self) {
        let size = self.tree.size;
        while let Some(head) = self.earlier.next_if(|head| head.size <= size) {
            if head.size != size || bytes::<32>(&head.root) != Some(self.tree.root()) {
                let sentence = format!("the first {} entries are others than earlier", head.size);
                self.report.fault(LogFault::Cut, sentence);
            }
        }
    }

    fn take_head(&mut self, head: &Head) {
        self.report.heads += 1;
        let size = self.tree.size;
        if head.size != size || bytes::<32>(&head.root) != Some(self.tree.root()) {
            self.report
                .fault(LogFault::Root, format!("the head at {size} does not fit the entries"));
        }
        if !self.keys.contains(&head.key) {
            self.report.fault(LogFault::Signature, "a head's key is not among those of the log");
        }
        let item = self.report.item;
        check_head(&mut self.report, item, head, self.known.keys, &mut self.signatures);
        let books = &self.books;
        if (head.units, head.orders, head.refusals) != (books.units, books.orders, books.refusals) {
            self.report.fault(LogFault::Sums, format!("the head at {size} counts otherwise"));
        }
        if books.units > books.total {
            let sentence = format!("{} units are sold of {}", books.units, books.total);
            self.report.fault(LogFault::Oversold, sentence);
        }
        let delay = books.delay_seconds * 1_000_000 + TOLERANCE;
        let is_late = self
            .times
            .is_some_and(|(first, last)| head.time - first > delay || last - head.time > TOLERANCE);
        if is_late || head.time < self.last.1 {
            self.report
                .fault(LogFault::Late, format!("entries before {size} have times that cannot be"));
        }
        (self.last, self.times) = ((size, head.time), None);
    }

    fn end(&mut self) {
        self.meet_earlier();
        if self.earlier.next().is_some() {
            self.report.fault(LogFault::Cut, "the log is shorter than it was earlier");
        }
        if self.receipts.next().is_some() {
            self.report.fault(LogFault::Missing, "the log ends before the receipt's entry");
        }
        if self.report.heads == 0 || self.last.0 != self.tree.size {
            self.report.fault(LogFault::Root, "the last entries have no head");
        }
        self.books.end(&mut self.report);
        for head in self.known.earlier {
            let item = self.report.item;
            check_head(&mut self.report, item, head, self.known.keys, &mut self.signatures);
        }
        for receipt in self.known.receipts {
            if receipt.item != self.report.item {
                self.report.fault(LogFault::Missing, "the receipt is of another item");
            }
            receipt::check(&mut self.report, receipt, self.known.keys, &mut self.signatures);
        }
        let Books { units, orders, refusals, .. } = self.books;
        (self.report.units, self.report.orders, self.report.refusals) = (units, orders, refusals);
        self.report.entries = self.tree.size;
    }
}

/// Checks the signature of a head, and its key.
fn check_head(
    report: &mut LogReport,
    item: u64,
    head: &Head,
    keys: Option<&[String]>,
    known: &mut Signatures,
) {
    if keys.is_some_and(|keys| !keys.contains(&head.key)) {
        report.fault(LogFault::Key, "a head is signed by a key that was not published");
    }
    let Head { size, root, time, units, orders, refusals, key, signature } = head;
    let message = format!(
        "sale-head 1\nitem {item}\nsize {size}\nroot {root}\ntime {time}\nunits {units}\norders {orders}\nrefusals {refusals}\n"
    );
    let checked = (key.clone(), signature.clone(), message);
    let is_signed = *known.entry(checked).or_insert_with_key(|(key, signature, message)| {
        let (Some(key), Ok(signature)) = (bytes::<32>(key), hex::decode(signature)) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ED25519, key);
        key.verify(message.as_bytes(), &signature).is_ok()
    });
    if !is_signed {
        report.fault(LogFault::Signature, "a head is not signed by its key");
    }
}

/// A Merkle tree that grows: the roots of its complete parts, with their numbers of leaves.
#[derive(Default)]
struct Tree {
    size: u64,
    parts: Vec<(u64, Hash)>,
}

impl Tree {
    fn push(&mut self, leaf: Hash) {
        self.size += 1;
        let mut part = (1, leaf);
        while let Some((leaves, left)) = self.parts.pop_if(|(leaves, _)| *leaves == part.0) {
            part = (2 * leaves, hash(&[&[1], &left, &part.1]));
        }
        self.parts.push(part);
    }

    fn root(&self) -> Hash {
        let mut parts = self.parts.iter().rev().map(|(_, root)| *root);
        match parts.next() {
            None => hash(&[]),
            Some(last) => parts.fold(last, |right, left| hash(&[&[1], &left, &right])),
        }
    }
}

#[cfg(test)]
mod tests;

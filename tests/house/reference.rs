//! The pages `docs/reference-locks.md` and `docs/reference-strategies.md` are written by this test, from the
//! code: `SECKILL_WRITE_REFERENCE=1 cargo test --test integration reference`. Without the variable it fails
//! when a page is out of date.

use std::fs;

use gates::{Breaks, Card, LIST};
use leaselock::{Capabilities, Fencing, KINDS, Primitive, Waiting};

use crate::house::docs::root;
use crate::support::prelude::*;

/// The command that writes both pages.
const COMMAND: &str = "SECKILL_WRITE_REFERENCE=1 cargo test --test integration reference";
/// A longer page is not read; the manual pages say the rest.
const PAGE_LINES_MAX: usize = 400;

#[test]
fn the_page_of_locks_is_that_of_the_code() {
    let rows: String = KINDS.iter().map(|kind| lock_row(kind)).collect();
    let sections = lock_sections();
    write_or_compare(
        "docs/reference-locks.md",
        &format!("# All locks\n\n{}{LOCKS}{rows}\n{}", generated(), sections.trim_end()),
    );
}

#[test]
fn the_page_of_strategies_is_that_of_the_code() {
    let rows: String = LIST.iter().map(|entry| strategy_row(entry.card)).collect();
    write_or_compare(
        "docs/reference-strategies.md",
        &format!("# All strategies\n\n{}{STRATEGIES}{}", generated(), rows.trim_end()),
    );
}

fn generated() -> String {
    format!("A test writes this page from the code: `{COMMAND}`.\n\n")
}

fn write_or_compare(page: &str, text: &str) {
    let (path, text) = (root().join(page), format!("{text}\n"));
    assert!(text.lines().count() <= PAGE_LINES_MAX, "{page} has more than {PAGE_LINES_MAX} lines");
    if std::env::var_os("SECKILL_WRITE_REFERENCE").is_some() {
        fs::write(&path, text).unwrap_or_else(|error| panic!("{page}: {error}"));
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{page} is out of date; run: {COMMAND}");
}

/// What stands above the table of locks.
const LOCKS: &str = "\
The name leads to the lock's file, which begins with its manual page; how each works stands below the table.
`GET /api/locks` has this list as data. [locks.md](locks.md) says which lock to take and what every guard does.

* *Lost signal in time*: the guard's lost signal fires before another caller can hold the name, unless the program is
  paused, or the server loses its data, fails over, or has a clock that jumps ahead.
* *First come, first served*: everywhere, or within a client: only among callers that share one lock object.
* *A waiter* is notified of a release, or polls.
* *Handed over*: a holder passes the lock on to a caller that waits for the same lock object, without the server.
* *Ends with its lease*: the hold of a dead program ends by itself.
* *Survives a server's death*: no hold is forgotten when one server dies. Otherwise the new server may not know a hold,
  so there may be two holders: a fence refuses the late writes of the earlier one (readers have none), the number of a
  counter may go back, and waiters of a latch may go on too early. `local` has no server, and ends with its program.

| lock | on | is a | fence | lost signal in time | first come, first served | a waiter is | handed over | ends with its lease | survives a server's death |
|---|---|---|---|---|---|---|---|---|---|
";

/// What stands above the table of strategies.
const STRATEGIES: &str = "\
The name leads to the strategy's file, which begins with its manual page: how it works, what can go wrong, when to use
it. `GET /api/strategies` has this list as data. [strategies.md](strategies.md) says which strategy to take.

* *Counter*: where the strategy reads the remaining stock. Under a lock it is read, checked and written.
* *Breaks when*: what makes it oversell; for a strategy that never does, what it costs.
* *Gate alone safe*: `yes`: no number of instances makes it oversell without the arbiter, but the failure in *breaks
  when* still can. `one instance`: oversells with two. `no`: oversells with one instance, even when every server works.
* *Lease*: how long a lock is granted; its holder renews it. *Fence*: a number that grows with each holder. The arbiter
  refuses a write with a lower fence than the last, so a late write of an earlier holder has no effect.
* *From*: the [article](articles.md) that has it, S0 to S4, or ours.

| strategy | counter | how it decides | breaks when | gate alone safe | from |
|---|---|---|---|---|---|
";

fn lock_row(kind: &Capabilities) -> String {
    let word = |holds: bool| if holds { "yes" } else { "no" };
    let fence = match kind.fencing {
        Fencing::Rising => "rises",
        Fencing::RisingWhileKept => "while data are kept",
        Fencing::None => "none",
        other => panic!("the page has no word for {other:?}"),
    };
    let order = match (kind.fair_in_process, kind.fair_between_processes) {
        (_, true) => "everywhere",
        (true, false) => "within a client",
        (false, false) => "none",
    };
    let waits = match kind.waiting {
        Waiting::Notified => "notified",
        Waiting::Polls => "polling",
        other => panic!("the page has no word for {other:?}"),
    };
    format!(
        "| [`{name}`](../{file}) | {backend} | {} | {fence} | {} | {order} | {waits} | {} | {} | {} |\n",
        primitive(kind.primitive),
        word(kind.lost_signal),
        word(kind.hands_over),
        word(kind.expires),
        word(kind.survives_failover),
        name = kind.kind,
        backend = kind.backend,
        file = lock_file(kind).display(),
    )
}

fn primitive(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Mutex => "mutex",
        Primitive::ReadWrite => "read/write",
        Primitive::Semaphore => "semaphore",
        Primitive::MultiLock => "several names",
        Primitive::CountdownLatch => "latch",
        Primitive::SharedCounter => "counter",
        other => panic!("the page has no word for {other:?}"),
    }
}

/// How each lock works: a section for each way to break, with the locks that break in this way.
fn lock_sections() -> String {
    let mut breaks: Vec<&str> = Vec::new();
    for kind in KINDS {
        if !breaks.contains(&kind.breaks_when) {
            breaks.push(kind.breaks_when);
        }
    }
    let section = |breaks_when: &&str| {
        let broken = KINDS.iter().filter(|kind| kind.breaks_when == *breaks_when);
        let rows: String = broken
            .map(|kind| format!("* `{}` on {}: {}.\n", kind.kind, kind.backend, kind.summary))
            .collect();
        format!("**Breaks when:** {breaks_when}.\n\n{rows}\n")
    };
    breaks.iter().map(section).collect()
}

/// The file of a kind. What is on the list twice stands in one.
fn lock_file(kind: &Capabilities) -> PathBuf {
    let name = kind.kind.replace('-', "_");
    for folder in [kind.backend, "demo"] {
        let own = PathBuf::from(format!("crates/leaselock/src/{folder}/{name}.rs"));
        if root().join(&own).exists() {
            return own;
        }
    }
    PathBuf::from(format!("crates/leaselock/src/{}.rs", kind.backend))
}

/// What the cards of locks have in common: the page says it once, above the table, or in fewer words.
const UNDER_THE_LOCK: &str = "; under the lock the stock is read, checked and written";
const IS_REFUSED: &str =
    " Then the arbiter compares the fences and refuses the late write of the earlier holder.";

fn strategy_row(card: &Card) -> String {
    let Card { name, store, summary, breaks_when, source, .. } = card;
    let safe = match card.breaks_with {
        Breaks::Never => "yes",
        Breaks::WithTwoInstances => "one instance",
        Breaks::Alone => "no",
    };
    let summary = summary.replace(UNDER_THE_LOCK, "");
    let breaks_when = breaks_when.replace(IS_REFUSED, " The fence refuses its late write.");
    let file = name.replace('-', "_");
    format!(
        "| [`{name}`](../crates/gates/src/{file}.rs) | {store} | {summary} | {breaks_when} | {safe} | {source} |\n"
    )
}

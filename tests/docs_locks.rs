//! docs/locks.md says of each lock what its capabilities and its manual page say.

use std::fs;
use std::path::{Path, PathBuf};

use leaselock::{Capabilities, Fencing, KINDS, Primitive, Waiting};

use crate::support::files_below;

#[test]
fn the_page_of_locks_has_the_table_of_capabilities() {
    let expected: String = KINDS.iter().map(|kind| row(kind) + "\n").collect();
    assert_between("table", &expected);
}

#[test]
fn the_page_of_locks_has_a_section_for_each() {
    let expected: String = KINDS.iter().map(|kind| section(kind)).collect();
    assert_between("sections", &expected);
}

/// The table that says what shows each promise names tests that exist.
#[test]
fn the_page_of_locks_names_tests_that_exist() {
    let page = read(Path::new("docs/locks.md"));
    let (_, below) = page.split_once("<!-- shown -->\n").expect("the mark that begins");
    let (table, _) = below.split_once("<!-- end of shown -->").expect("and its end");
    let folders = ["tests", "crates/leaselock/tests", "crates/leaselock/src"];
    let files = folders.map(|folder| files_below(folder, "rs"));
    let tests: String = files.iter().flatten().map(|path| read(path)).collect();
    // Whatever stands in backquotes in the last column.
    let named: Vec<&str> = table
        .lines()
        .filter_map(|row| row.trim_end_matches('|').rsplit('|').next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert!(named.len() > 50, "{} tests are named", named.len());
    for test in named {
        assert!(tests.contains(&format!("fn {test}(")), "no test is called {test}");
    }
}

/// The library's own statement for the table of locks makes what our migration makes.
#[test]
fn the_library_and_the_migration_make_the_same_table_of_locks() {
    let statement = |text: &str| {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    };
    let migration = read(Path::new("migrations/0003_lock_table.sql"));
    assert_eq!(statement(leaselock::mysql::SCHEMA), statement(&migration));
}

fn assert_between(mark: &str, expected: &str) {
    let page = read(Path::new("docs/locks.md"));
    let (_, below) = page.split_once(&format!("<!-- {mark} -->\n")).expect("the mark that begins");
    let (found, _) = below.split_once(&format!("<!-- end of {mark} -->")).expect("and its end");
    assert!(found == expected, "between the marks in docs/locks.md must stand:\n{expected}");
}

fn row(kind: &Capabilities) -> String {
    let word = |holds: bool| if holds { "yes" } else { "no" };
    let fence = match kind.fencing {
        Fencing::Rising => "rises",
        Fencing::RisingWhileKept => "rises while data are kept",
        Fencing::None => "none",
        other => panic!("the page has no word for {other:?}"),
    };
    let order = match (kind.fair_in_process, kind.fair_between_processes) {
        (_, true) => "first come, everywhere",
        (true, false) => "first come, in a process",
        (false, false) => "none",
    };
    let waits = match kind.waiting {
        Waiting::Notified => "is notified",
        Waiting::Polls => "polls",
        other => panic!("the page has no word for {other:?}"),
    };
    format!(
        "| {} | {} | {} | {fence} | {} | {order} | {waits} | {} | {} | {} |",
        link(kind),
        kind.backend,
        primitive(kind.primitive),
        word(kind.lost_signal),
        word(kind.hands_over),
        word(kind.expires),
        word(kind.survives_failover),
    )
}

/// The link to the section, by the name that its heading has.
fn link(kind: &Capabilities) -> String {
    format!("[`{0}`](#{0}-on-{1})", kind.kind, kind.backend)
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

/// A heading, the manual page of the file, and what a failover does.
fn section(kind: &Capabilities) -> String {
    let file = file(kind);
    let source = read(&file);
    let manual: Vec<&str> = source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let failover = failover(kind);
    let (name, backend, manual) = (kind.kind, kind.backend, plain(&manual.join("\n")));
    let file = file.display();
    format!(
        "### `{name}` on {backend}\n\n{manual}\n\n**On a failover.** {failover}\n\n\
         Its file: [{file}](../{file})\n\n"
    )
}

/// What the death of a server does to a kind. A counter and a latch have no holder, and readers on
/// Redis have no fence.
fn failover(kind: &Capabilities) -> &'static str {
    use Primitive::{CountdownLatch, ReadWrite, SharedCounter};
    if !kind.between_processes {
        return "There is no server to fail: it ends with its process.";
    }
    match (kind.survives_failover, kind.primitive, kind.fencing) {
        (true, SharedCounter | CountdownLatch, _) => {
            "When one server dies, no confirmed change is lost."
        }
        (true, _, _) => "When one server dies, no hold is forgotten.",
        (false, SharedCounter, _) => {
            "The new server may not know the last changes, so the number may go back."
        }
        (false, CountdownLatch, _) => {
            "The new server may not know the number, so waiters may go on too early."
        }
        (false, _, Fencing::None) => {
            "The new server may not know a hold, so there may be two holders, and no fence tells the later one from the earlier one."
        }
        (false, ReadWrite, _) => {
            "The new server may not know a hold, so a writer may hold beside readers or beside another writer. Writes of the earlier writer are refused by their fence; readers have no fence."
        }
        (false, _, _) => {
            "The new server may not know a hold, so there may be two holders. Writes of the earlier one are refused by their fence."
        }
    }
}

/// Without the links that only the code's documentation can follow.
fn plain(manual: &str) -> String {
    let mut plain = String::new();
    let mut rest = manual;
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((name, behind)) = after.split_once("`]") else { break };
        plain.push_str(before);
        plain.push('`');
        plain.push_str(name);
        plain.push('`');
        rest = match behind.strip_prefix('(') {
            Some(target) => target.split_once(')').map_or("", |(_, behind)| behind),
            None => behind,
        };
    }
    plain.push_str(rest);
    plain
}

/// The file of a kind. What is on the list twice stands in one.
fn file(kind: &Capabilities) -> PathBuf {
    let name = kind.kind.replace('-', "_");
    for folder in [kind.backend, "demo"] {
        let own = PathBuf::from(format!("crates/leaselock/src/{folder}/{name}.rs"));
        if root().join(&own).exists() {
            return own;
        }
    }
    PathBuf::from(format!("crates/leaselock/src/{}.rs", kind.backend))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

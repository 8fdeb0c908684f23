//! The page of the locks' tests names tests that exist, and the migration makes the library's table.

use crate::house::docs::read;
use crate::support::files_below;

/// The table that says what shows each promise names tests that exist.
#[test]
fn the_page_of_the_locks_tests_names_tests_that_exist() {
    let page = read("crates/leaselock/tests/README.md");
    let (_, below) = page.split_once("<!-- shown -->\n").expect("the mark that begins");
    let (table, _) = below.split_once("<!-- end of shown -->").expect("and its end");
    let folders = ["tests", "crates/leaselock/tests", "crates/leaselock/src"];
    let files = folders.map(|folder| files_below(folder, "rs"));
    let tests: String = files.iter().flatten().map(read).collect();
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
    let migration = read("migrations/0003_lock_table.sql");
    assert_eq!(statement(leaselock::mysql::SCHEMA), statement(&migration));
}

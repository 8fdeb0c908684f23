//! The rules of the house, kept by a test: imports go one way, and what each folder must not know.

use std::fs;

use gates::LIST;

use crate::house::docs::root;
use crate::support::files_below;
use crate::support::prelude::*;

/// What each part of `src` may import of the others. `app` knows all; the program's commands are
/// outside the library.
const MAY_IMPORT: &[(&str, &str)] = &[
    ("extensions", ""),
    ("config", "extensions"),
    ("open_files", ""),
    ("audit", ""),
    ("readiness", ""),
    ("catalog", ""),
    ("live", "catalog"),
    ("order", "live"),
    ("waiting_list", "catalog live"),
    ("purchase", "catalog live"),
    ("account", ""),
    ("trial", "catalog purchase"),
    ("job", "order purchase waiting_list audit"),
    ("consumer", "live"),
    ("http", "extensions audit readiness order purchase waiting_list account catalog live"),
];
/// The folders with our code, tests apart.
const CODE: [&str; 5] = ["src", "crates", "extensions", "loadtest", "bench"];
/// The longest strategy, in lines.
const GATE_LINES_MAX: usize = 200;
/// The longest file, in lines; tests at its end do not count.
const FILE_LINES_MAX: usize = 600;
/// Every Rust file below `folder`, with its text.
fn files(folder: &str) -> BTreeMap<PathBuf, String> {
    let texts = files_below(folder, "rs").into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a readable file");
        (path.strip_prefix(root()).expect("below the root").to_owned(), text)
    });
    texts.collect()
}

/// A file without the tests at its end.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// The code of a file: without its tests and without comments.
fn code(text: &str) -> String {
    let lines = without_tests(text).lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The part of `src` that a file belongs to.
fn part(path: &Path) -> String {
    let part = path.iter().nth(1).expect("below src").to_string_lossy();
    part.trim_end_matches(".rs").to_owned()
}

/// The folders of the service's own code: the crates that it is made of, in which the compiler keeps the
/// direction of imports, and the rest.
const OURS: [&str; 5] =
    ["crates/ledger/src", "crates/mysql-connection/src", "crates/gates/src", "extensions", "src"];
/// The folders that have statements.
const WITH_SQL: [&str; 3] = ["crates/ledger/src", "crates/mysql-connection/src", "extensions"];

#[test]
fn imports_go_one_way() {
    let rules: BTreeMap<_, _> = MAY_IMPORT.iter().copied().collect();
    for (path, text) in files("src") {
        let part = part(&path);
        if ["app", "lib", "main", "command"].contains(&part.as_str()) {
            continue;
        }
        let allowed = rules.get(part.as_str()).unwrap_or_else(|| panic!("{part} has no rule"));
        let code = code(&text);
        for used in code.match_indices("crate::").map(|(at, _)| &code[at + 7..]) {
            let used: String =
                used.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let fine = used == part || allowed.split_whitespace().any(|name| name == used);
            assert!(fine, "{} must not know `{used}`", path.display());
        }
    }
}

/// An extension knows the crates below it: no other extension, and nothing of the program. No crate knows one.
#[test]
fn extensions_are_known_by_the_program_alone() {
    let folders = fs::read_dir(root().join("extensions")).expect("a folder of crates").flatten();
    let mut foreign: Vec<String> =
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(foreign.contains(&"events".to_owned()), "extensions are found at all: {foreign:?}");
    foreign.push("seckill".to_owned());
    let found = ["crates", "extensions"].into_iter().flat_map(|folder| files_below(folder, "toml"));
    for manifest in found.filter(|path| path.ends_with("Cargo.toml")) {
        let text = fs::read_to_string(&manifest).expect("a readable file");
        let mut keys = text.lines().filter_map(|line| line.split(['.', ' ']).next());
        let known = keys.find(|key| foreign.iter().any(|name| name == key));
        assert_eq!(known, None, "{} must not know it", manifest.display());
    }
}

#[test]
fn each_folder_keeps_to_what_it_knows() {
    let forbidden: [(&str, &[&str], &str); 8] = [
        ("does I/O", &["crates/shop-domain/src"], "async fn|tokio::|Pool|redis::|std::fs|std::net"),
        (
            "knows what it guards",
            &["crates/leaselock/src"],
            "item|stock|seckill|buyer|crate::domain",
        ),
        ("knows sales", &["crates/mysql-connection/src"], "order|stock|buyer|shop_domain"),
        (
            "reads rows or counters by itself",
            &["src/http"],
            "ledger::rows|mysql_connection|gates::redis_store|sqlx",
        ),
        (
            "writes orders, stock or counters",
            &["extensions"],
            "gates::redis_store|INTO orders|UPDATE orders|DELETE FROM orders|INTO stock|UPDATE stock|\
             DELETE FROM stock",
        ),
        (
            "knows HTTP",
            &["crates/gates/src", "src/catalog", "src/account", "src/purchase", "src/order"],
            "StatusCode|axum|http::",
        ),
        (
            "changes what was written down about operators",
            &OURS,
            "UPDATE admin_actions|DELETE FROM admin_actions",
        ),
        ("needs a digest that MySQL has not since 9.6", &OURS, "MD5(|SHA1(|SHA("),
    ];
    for (what, folders, words) in forbidden {
        for (path, text) in folders.iter().copied().flat_map(files) {
            let code = code(&text);
            for word in words.split('|') {
                assert!(!code.contains(word), "{} {what}: {word:?}", path.display());
            }
        }
    }
}

/// Statements stand in the crates of the ledger and of its connections, and in the folder `sql` of an extension. None of
/// them knows HTTP, reads blindly, or reads the time without a table: a vtgate of Vitess answers that by its own clock.
#[test]
fn statements_stand_beside_no_routes() {
    const NOT_WITH_SQL: [&str; 6] =
        ["StatusCode", "axum", "http::", "SELECT *", "SELECT UTC_TIMESTAMP(6)\"", "SELECT NOW("];
    for (path, text) in WITH_SQL.into_iter().flat_map(files) {
        let has_sql = path.starts_with("crates") || path.iter().any(|part| part == "sql");
        let forbidden: &[&str] = if has_sql { &NOT_WITH_SQL } else { &["sqlx"] };
        let used = forbidden.iter().find(|word| code(&text).contains(**word));
        assert_eq!(used, None, "{}", path.display());
    }
}

/// Outside the tables of problems HTTP names the statuses of success alone.
#[test]
fn all_problems_are_made_in_tables() {
    const SUCCESS: [&str; 4] = ["OK", "CREATED", "ACCEPTED", "NO_CONTENT"];
    for (path, text) in ["src/http", "extensions"].into_iter().flat_map(files) {
        let mut code = code(&text);
        if path.ends_with("route/operator.rs") {
            // `/readyz` answers with one document, ready or not.
            code = code.replacen("StatusCode::SERVICE_UNAVAILABLE", "", 1);
        }
        if path.ends_with("http/pages.rs") {
            // A page that the browser has, and the page of an unknown address, are no problems.
            code = code.replacen("StatusCode::NOT_MODIFIED", "", 1);
            code = code.replacen("StatusCode::NOT_FOUND", "", 1);
        }
        for rest in code.split("StatusCode::").skip(1) {
            let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
            let name = name.unwrap_or_default();
            assert!(SUCCESS.contains(&name), "{} names the status {name}", path.display());
        }
    }
}

/// The document knows a body by the name of its type alone.
#[test]
fn no_two_bodies_of_the_document_share_a_name() {
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (path, text) in ["src", "extensions", "crates/web/src"].into_iter().flat_map(files) {
        for derived in text.split("#[derive(").skip(1).filter(|rest| {
            rest.split_once(")]").is_some_and(|(traits, _)| traits.contains("ToSchema"))
        }) {
            let Some((_, rest)) = derived.split_once("pub ") else { continue };
            let name = rest.split([' ', '{', '(', '<']).nth(1).unwrap_or_default().to_owned();
            if let Some(other) = found.insert(name.clone(), path.clone()) {
                panic!("{name} stands in {} and {}", other.display(), path.display());
            }
        }
    }
    assert!(found.contains_key("ItemBody"), "bodies are found at all: {found:?}");
}

/// The files of the strategies, with their texts.
fn strategy_files() -> BTreeMap<PathBuf, String> {
    let mut found = files("crates/gates/src");
    found.retain(|path, _| {
        let inside = path.strip_prefix("crates/gates/src").expect("below");
        let is_alone = inside.components().count() == 1;
        is_alone && inside != Path::new("lib.rs") && inside != Path::new("memory_store.rs")
    });
    found
}

#[test]
fn every_strategy_file_is_on_the_list() {
    for path in strategy_files().into_keys() {
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = file.replace('_', "-");
        assert!(LIST.iter().any(|entry| entry.card.name == name), "{name} is not on THE LIST");
    }
}

#[test]
fn every_strategy_reads_like_a_manual_page() {
    for (path, text) in strategy_files() {
        for heading in ["# How it works", "# What can go wrong", "# When to use it"] {
            let has_it = text.contains(&format!("//! {heading}"));
            assert!(has_it, "{} lacks {heading:?}", path.display());
        }
    }
}

/// A file that two crates include is compiled twice and belongs to neither: it needs a crate. One crate includes files to
/// run them with other locks and another clock.
#[test]
fn no_crate_includes_a_file_of_another() {
    let others = |path: &PathBuf| !path.starts_with("tests/interleavings");
    let all = CODE.into_iter().chain(["tests"]).flat_map(files);
    for (path, text) in all.filter(|(path, _)| others(path)) {
        let includes = code(&text).contains(concat!("#[", "path"));
        assert!(!includes, "{} includes a file by its path", path.display());
    }
}

/// Files that begin a transaction on a connection that they have: the arbiter, which compares the server of each
/// connection that it keeps, and reads that are rolled back.
const BEGINS_ON_ITS_OWN: [&str; 5] = [
    "write/transaction.rs",
    "write/group_commit/sql.rs",
    "write/group_commit/statements.rs",
    "order/expiry.rs",
    "rows/audit.rs",
];

/// A session that is opened elsewhere has no limit, and the locks of an instance that hangs stay with it for hours.
#[test]
fn sessions_of_the_ledger_are_opened_in_one_place() {
    for (path, text) in OURS.iter().copied().flat_map(files) {
        let opens = text.contains("ConnectOptions as _") || text.contains("ConnectOptions, ");
        let connects = text.contains("::connect_with(") || (opens && text.contains(".connect()"));
        let may_connect = path.ends_with("mysql-connection/src/session.rs");
        assert!(!connects || may_connect, "{} connects", path.display());
    }
}

/// An answer to COMMIT counts only from the present writer, and within a time. One place compares both, so
/// that no caller can forget it.
#[test]
fn transactions_begin_and_end_in_one_place() {
    for (path, text) in WITH_SQL.into_iter().flat_map(files) {
        let begins = ["mysql-connection/src/transaction.rs", "mysql-connection/src/database.rs"];
        if begins.iter().any(|file| path.ends_with(file)) {
            continue;
        }
        // What the driver begins, its own `commit` ends without a limit and without a comparison. A chain may be
        // broken before its last call.
        let code = code(&text).split_whitespace().collect::<String>();
        let code = code.replace("LedgerTransaction<", "");
        let bare = [".begin()", ".begin_with(", "Transaction<", "MySqlTransaction"];
        let used = bare.into_iter().find(|word| code.contains(word));
        assert_eq!(used, None, "{}", path.display());
        let compares = BEGINS_ON_ITS_OWN.iter().any(|file| path.ends_with(file));
        assert!(compares || !code.contains("begin_on("), "{} compares no server", path.display());
    }
}

#[test]
fn files_are_read_in_a_sitting() {
    let strategies = strategy_files();
    for (path, text) in CODE.into_iter().chain(["tests"]).flat_map(files) {
        let lines = without_tests(&text).lines().count();
        let is_gate = strategies.contains_key(&path);
        let most = if is_gate { GATE_LINES_MAX } else { FILE_LINES_MAX };
        let path = path.display();
        assert!(lines <= most, "{path} has {lines} lines; is there a second idea in it?");
    }
}

/// Each value stands beside its name: `let a = x;`, and not `let (a, b) = (x, y);`.
#[test]
fn no_tuple_binds_several_values() {
    for (path, text) in CODE.into_iter().flat_map(files) {
        let is_test = path.iter().any(|part| part == "tests" || part == "tests.rs");
        if is_test {
            continue;
        }
        let found = tuple_binding(&code(&text));
        assert_eq!(found, None, "{}: one `let` for each value", path.display());
    }
}

/// The pattern of the first `let (a, b) = (x, y);`. With an `else` or in a condition it compares the values.
fn tuple_binding(code: &str) -> Option<String> {
    let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
    code.match_indices("let (").find_map(|(at, _)| {
        let (pattern, value) = code[at..].split_once(" = (")?;
        let mut depth = 1_u32;
        let end = value.find(|character| {
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => (),
            }
            depth == 0
        })?;
        let binds = !pattern.contains(';') && value[end..].starts_with(");");
        binds.then(|| pattern.to_owned())
    })
}

#[test]
fn a_tuple_that_binds_several_values_is_found() {
    let binds = "fn f() {\n    let (mut a, b) =\n        (g(1), (2, 3));\n}";
    assert_eq!(tuple_binding(binds).as_deref(), Some("let (mut a, b)"));
    let compares = "let (Some(a), Some(b)) = (x, y) else { return };";
    for fine in ["let (a, b) = f(1);", compares, "let a = (x, y);"] {
        assert_eq!(tuple_binding(fine), None, "{fine}");
    }
}

//! The list of checks, `tests/checks.md`, has a row for each of them, and names tests that exist. So does the list of
//! forms of real life, `tests/forms.md`.

use std::fs;

use crate::house::docs::{code_spans, read, root};
use crate::support::files_below;
use crate::support::prelude::*;

/// An invariant that the audit of the load test has no figures for.
const NOT_JUDGED: &str = "audit I7";
/// How the names of the doctor's checks begin.
const OF_DOCTOR: [&str; 5] = ["ledger", "locks", "machine", "redis", "settings"];
/// The runner of the fault matrix has rows, and no functions, as tests.
const FAULTS: &str = "faults::";

/// A row: the names of its checks, and of the tests that plant faults for them.
struct Row {
    checks: Vec<String>,
    tests: Vec<String>,
}

fn rows() -> Vec<Row> {
    let page = read("tests/checks.md");
    let lines = page.lines().filter(|line| line.starts_with("| "));
    let rows = lines.skip(1).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let spans = |cell: Option<&&str>| -> Vec<String> {
            code_spans(cell.unwrap_or(&"")).into_iter().map(str::to_owned).collect()
        };
        Row { checks: spans(cells.first()), tests: spans(cells.last()) }
    });
    rows.collect()
}

#[test]
fn each_check_has_a_planted_fault() {
    let rows = rows();
    let known: BTreeSet<&String> = rows.iter().flat_map(|row| &row.checks).collect();
    let expected = [audits(), models(), verdicts(), doctor(), scripts()].concat();
    assert!(expected.len() > 70, "{expected:?}");
    for check in expected {
        assert!(known.contains(&check), "tests/checks.md: no row for `{check}`");
    }
    for row in &rows {
        assert!(!row.tests.is_empty(), "tests/checks.md: no test for {:?}", row.checks);
    }
    let named: BTreeSet<&String> = rows.iter().flat_map(|row| &row.tests).collect();
    for planted in planted_rows() {
        assert!(named.contains(&planted), "tests/checks.md: no row names `{planted}`");
    }
}

#[test]
fn each_named_test_exists() {
    let rows = rows();
    for test in rows.iter().flat_map(|row| &row.tests) {
        assert!(is_test(test), "tests/checks.md: no test {test}");
    }
}

#[test]
fn each_form_names_a_test() {
    let list = read("tests/forms.md");
    let rows: Vec<&str> = list.lines().filter(|line| line.starts_with("| P")).collect();
    assert!(!rows.is_empty(), "no form was found: the test reads the list wrongly");
    for row in rows {
        let names = code_spans(row).into_iter().filter(|span| span.contains("::"));
        let names: Vec<&str> = names.collect();
        assert!(!names.is_empty(), "no test: {row}");
        for test in names {
            assert!(is_test(test), "tests/forms.md: no test {test}");
        }
    }
}

/// The invariants of the load test's audit and of the service's own.
fn audits() -> Vec<String> {
    let of = |text: &str, name: &str| -> BTreeSet<String> {
        let texts = text.split('"').skip(1).step_by(2).map(str::trim);
        let is_number =
            |text: &&str| text.strip_prefix('I').is_some_and(|number| number.parse::<u8>().is_ok());
        texts.filter(is_number).map(|text| format!("{name} {text}")).collect()
    };
    let mut found = BTreeSet::new();
    for path in files_below("crates/ledger-audit/src/rules", "rs") {
        found.extend(of(&read(path), "audit"));
    }
    found.remove(NOT_JUDGED);
    found.extend(of(&read("crates/shop-domain/src/audit.rs"), "service audit"));
    found.into_iter().collect()
}

/// The models. Each of their planted mistakes has a test, too.
fn models() -> Vec<String> {
    let tests = read("tests/protocol-models/tests/models.rs");
    let mut found = Vec::new();
    for path in files_below("tests/protocol-models/src", "rs") {
        let text = fs::read_to_string(&path).expect("a readable file");
        let mistakes = variants(&text, "Mistake");
        if mistakes.is_empty() {
            continue;
        }
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let model = folder.to_string_lossy().into_owned();
        for mistake in mistakes {
            let planted = format!("{model}::Mistake::{mistake}");
            assert!(tests.contains(&planted), "no test plants {planted}");
        }
        found.push(format!("model {model}"));
    }
    found
}

/// The verdicts on a strategy, of the comparison and of the lab, but for the one that finds nothing.
fn verdicts() -> Vec<String> {
    let files =
        [("compare", "loadtest/src/compare/verdict.rs"), ("lab", "extensions/lab/src/report.rs")];
    let of = |(name, file): (&str, &str)| {
        let mut found = variants(&read(file), "Verdict");
        found.retain(|verdict| verdict != "Clean");
        assert!(!found.is_empty(), "{file} has verdicts");
        found.into_iter().map(move |verdict| format!("{name} {verdict}")).collect::<Vec<_>>()
    };
    files.into_iter().flat_map(of).collect()
}

/// The names of an enumeration's values.
fn variants(text: &str, name: &str) -> Vec<String> {
    let Some((_, rest)) = text.split_once(&format!("pub enum {name} {{\n")) else {
        return Vec::new();
    };
    let body = rest.split("\n}").next().unwrap_or_default();
    let names = body.lines().filter_map(|line| line.trim().strip_suffix(','));
    names.filter(|name| !name.contains([' ', '/'])).map(str::to_owned).collect()
}

/// The names of what the doctor looks at.
fn doctor() -> Vec<String> {
    let mut files = files_below("src/command/check", "rs");
    files.push(root().join("src/command/doctor.rs"));
    let mut found = BTreeSet::new();
    for text in files.iter().map(read) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for name in code.split('"').skip(1).step_by(2) {
            let is_check = name.split_once('.').is_some_and(|(of, what)| {
                let is_word = |letter: char| letter.is_ascii_lowercase() || letter == '_';
                OF_DOCTOR.contains(&of) && !what.is_empty() && what.chars().all(is_word)
            });
            if is_check {
                found.insert(format!("doctor {name}"));
            }
        }
    }
    found.into_iter().collect()
}

/// The scripts that check something, by their names.
fn scripts() -> Vec<String> {
    let entries = fs::read_dir(root().join("scripts")).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("check")).map(|name| format!("scripts/{name}")).collect()
}

/// The rows of the fault matrix that plant something.
fn planted_rows() -> Vec<String> {
    let list = read("tests/faults/list.rs");
    let names = list.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next());
    let planted = names.filter(|name| name.contains("planted") && !name.contains(' '));
    planted.map(|name| format!("{FAULTS}{name}")).collect()
}

/// Whether a name is a test that runs: of the program `integration`, of a package, or a row of the fault matrix.
fn is_test(name: &str) -> bool {
    if let Some(row) = name.strip_prefix(FAULTS) {
        return read("tests/faults/list.rs").contains(&format!("\"{row}\": "));
    }
    let Some((module, function)) = name.rsplit_once("::") else { return false };
    let mut files = of_module(&root().join("tests"), module);
    if let Some((package, module)) = module.split_once("::") {
        for folder in folders_of(package) {
            files.extend(of_module(&folder.join("src"), module));
            files.extend(of_module(&folder.join("tests"), module));
        }
    }
    files.iter().any(|file| fs::read_to_string(file).is_ok_and(|text| is_test_in(&text, function)))
}

/// Where a package may be.
fn folders_of(package: &str) -> Vec<PathBuf> {
    let folders = ["crates", "extensions", "tests"];
    let mut folders = folders.map(|folder| root().join(folder).join(package)).to_vec();
    match package {
        "seckill" => folders.push(root()),
        "service-bench" => folders.push(root().join("bench/service")),
        _ => folders.push(root().join(package)),
    }
    folders
}

/// The files that a module may be in: its own, or that of the module around `tests`.
fn of_module(folder: &Path, module: &str) -> Vec<PathBuf> {
    let around = module.strip_suffix("::tests");
    let paths =
        std::iter::once(module).chain(around).map(|path| folder.join(path.replace("::", "/")));
    paths.flat_map(|path| [path.with_extension("rs"), path.join("mod.rs")]).collect()
}

/// Whether a file has this test, as a function or as a line of a macro that makes tests.
fn is_test_in(text: &str, function: &str) -> bool {
    if text.contains("mistakes! {") && text.contains(&format!("    {function}:\n")) {
        return true;
    }
    let Some((above, _)) = text.split_once(&format!("fn {function}(")) else { return false };
    let attributes = above.rsplit("\n\n").next().unwrap_or_default();
    let is_made = attributes.contains("#[test]") || attributes.contains("#[tokio::test");
    is_made && !attributes.contains("a measurement")
}

#[test]
fn a_name_without_a_test_is_found() {
    let text = "\n\n#[test]\nfn runs() {}\n\n#[test]\n#[ignore = \"a measurement\"]\nfn rests() {}\n\nfn helps() {}\n";
    assert!(is_test_in(text, "runs"));
    for no_test in ["rests", "helps", "is_away"] {
        assert!(!is_test_in(text, no_test), "{no_test}");
    }
    assert!(is_test("house::checks::a_name_without_a_test_is_found"));
    assert!(!is_test("house::a_name_without_a_test_is_found"));
}

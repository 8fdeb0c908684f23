//! A test that does not run is no test: which ones `make test` leaves out, and who runs those.

use std::fs;
use std::process::Command;

use toml::{Table, Value};

use crate::house::docs::{read, root};
use crate::support::files_below;
use crate::support::prelude::*;

/// Why a test may be ignored: `make test-all` runs it, or another test does.
const REASONS: [&str; 3] = ["slow: make test-all", "a measurement", "the child of "];

/// The folders with tests.
const TESTED: [&str; 6] = ["src", "tests", "crates", "extensions", "loadtest", "bench"];

#[test]
fn an_ignored_test_says_who_runs_it() {
    let attribute = ["#[", "ignore"].concat();
    let mut found = 0;
    for path in TESTED.into_iter().flat_map(|folder| files_below(folder, "rs")) {
        let text = fs::read_to_string(&path).expect("a readable file");
        for line in text.lines().filter(|line| line.trim_start().starts_with(&attribute)) {
            let reason = line.split('"').nth(1).unwrap_or_default();
            let is_known = REASONS.iter().any(|known| reason.starts_with(known));
            assert!(is_known, "{}: {line}", path.display());
            found += 1;
        }
    }
    assert!(found > 0, "the test reads the sources wrongly");
}

/// The schedule and a release run what `make test` leaves out.
#[test]
fn a_schedule_and_a_release_run_the_slow_tests() {
    let nightly = read(".github/workflows/nightly.yml");
    let runs = nightly.contains("schedule:") && nightly.contains("run: make test-all");
    assert!(runs && nightly.contains("SECKILL_UNSTEADY: fail"), "{nightly}");
    // Without Go, one engine could not be built there.
    let vitess = read("scripts/vitess-program");
    let least = vitess.lines().find_map(|line| line.strip_prefix("least_go="));
    let go = format!("go-version: \"{}\"", least.expect("it names a version"));
    assert!(nightly.contains(&go), "{nightly}");
    let release = read(".github/workflows/release.yml");
    assert!(release.contains("uses: ./.github/workflows/nightly.yml"), "{release}");
    assert!(release.contains("needs: proofs"), "{release}");
    assert!(read("scripts/test").contains("--include-ignored"), "scripts/test asks for them");
}

/// Makes the script's neighbours in the present folder: no program of MySQL or Vitess can be had, and no test fails.
const NEIGHBOURS: &str = "mkdir scripts target && cp \"$1\" scripts/ && cd scripts && echo test_packages= >test-settings \
     && echo '#!/bin/sh' | tee install-packages step >mysql-sid && echo exit 3 >>mysql-sid && cp mysql-sid vitess-program \
     && chmod +x *";

/// An engine whose program cannot be had is named at the end, fails the run, and does not keep the others from their
/// tests.
#[test]
fn an_engine_that_cannot_be_tested_is_said_and_the_others_are_tested() {
    let folder = TestFolder::new("engines");
    let script = root().join("scripts/test-mysql-engines");
    let mut make = Command::new("sh");
    let make = make.args(["-c", NEIGHBOURS, "sh"]).arg(script).current_dir(&*folder).status();
    assert!(make.expect("it runs").success());
    let run = |mysqld: &str| {
        let mut run = Command::new(folder.join("scripts/test-mysql-engines"));
        let run = run.args(["mysql", "vitess", "semisync"]).env("SECKILL_MYSQLD", mysqld);
        let output = run.env_remove("CARGO_TARGET_DIR").output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(output.status.code(), Some(1), "{text}");
        let words = text.lines().map(|line| line.split(',').next().unwrap_or_default().to_owned());
        words.collect::<Vec<_>>()
    };
    let without = run("");
    let with = run("mysqld");
    assert_eq!(without, ["semisync: 0 passed", "mysql: NOT TESTED", "vitess: NOT TESTED"]);
    assert_eq!(with, ["mysql: 0 passed", "semisync: 0 passed", "vitess: NOT TESTED"]);
}

/// A library that builds no program for its tests has none; so no test is forgotten without a word.
#[test]
fn a_library_without_a_test_program_has_no_test() {
    for manifest in manifests() {
        let text = fs::read_to_string(&manifest).expect("a readable file");
        let table: Table = text.parse().expect("a manifest is TOML");
        let lib = table.get("lib").and_then(Value::as_table);
        let is_off = |key: &str| lib.and_then(|lib| lib.get(key)) == Some(&Value::Boolean(false));
        let folder = manifest.strip_prefix(root()).expect("below the root").with_file_name("src");
        let folder = folder.to_str().expect("a name in UTF-8");
        let sources = files_below(folder, "rs").into_iter();
        for path in sources {
            let code = fs::read_to_string(&path).expect("a readable file");
            let is_test = |line: &str| {
                ["#[test]", "#[tokio::test"].iter().any(|one| line.trim_start().starts_with(one))
            };
            let has_test = code.lines().any(is_test);
            assert!(!(is_off("test") && has_test), "{}: its test never runs", path.display());
        }
    }
}

/// The manifest of each package beside the program.
fn manifests() -> Vec<PathBuf> {
    let folders = ["crates", "extensions", "tests"].into_iter();
    let found = folders.flat_map(|folder| files_below(folder, "toml"));
    let found: Vec<PathBuf> = found.filter(|path| path.ends_with("Cargo.toml")).collect();
    assert!(found.len() > 20, "{found:?}");
    found
}

//! Each rule of this folder finds a fault that is planted for it.
//!
//! `planted.toml` has the faults. The test copies the project and runs the rule there, by this test program itself, before
//! and after it writes the fault.

use std::fs;
use std::process::Command;

use serde::Deserialize;

use crate::house::docs::{read, root};
use crate::support::PROJECT;
use crate::support::prelude::*;

/// Folders that are no part of the project, wherever they stand.
const LEFT_OUT: [&str; 5] = ["target", "node_modules", ".git", ".data", ".ci"];
/// Tests of a function of a rule: they plant their faults themselves.
const OF_FUNCTIONS: [&str; 4] = [
    "checks::a_name_without_a_test_is_found",
    "dependencies::a_crate_is_not_named_by_a_module_of_another_one",
    "prose::a_riddle_is_found_between_other_words",
    "tidy::a_tuple_that_binds_several_values_is_found",
];
/// Modules whose tests plant faults.
const PLANTING: [&str; 2] = ["planted", "scripts"];

#[derive(Deserialize)]
struct Faults {
    fault: Vec<Fault>,
}

/// A change of one file that a rule has to find.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    rule: String,
    file: PathBuf,
    says: String,
    old: Option<String>,
    #[serde(default)]
    new: String,
    #[serde(default)]
    append: String,
    #[serde(default = "once")]
    times: usize,
}

fn once() -> usize {
    1
}

fn faults() -> Vec<Fault> {
    let faults: Faults = toml::from_str(&read("tests/house/planted.toml")).expect("faults");
    faults.fault
}

#[test]
fn each_rule_has_a_fault() {
    let planted: BTreeSet<String> = faults().into_iter().map(|fault| fault.rule).collect();
    let mut rules = BTreeSet::new();
    for entry in fs::read_dir(root().join("tests/house")).expect("a folder").flatten() {
        let path = entry.path();
        let module = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|kind| kind == "rs") && !PLANTING.contains(&module.as_str())
        {
            let text = fs::read_to_string(&path).expect("a readable file");
            rules.extend(tests_of(&text).map(|name| format!("{module}::{name}")));
        }
    }
    assert!(rules.len() > 50, "{rules:?}");
    rules.retain(|rule| !OF_FUNCTIONS.contains(&rule.as_str()));
    assert_eq!(planted, rules, "tests/house/planted.toml has a fault for each rule");
}

/// The names of the tests of a file.
fn tests_of(text: &str) -> impl Iterator<Item = &str> {
    text.split("#[test]\n").skip(1).filter_map(|rest| {
        let (_, name) = rest.split_once("fn ")?;
        name.split('(').next()
    })
}

#[test]
#[ignore = "slow: make test-all"]
fn each_rule_finds_its_fault() {
    let copy = Copy::new();
    let (sound, said) =
        copy.run("house::", &["--skip", "house::planted", "--skip", "house::scripts"]);
    assert!(sound, "the copy is as the project: {said}");
    let mut missed = Vec::new();
    for fault in faults() {
        let whole = copy.plant(&fault);
        let (passed, said) = copy.run(&format!("house::{}", fault.rule), &["--exact"]);
        let ran = said.contains("running 1 test");
        if passed || !ran || !said.contains(&fault.says) {
            missed.push(format!("{} in {}: {said}", fault.rule, fault.file.display()));
        }
        copy.mend(&fault, whole);
    }
    assert!(missed.is_empty(), "{} faults are not found:\n{}", missed.len(), missed.join("\n"));
}

/// A copy of the project, which goes with this value.
struct Copy {
    root: TestFolder,
}

impl Copy {
    fn new() -> Self {
        let copy = Self { root: TestFolder::new("house") };
        copy_folder(&root(), &copy.root);
        copy
    }

    /// Runs rules on the copy; whether they hold, and what they say.
    fn run(&self, rules: &str, more: &[&str]) -> (bool, String) {
        let program = std::env::current_exe().expect("this program");
        let mut run = Command::new(program);
        run.arg(rules).args(more).env(PROJECT, &*self.root).current_dir(&*self.root);
        let output = run.output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Writes a fault; the whole text of the file before.
    fn plant(&self, fault: &Fault) -> Option<String> {
        let path = self.root.join(&fault.file);
        let whole = fs::read_to_string(&path).ok();
        let text = whole.clone().unwrap_or_default();
        let planted = match &fault.old {
            Some(old) => text.replacen(old, &fault.new, 1),
            None => format!("{text}{}", fault.append.repeat(fault.times)),
        };
        assert_ne!(planted, text, "{}: nothing is planted", fault.rule);
        fs::write(&path, planted).expect("planted");
        whole
    }

    fn mend(&self, fault: &Fault, whole: Option<String>) {
        let path = self.root.join(&fault.file);
        let mended = match whole {
            Some(text) => fs::write(path, text),
            None => fs::remove_file(path),
        };
        mended.expect("mended");
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let name = entry.file_name();
        if LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        let path = entry.path();
        if path.is_dir() {
            copy_folder(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).expect("copied");
        }
    }
}

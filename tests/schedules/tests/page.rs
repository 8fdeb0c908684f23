//! The page `play.html` has the programs of today, and its machine does what this one does.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gates::{Breaks, LIST};
use schedules::program::expanded;
use schedules::{Machine, Program, Settings};
use serde_json::{Value, json};

/// Schedules that both machines run, over all programs.
const SCHEDULES: usize = 10_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of `static/js/play/programs.js`.
fn programs() -> String {
    let mut text = String::from(
        "/** The programs of the strategies, from `crates/gates/src/*.json`: a test of `schedules` writes this file. */\n'use strict';\nglobalThis.PLAY_PROGRAMS = [\n",
    );
    for card in LIST.iter().map(|entry| entry.card) {
        let mut program = json!({
            "name": card.name,
            "safe": card.is_safe(),
            "instances": if card.breaks_with == Breaks::WithTwoInstances { 2 } else { 1 },
            "summary": card.summary,
            "breaks_when": card.breaks_when,
            "source": card.source,
        });
        let expanded = expanded(card.name).expect("a program");
        let parts = program.as_object_mut().expect("an object");
        for (key, value) in expanded.as_object().expect("an object") {
            parts.insert(key.clone(), value.clone());
        }
        writeln!(text, "  {},", sorted(&program)).expect("a string grows");
    }
    text + "];\n"
}

/// JSON whose keys are sorted, whatever else is built beside this test: a feature of `serde_json` keeps the
/// order in which they were added.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(parts) => {
            let parts: BTreeMap<_, _> = parts.iter().collect();
            let parts =
                parts.into_iter().map(|(key, part)| format!("{}: {}", json!(key), sorted(part)));
            format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
        }
        Value::Array(parts) => {
            format!("[{}]", parts.iter().map(sorted).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn the_page_has_the_programs_of_today() {
    let file = root().join("static/js/play/programs.js");
    let (written, now) = (fs::read_to_string(&file).unwrap_or_default(), programs());
    if std::env::var_os("SECKILL_WRITE_PAGES").is_some() {
        fs::write(&file, now).expect("written");
        return;
    }
    assert!(
        written == now,
        "SECKILL_WRITE_PAGES=1 cargo test -p schedules writes {}",
        file.display()
    );
}

/// Numbers that both machines make alike: a linear congruential generator with small values.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = (self.0 * 1_103 + 12_345) % 1_048_576;
        usize::try_from(self.0 / 7).unwrap_or_default() % sides
    }
}

/// What a random schedule leads to, one line a state.
fn lines(program: &Program, seed: u64) -> String {
    let mut dice = Dice(seed);
    let settings = Settings {
        buyers: if dice.roll(2) == 0 { 2 } else { 3 },
        instances: if dice.roll(2) == 0 { 1 } else { 2 },
        units: if dice.roll(2) == 0 { 1 } else { 2 },
        arbiter: dice.roll(2) == 0,
    };
    let faults = program.faults();
    let machine = Machine::new(program, settings);
    let mut state = machine.start();
    let mut text = String::new();
    for _ in 0..200 {
        let actions = machine.actions(&state, &faults);
        if actions.is_empty() {
            break;
        }
        state = machine.after(&state, &actions[dice.roll(actions.len())]);
        writeln!(text, "{state}").expect("a string grows");
    }
    text
}

#[test]
fn both_machines_run_ten_thousand_random_schedules_alike() {
    if Command::new("node").arg("--version").output().is_err() {
        println!("left out: install node to compare the page's machine");
        return;
    }
    let each = SCHEDULES.div_ceil(LIST.len());
    let mut expected = Vec::new();
    for entry in LIST {
        let name = entry.card.name;
        let program = Program::of(name).expect("a program");
        let all: String = (0..each).map(|seed| lines(&program, seed as u64)).collect();
        expected.push((name, all));
    }
    let script = root().join("tests/schedules/tests/compare.js");
    let output =
        Command::new("node").arg(script).arg(each.to_string()).output().expect("node runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for (name, lines) in expected {
        let theirs = found[name].as_str().expect("lines");
        let differ = lines.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
        assert_eq!(differ, None, "{name}: this machine, the page's");
        assert_eq!(lines.lines().count(), theirs.lines().count(), "{name}");
    }
}

//! `seckill verify draw` as a program: what it says, and how it ends.

use std::process::{Command, Output};

use super::program::PROGRAM;
use crate::support::prelude::*;

/// A folder with the honest texts of the vectors.
fn folder() -> TestFolder {
    let folder = TestFolder::new("verify");
    let vectors = include_str!("../../crates/verify/vectors.json");
    let vectors: Value = serde_json::from_str(vectors).expect("vectors");
    for (name, text) in vectors["texts"].as_object().expect("texts") {
        std::fs::write(folder.join(name), text.as_str().expect("a text")).expect("written");
    }
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a text");
    let saved = [text("announcement of drand"), text("promise of drand")].concat();
    std::fs::write(folder.join("saved"), saved).expect("written");
    let announced = text("announcement of drand");
    let rules: String = announced.split_inclusive('\n').take(8).collect();
    std::fs::write(folder.join("rules"), rules).expect("written");
    let fraud = text("drand").replace("units 2", "units 3");
    std::fs::write(folder.join("fraud"), fraud).expect("written");
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(PROGRAM);
    let Output { status, stdout, stderr } =
        command.args(arguments).current_dir(folder).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a text");
    (status.code(), text(stdout), text(stderr))
}

/// After a success the command prints the item, the rules, the number of entries, the head, the key and the own place.
#[test]
fn proven_and_told() {
    let folder = folder();
    let both = "announcement: rules and head are as saved;";
    for (arguments, compared) in [
        (&["--entry", "saved"][..], both),
        (&["--entry", "promise of drand"], ""),
        (&["--announced", "announcement of drand"], both),
        (&["--announced", "rules"], "announcement: the rules are as saved; no head"),
        (&[], ""),
    ] {
        let found = run(&folder, &[&["verify", "draw", "drand"], arguments].concat());
        assert_eq!((found.0, found.2.as_str()), (Some(0), ""), "{arguments:?}");
        for shown in [
            "item 7: the places of 9 entries",
            "\nrules ",
            "units 2, entries until 2023-09-15T10:59:33Z, round 657413",
            "\nhead 25685a0e4ff8c07e",
            "\nkey ea4a6c63e29c520a",
        ] {
            assert!(found.1.contains(shown), "{arguments:?}: no {shown} in {}", found.1);
        }
        let last = found.1.lines().last().filter(|line| line.starts_with("announcement"));
        assert!(last.unwrap_or_default().starts_with(compared), "{arguments:?}: {}", found.1);
        assert_eq!(last.is_some(), !compared.is_empty(), "{arguments:?}: {}", found.1);
        let is_entry = arguments.contains(&"--entry");
        assert_eq!(found.1.contains("\nentry "), is_entry, "{arguments:?}: {}", found.1);
    }
}

/// 1: a fault; 2: nothing was found out; 3: all fits, and proves nothing.
#[test]
fn exit_codes() {
    let folder = folder();
    let verify = |arguments: &[&str]| run(&folder, &[&["verify", "draw"], arguments].concat());
    for (arguments, code, said) in [
        (&["local"][..], 3, "NOT A PROOF: the shop made the value"),
        (&["local", "--entry", "promise of local"], 3, "NOT A PROOF"),
        (&["fraud"], 1, "NOT PROVEN: "),
        (&["drand", "--announced", "announcement of local"], 1, "announced earlier"),
        (&["drand", "--entry", "promise of local"], 1, "the promise is not signed"),
        (&["no-such-file"], 2, "no-such-file: "),
        (&["promise of drand"], 2, "line 1: it must be: seckill draw rules 3"),
        (&["drand", "--entry", "drand"], 2, "the promise: line 1: "),
        (&["drand", "--announced", "drand"], 2, "the announcement: line 16: "),
        // What is not used is an error: otherwise it would be taken for checked.
        (&["drand", "--entry", "saved", "--announced", "rules"], 2, "leave --announced out"),
        (&["drand", "--config", "saved"], 2, "--config is not used"),
        (&["drand", "saved"], 2, "unexpected argument"),
        (&["drand", "--seed", "1"], 2, "unexpected argument"),
        (&["http://127.0.0.1:1/api/items/7/draw/entries"], 2, "http://127.0.0.1:1/"),
        (&[], 2, "<FILE>"),
    ] {
        let found = verify(arguments);
        assert_eq!(found.0, Some(code), "{arguments:?}: {}{}", found.1, found.2);
        assert!(found.2.contains(said), "{arguments:?}: {}", found.2);
    }
}

//! What cannot be judged must say so and exit with 2, never pass as clean.

use std::process::{Command, Output};

/// Nothing listens on port 1 of the loopback.
const DEAD_DATABASE: &str = "mysql://nobody@127.0.0.1:1/nothing";
const DEAD_SERVICE: &str = "http://127.0.0.1:1";

fn loadtest(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadtest"))
        .args(arguments)
        // Away from any `.data/env` of a running service.
        .current_dir("/")
        .env_remove("SECKILL_URL")
        .env_remove("SECKILL_DATA_DIR")
        .env_remove("DATABASE_URL")
        .env_remove("REDIS_URL")
        .env_remove("SECKILL_SECRET")
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts")
}

fn assert_could_not_judge(output: &Output, reason: &str) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(reason), "{message}");
}

#[test]
fn without_a_service_it_says_where_to_get_one() {
    assert_could_not_judge(&loadtest(&[], &[]), "make run");
}

#[test]
fn an_unreachable_database_cannot_be_judged() {
    let output = loadtest(&["run", "--url", DEAD_SERVICE], &[("DATABASE_URL", DEAD_DATABASE)]);
    assert_could_not_judge(&output, "the database cannot be reached");
    let output = loadtest(&["--url", DEAD_SERVICE], &[]);
    assert_could_not_judge(&output, "DATABASE_URL");
}

#[test]
fn a_password_in_an_address_is_never_printed() {
    let variables = [("DATABASE_URL", "mysql://nobody:hunter2@127.0.0.1:1/nothing")];
    let output = loadtest(&["--url", DEAD_SERVICE], &variables);
    assert_eq!(output.status.code(), Some(2));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("hunter2"));
}

#[test]
fn comparisons_and_experiments_without_a_shop_prove_nothing() {
    let out = std::env::temp_dir().join(format!("loadtest-{}", std::process::id()));
    let folder = out.to_str().expect("a readable path");
    for command in ["compare", "articles", "break"] {
        let output = loadtest(&[command, "--out", folder], &[]);
        assert_could_not_judge(&output, "start a shop with `make run`");
    }
    let variables = [
        ("DATABASE_URL", DEAD_DATABASE),
        ("REDIS_URL", "redis://127.0.0.1:1"),
        ("SECKILL_SECRET", "not needed to fail"),
    ];
    let output = loadtest(&["compare", "--out", folder], &variables);
    assert_could_not_judge(&output, "the database cannot be reached");
    std::fs::remove_dir_all(out).expect("the folder of the reports");
}

#[test]
fn unknown_tables_and_experiments_are_refused_with_the_known_ones() {
    assert_could_not_judge(&loadtest(&["articles", "--only", "S9"], &[]), "S0, S1, S2, S3, S4");
    assert_could_not_judge(&loadtest(&["break", "--only", "luck"], &[]), "lease-expires");
    let list = loadtest(&["break", "--only", "list"], &[]);
    assert_eq!(list.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&list.stdout).contains("queue-lost"));
}

#[test]
fn nonsense_on_the_command_line_is_refused() {
    for arguments in [["--rate", "5"], ["--stock", "0"], ["--strategy", ""], ["--url", "ftp://x"]] {
        assert_eq!(loadtest(&arguments, &[]).status.code(), Some(2), "{arguments:?}");
    }
}

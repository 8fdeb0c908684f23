//! The commands of docs/integrate.md are typed into a shell against a running shop, in the order of the page, and what
//! the page shows is printed.

use std::collections::VecDeque;
use std::process::Output;

use super::program::beside;
use crate::house::commands::{Prompted, prompted};
use crate::house::docs::{code_blocks, read};
use crate::support::prelude::*;

const PAGE: &str = "docs/integrate.md";
/// How long all commands may take together: far longer than they do on a busy machine.
const TYPED_MAX: Duration = Duration::from_secs(120);
/// How many commands at least have an output in the page: if there are fewer, the page is read wrongly.
const SHOWN_MIN: usize = 14;
/// Stands between the outputs of two commands.
const END: &str = "-- end of a command --";

/// Each status and each field that the page shows is what the shop answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tutorial_comes_out_as_shown() {
    let (shop, instance) = Shop::open_with(|config| config.events.enabled = true).await;
    let page = read(PAGE);
    let commands: Vec<Prompted> =
        code_blocks(&page).into_iter().flat_map(|lines| prompted(&lines)).collect();
    let shown = commands.iter().filter(|command| !command.shown.is_empty()).count();
    assert!(shown >= SHOWN_MIN, "{shown} commands of {PAGE} have an output");
    let typed = type_all(&shop, &instance, &commands).await;
    let told = String::from_utf8_lossy(&typed.stderr).into_owned();
    let printed = String::from_utf8_lossy(&typed.stdout).into_owned();
    let mut outputs: VecDeque<&str> = printed.split(END).collect();
    for Prompted { command, shown } in &commands {
        let output = outputs.pop_front().unwrap_or_default();
        let mut lines = output.lines();
        for line in shown {
            let is_there = lines.any(|printed| is_as_shown(line, printed));
            assert!(is_there, "{PAGE} shows {line}\nof $ {command}\nbut it prints {output}{told}");
        }
    }
    assert_eq!(outputs.len(), 1, "the shell went to the end: {told}");
}

/// Types the commands into one shell, in a folder of its own.
async fn type_all(shop: &Shop, instance: &Instance, commands: &[Prompted]) -> Output {
    let mut script = String::from("set -u\n");
    for Prompted { command, .. } in commands {
        // `$?` stays as the command has left it.
        script += &format!("{command}\nthen=$?; echo '{END}'; (exit $then)\n");
    }
    let ours = program(shop, &[]);
    let script = script
        .replace("http://127.0.0.1:8080", &format!("http://{}", instance.addr))
        .replace("target/quick/seckill", ours.as_std().get_program().to_str().expect("a path"));
    let folder = TestFolder::new("tutorial");
    let mut shell = beside(shop, "sh");
    shell.args(["-c", &script]).current_dir(&*folder).env("TMPDIR", &*folder);
    let typed = tokio::time::timeout(TYPED_MAX, shell.output()).await;
    typed.expect("the commands end").expect("a shell runs")
}

/// Whether a printed line is the shown one: word for word, but for JSON, of which the page shows the fields that matter.
fn is_as_shown(shown: &str, printed: &str) -> bool {
    let at = shown.find('{').unwrap_or(shown.len());
    let (before, fields) = shown.split_at(at);
    if fields.is_empty() {
        return shown.trim() == printed.trim();
    }
    let fields: Value = serde_json::from_str(fields).unwrap_or_else(|error| {
        panic!("{PAGE} shows no JSON: {shown}: {error}");
    });
    let rest = printed.strip_prefix(before);
    rest.and_then(|rest| serde_json::from_str(rest).ok())
        .is_some_and(|answer: Value| has_fields(&answer, &fields))
}

/// Whether an answer has the shown fields. `…` stands for any value, and at the end of a text for any end.
fn has_fields(answer: &Value, shown: &Value) -> bool {
    match (answer, shown) {
        (Value::Object(answer), Value::Object(shown)) => shown.iter().all(|(name, value)| {
            answer.get(name).is_some_and(|answered| has_fields(answered, value))
        }),
        (_, Value::String(text)) if text == "…" => true,
        (Value::String(answer), Value::String(shown)) => match shown.strip_suffix('…') {
            Some(beginning) => answer.starts_with(beginning),
            None => answer == shown,
        },
        _ => answer == shown,
    }
}

/// A wrong page would be seen: another status, another value, a field that is not there.
#[test]
fn another_answer_is_not_as_shown() {
    let printed = r#"201 {"id":7,"status":"pending","at":null}"#;
    assert!(is_as_shown(r#"201 {"id": "…", "status": "pend…"}"#, printed));
    for shown in [
        r#"200 {"id": "…"}"#,
        r#"201 {"status": "paid"}"#,
        r#"201 {"code": "…"}"#,
        r#"201 {"id": 8}"#,
        "201",
    ] {
        assert!(!is_as_shown(shown, printed), "{shown}");
    }
}

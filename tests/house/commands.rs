//! Every command that README, CONTRIBUTING and `docs` show exists as it is shown: targets of make, scripts,
//! subcommands, arguments, packages and features. Nothing is started; `scripts/walk-starts` starts what can be.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use clap::CommandFactory;
use clap::error::ErrorKind;
use seckill::command::command_line;

use crate::house::docs::{code_blocks, code_spans, pages, read, root};
use crate::support::files_below;
use crate::support::prelude::*;

/// A command of a page: its words, and whether it stands alone, as something to type.
struct Shown {
    page: String,
    line: String,
    words: Vec<String>,
    is_typed: bool,
}

#[test]
fn every_command_of_the_pages_exists_as_it_is_shown() {
    let commands = shown();
    let mut kinds = BTreeSet::new();
    for shown in &commands {
        if let Err(why) = check(&shown.words, shown.is_typed) {
            panic!("{}: `{}`: {why}", shown.page, shown.line);
        }
        kinds.insert(shown.words[0].as_str());
    }
    for kind in ["make", "seckill", "cargo", "loadtest", "scripts/test"] {
        assert!(kinds.contains(kind), "no {kind} was found: the test reads the pages wrongly");
    }
}

/// Cargo ignores a feature that it takes for another package's, without a word.
#[test]
fn the_scripts_that_start_a_shop_build_in_what_it_is_asked_for() {
    let values = shown().into_iter().flat_map(|shown| {
        let values =
            shown.line.split_whitespace().filter_map(|word| word.strip_prefix("SECKILL_WITH="));
        values.map(str::to_owned).collect::<Vec<_>>()
    });
    let values: BTreeSet<String> = values
        .chain(["etcd", "zookeeper", "zookeeper,etcd,redlock", ""].map(str::to_owned))
        .collect();
    assert!(values.len() > 4, "{values:?}");
    for script in ["scripts/run", "scripts/loadtest"] {
        let text = read(script);
        let build = text.lines().find_map(|line| line.strip_prefix("cargo build --profile quick "));
        let build = build.unwrap_or_else(|| panic!("{script} builds"));
        for value in &values {
            let features = built_in(build, value);
            for client in ["etcd", "zookeeper"] {
                let is_asked_for = value.split(',').any(|word| word == client);
                let is_there = features.contains(client);
                assert_eq!(is_there, is_asked_for, "{script} with {value:?}: {features:?}");
            }
        }
    }
    let words = read("scripts/run");
    for word in values.iter().flat_map(|value| value.split(',')).filter(|word| !word.is_empty()) {
        assert!(words.contains(&format!(" {word}")), "scripts/run does not know {word}");
    }
}

/// The features of the lock library in such a build, as cargo resolves them.
fn built_in(build: &str, with: &str) -> BTreeSet<String> {
    let tree = format!(
        "cargo tree --offline --edges no-dev --prefix none --format '{{p}} [{{f}}]' {build}"
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &tree]).current_dir(root()).env("SECKILL_WITH", with);
    let output = shell.output().expect("cargo runs");
    assert!(output.status.success(), "{tree}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find(|line| line.starts_with("leaselock ")).expect("the lock library");
    let (_, features) = line.rsplit_once('[').expect("its features");
    features.split([',', ']']).map(|name| name.trim().to_owned()).collect()
}

/// The commands of all pages.
fn shown() -> Vec<Shown> {
    let mut all = Vec::new();
    for page in pages() {
        let name = page.path.display().to_string();
        // It tells the past.
        if name == "CHANGELOG.md" {
            continue;
        }
        let typed = code_blocks(&page.text).into_iter().flat_map(|lines| typed_in(&lines));
        // Not the first line of a text of a draw, such as `seckill draw rules 3`.
        let typed =
            typed.filter(|line| !(line.starts_with("seckill draw ") && line.ends_with(" 3")));
        let typed = typed.map(|line| (line, true));
        let named = code_spans(&page.text).into_iter().map(|span| (span.to_owned(), false));
        for (line, is_typed) in typed.chain(named) {
            let words = command_of(&line);
            if words.len() > 1 || words.first().is_some_and(|word| word.starts_with("scripts/")) {
                all.push(Shown { page: name.clone(), line, words, is_typed });
            }
        }
    }
    all
}

/// The lines of a block that are typed. A block with a prompt also has lines that are printed.
fn typed_in(lines: &[&str]) -> Vec<String> {
    let prompted = prompted(lines);
    if prompted.is_empty() {
        return lines.join("\n").replace("\\\n", " ").lines().map(str::to_owned).collect();
    }
    prompted.into_iter().map(|prompted| prompted.command).collect()
}

/// A command behind a prompt, and the lines that the page shows as its output.
pub struct Prompted {
    pub command: String,
    pub shown: Vec<String>,
}

/// The commands of a block with prompts; none of a block without.
pub fn prompted(lines: &[&str]) -> Vec<Prompted> {
    let mut found: Vec<Prompted> = Vec::new();
    for line in lines.join("\n").replace("\\\n", " ").lines().map(str::trim) {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => {
                found.push(Prompted { command: command.to_owned(), shown: Vec::new() });
            }
            (None, Some(last)) if !line.is_empty() => last.shown.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

/// The words of a command of ours, its program first and without a folder of builds; empty for another line.
fn command_of(line: &str) -> Vec<String> {
    let words = words_of(line);
    let is_setting = |word: &String| {
        word.split_once('=').is_some_and(|(name, _)| {
            name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        })
    };
    let mut words: Vec<String> = words.into_iter().skip_while(is_setting).collect();
    let Some(program) = words.first_mut() else { return Vec::new() };
    if let Some((folder, name)) = program.rsplit_once('/')
        && folder.starts_with("target/")
    {
        *program = name.to_owned();
    }
    let is_ours = ["make", "seckill", "loadtest", "cargo"].contains(&program.as_str());
    // A pattern such as `scripts/NAME` names no file.
    let is_script = program.starts_with("scripts/") && !program.contains(['*', '<', '{']);
    if is_ours || is_script { words } else { Vec::new() }
}

/// Splits a line as a shell does, as far as the pages need it; a comment ends it.
fn words_of(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let (mut is_word, mut parentheses) = (false, 0);
    for letter in line.chars() {
        parentheses += i32::from(letter == '(') - i32::from(letter == ')');
        match (letter, quote) {
            ('#', None) if !is_word => break,
            ('"' | '\'', None) => (quote, is_word) = (Some(letter), true),
            (_, Some(end)) if letter == end => quote = None,
            // The words of `$(command)` are one.
            (' ', None) if is_word && parentheses == 0 => {
                words.push(std::mem::take(&mut word));
                is_word = false;
            }
            (' ', None) if parentheses == 0 => {}
            _ => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

type Checked = Result<(), String>;

fn check(words: &[String], is_typed: bool) -> Checked {
    let (program, arguments) = words.split_first().expect("a program");
    match program.as_str() {
        "make" => check_make(arguments, is_typed),
        "seckill" => check_parsed(command_line(), words, is_typed),
        "loadtest" => check_parsed(loadtest::options::Cli::command(), words, is_typed),
        "cargo" => check_cargo(arguments, is_typed),
        script => check_script(script, arguments, is_typed),
    }
}

/// Asks make what it would do, and checks the script that it would become.
fn check_make(arguments: &[String], is_typed: bool) -> Checked {
    let output = Command::new("make").arg("-n").args(arguments).current_dir(root()).output();
    let output = output.expect("make runs");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).expect("text");
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("exec ") {
            let words = words_of(command);
            check_script(&words[0], &words[1..], is_typed)?;
        }
    }
    Ok(())
}

fn check_script(script: &str, arguments: &[String], is_typed: bool) -> Checked {
    let file = fs::metadata(root().join(script)).map_err(|error| error.to_string())?;
    if file.permissions().mode() & 0o100 == 0 {
        return Err("it cannot be executed".to_owned());
    }
    let text = read(script);
    let with = |program: &str| [&[program.to_owned()], arguments].concat();
    let first = arguments.first().map_or("", String::as_str);
    match script {
        "scripts/run" => check(&[vec!["seckill".to_owned()], with("dev")].concat(), is_typed),
        "scripts/loadtest" => check(&with("loadtest"), is_typed),
        "scripts/compare" if ["articles", "break"].contains(&first) => {
            check(&with("loadtest"), is_typed)
        }
        // Their arguments are filters of tests.
        "scripts/test" => check_filters(arguments),
        // The script says what it takes, or the program that it starts.
        _ => {
            let started = match script {
                "scripts/faults" => files_below("tests/faults", "rs"),
                "scripts/bench" | "scripts/compare" => files_below("bench/service/src", "rs"),
                _ => Vec::new(),
            };
            let programs = started.iter().map(|path| fs::read_to_string(path).expect("a source"));
            let known: String = programs.chain([text]).collect();
            let is_known = |word: &str| {
                let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
                is_number || is_placeholder(word) || known.contains(word)
            };
            let words = arguments.iter().flat_map(|word| word.split(','));
            match words.filter(|word| *word != "...").find(|word| !is_known(word)) {
                Some(word) => Err(format!("{script} does not say that it takes {word}")),
                None => Ok(()),
            }
        }
    }
}

fn check_cargo(arguments: &[String], is_typed: bool) -> Checked {
    let (own, after) = match arguments.iter().position(|word| word == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[][..]),
    };
    let manifest: toml::Table = read("Cargo.toml").parse().expect("a manifest");
    let mut package = None;
    for pair in own.windows(2) {
        let name = pair[1].as_str();
        let is_known = match pair[0].as_str() {
            "-p" | "--package" => {
                package = Some(name);
                read("Cargo.lock").contains(&format!("name = \"{name}\"\n"))
            }
            "--test" => manifest["test"]
                .as_array()
                .is_some_and(|tests| tests.iter().any(|test| test["name"].as_str() == Some(name))),
            "--profile" => manifest["profile"].get(name).is_some(),
            "--features" => name.split(',').all(|name| manifest["features"].get(name).is_some()),
            _ => true,
        };
        if !is_known {
            return Err(format!("there is no {} {name}", pair[0]));
        }
    }
    match own.first().map(String::as_str) {
        Some("run") if package.is_none() => {
            check(&[&["seckill".to_owned()], after].concat(), is_typed)
        }
        Some("test") if package.is_none() => {
            let valued = ["--test", "--profile", "--features", "--target-dir"];
            let filters = own.iter().enumerate().skip(1).filter(|(at, word)| {
                !word.starts_with('-') && !valued.contains(&own[at - 1].as_str())
            });
            check_filters(&filters.map(|(_, word)| word.clone()).collect::<Vec<_>>())
        }
        _ => Ok(()),
    }
}

/// Whether each filter of tests finds one: a module by its file, or a part of a test's name.
fn check_filters(filters: &[String]) -> Checked {
    let tests = ["tests", "src"].map(|folder| files_below(folder, "rs"));
    let found = |filter: &str| {
        filter.split("::").all(|part| {
            tests.iter().flatten().any(|path| {
                let names_it = |line: &str| {
                    let name = line.split_once("fn ").and_then(|(_, rest)| rest.split('(').next());
                    name.is_some_and(|name| name.contains(part))
                };
                path.file_stem().is_some_and(|stem| stem == part)
                    || path.iter().any(|folder| folder == part)
                    || fs::read_to_string(path).is_ok_and(|text| text.lines().any(names_it))
            })
        })
    };
    let is_wrong = |it: &&String| !it.starts_with('-') && !is_placeholder(it) && !found(it);
    match filters.iter().find(is_wrong) {
        Some(filter) => Err(format!("no test is called {filter}")),
        None => Ok(()),
    }
}

/// Whether the program's own parser takes these words. A placeholder such as ITEM stands for a number where one is
/// needed. In prose a command may be named without what it needs.
fn check_parsed(parser: clap::Command, words: &[String], is_typed: bool) -> Checked {
    let numbered = words.iter().map(|word| if is_placeholder(word) { "1" } else { word });
    let errors = [
        parser.clone().try_get_matches_from(words).err(),
        parser.try_get_matches_from(numbered).err(),
    ];
    let is_fine = |error: &Option<clap::Error>| match error.as_ref().map(clap::Error::kind) {
        None | Some(ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => true,
        Some(
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ) => !is_typed,
        _ => false,
    };
    match errors {
        [one, other] if is_fine(&one) || is_fine(&other) => Ok(()),
        [error, _] => Err(error.map(|error| error.to_string()).unwrap_or_default()),
    }
}

/// Whether a word stands for what the reader has: ITEM, FOLDER, PROGRAM, or `$item` of an earlier line.
fn is_placeholder(word: &str) -> bool {
    let is_variable = word.starts_with('$') && word.len() > 1;
    is_variable
        || word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

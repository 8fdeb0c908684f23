//! The prose of comments and pages, as far as a program can judge it: habits that make a sentence a riddle are refused.

use std::fs;

use crate::support::prelude::*;
use crate::support::project;

/// Folders whose comments and pages are read, and the kinds of files.
const FOLDERS: &str = "src crates extensions loadtest bench tests docs scripts deploy .github";
const FILES: &[&str] =
    &["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "Cargo.toml"];

/// How a doc comment must not begin: its first line says what the item is or does.
const BEGINNINGS: &[&str] = &["The same", "Same as", "As above", "Also ", "It ", "They ", "These "];

/// Word sequences that use a clause as a noun, or stand where a number or a noun belongs.
const RIDDLES: &str = "\
    so many|so often|of what is|of what was|of what has|for what is|for what was|for what has|\
    to what is|by what is|with what is|from what is|after what|before what|and what is|\
    that somebody|that nobody|is no integer|is no number|is no ticket|of who|for who|to who|\
    by who|from who|than who|with who|who has gone|which the one|the one who|those who";

/// This file lists the habits, so it has them.
const EXCUSED: &[&str] = &["tests/house/prose.rs"];

#[test]
fn prose_has_no_riddles() {
    let root = &*project();
    let mut found = Vec::new();
    let mut texts = 0;
    for path in readable_files(root) {
        let name = path.strip_prefix(root).expect("below the root").display().to_string();
        if EXCUSED.contains(&name.as_str()) {
            continue;
        }
        texts += 1;
        let text = fs::read_to_string(&path).expect("a readable file");
        let code =
            path.extension().is_some_and(|kind| kind == "rs" || kind == "lua" || kind == "sql");
        let mut earlier_is_doc = false;
        for (number, line) in text.lines().enumerate() {
            if ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark)) {
                found.push(format!("{name}:{}: a merge has left it undecided: {line}", number + 1));
            }
            let line = line.trim();
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if let Some(doc) = doc
                && !earlier_is_doc
                && let Some(habit) =
                    BEGINNINGS.iter().find(|begin| doc.trim_start().starts_with(**begin))
            {
                found.push(format!("{name}:{}: begins with {habit:?}: {line}", number + 1));
            }
            earlier_is_doc = doc.is_some();
            let prose = if code { comment_or_texts(line) } else { vec![line] };
            if let Some(habit) = prose.into_iter().find_map(riddle) {
                found.push(format!("{name}:{}: {habit:?}: {line}", number + 1));
            }
        }
    }
    assert!(texts > 100, "the files are found at all: {texts}");
    assert!(found.is_empty(), "{} sentences to rewrite:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_riddle_is_found_between_other_words() {
    assert_eq!(riddle("It waits so often, then ends."), Some("so often"));
    assert_eq!(riddle("a list for Who is there"), Some("for who"));
    assert_eq!(riddle("The buyer, who is signed in, waits."), None);
}

/// The first habit that `prose` has.
fn riddle(prose: &str) -> Option<&'static str> {
    let words: Vec<String> = prose
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let prose = format!(" {} ", words.join(" "));
    RIDDLES.split('|').find(|habit| prose.contains(&format!(" {habit} ")))
}

/// The comment of a line of code, or the texts in quotation marks that it has.
fn comment_or_texts(line: &str) -> Vec<&str> {
    for mark in ["//", "-- "] {
        if let Some((_, comment)) = line.split_once(mark) {
            return vec![comment.trim_start_matches(['/', '!'])];
        }
    }
    line.split('"').skip(1).step_by(2).collect()
}

fn readable_files(root: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        FILES.iter().map(|name| root.join(name)).filter(|path| path.exists()).collect();
    let mut open: Vec<_> = FOLDERS.split(' ').map(|name| root.join(name)).collect();
    while let Some(path) = open.pop() {
        if path.ends_with("target") || path.ends_with("vendor") {
            continue;
        }
        if let Ok(entries) = fs::read_dir(&path) {
            open.extend(entries.flatten().map(|entry| entry.path()));
            continue;
        }
        let kind =
            path.extension().map(|kind| kind.to_string_lossy().into_owned()).unwrap_or_default();
        let script = path.parent().is_some_and(|parent| parent.ends_with("scripts"));
        if ["rs", "lua", "sql", "md", "env", "yml"].contains(&kind.as_str()) || script {
            files.push(path);
        }
    }
    files
}

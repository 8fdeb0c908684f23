//! What the pages' files promise: the same sentences in every language, only files that are there,
//! and foreign files that are what they are said to be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use sha2::{Digest, Sha256};
use shop_domain::Refusal;

use crate::house::docs::{read, root};
use crate::support::files_below;

/// The entries of a table of strings, each with the parameters in its sentences.
fn strings(language: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = read(format!("static/js/strings/{language}.js"));
    let mut entries: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut key = None;
    for line in text.lines() {
        if let Some((name, _)) = line.strip_prefix("  '").and_then(|rest| rest.split_once("':")) {
            assert!(entries.insert(name.to_owned(), BTreeSet::new()).is_none(), "{name} twice");
            key = Some(name.to_owned());
        }
        let Some(parameters) = key.as_ref().and_then(|key| entries.get_mut(key)) else { continue };
        let parts = line.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
        let is_name =
            |word: &&str| word.chars().all(|c| c.is_ascii_lowercase()) && !word.is_empty();
        parameters.extend(parts.map(|(word, _)| word).filter(is_name).map(str::to_owned));
    }
    entries
}

#[test]
fn every_language_has_the_same_sentences() {
    let (english, chinese) = (strings("en"), strings("zh"));
    assert!(english.len() > 300, "the table was read wrongly");
    assert_eq!(english.keys().collect::<Vec<_>>(), chinese.keys().collect::<Vec<_>>());
    for (key, parameters) in &english {
        // A sentence may do without the number that chose it.
        let without_count = |set: &BTreeSet<String>| {
            set.iter().filter(|word| *word != "count").cloned().collect::<BTreeSet<_>>()
        };
        assert_eq!(without_count(parameters), without_count(&chinese[key]), "{key}");
    }
}

#[test]
fn every_sentence_that_a_page_asks_for_exists() {
    let known = strings("en");
    // So that a pattern that finds nothing any more is seen: pages and scripts ask in these forms.
    let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
    for page in files_below("static", "html") {
        let text = read(&page);
        for attribute in ["data-text=\"", "data-label=\""] {
            for key in text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(known.contains_key(key), "{}: no sentence {key}", page.display());
                *asked.entry(attribute).or_default() += 1;
            }
        }
    }
    for script in files_below("static/js", "js") {
        if script.parent().is_some_and(|folder| folder.ends_with("strings")) {
            continue;
        }
        let text = read(&script);
        for key in text.split("text('").skip(1).filter_map(|rest| rest.split('\'').next()) {
            assert!(known.contains_key(key), "{}: no sentence {key}", script.display());
            *asked.entry("text('").or_default() += 1;
        }
    }
    for (form, at_least) in [("data-text=\"", 100), ("data-label=\"", 1), ("text('", 50)] {
        let found = asked.get(form).copied().unwrap_or_default();
        assert!(found >= at_least, "{form} was found {found} times");
    }
}

/// Refusals of requests that no page sends, and those after which a page gets a new ticket.
const WITHOUT_SENTENCE: &str = "amount_overflow invalid_options invalid_query_parameter ticket_expired ticket_invalid \
     ticket_not_yet_valid";

/// A buyer who is refused reads why: a page shows a code without a sentence as "That did not work".
#[test]
fn every_refusal_has_a_sentence() {
    let known = strings("en");
    let is_without = |code: &&str| !known.contains_key(&format!("code.{code}"));
    let without: BTreeSet<&str> = Refusal::CODES.iter().copied().filter(is_without).collect();
    let expected: BTreeSet<&str> = WITHOUT_SENTENCE.split(' ').collect();
    assert_eq!(without, expected, "refusals without a sentence");
}

#[test]
fn every_file_that_a_page_names_exists_and_nothing_runs_inline() {
    for page in files_below("static", "html") {
        let text = read(&page);
        for attribute in ["href=\"/", "src=\"/"] {
            for named in text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
                let named = named.split(['?', '#']).next().unwrap_or_default();
                let served_by_code = ["", "book/", "docs"].contains(&named);
                let there = served_by_code || root().join("static").join(named).is_file();
                assert!(there, "{}: no /{named}", page.display());
            }
        }
        // The content security policy would refuse them.
        for inline in ["<script>", "<style", " style=\"", " onclick=", "javascript:"] {
            assert!(!text.contains(inline), "{}: {inline}", page.display());
        }
        // Sent before its script has come, another form would show what was typed in the address, and lose it.
        for form in text.split("<form").skip(1).filter_map(|rest| rest.split('>').next()) {
            assert!(form.contains(" method=\"dialog\""), "{}: <form{form}>", page.display());
        }
    }
}

#[test]
fn every_foreign_file_is_what_the_table_says() {
    let table = read("docs/browser.md");
    let mut listed = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, file, _, version, licence, checksum, _] = cells[..] else { continue };
        let file = file.trim_matches('`');
        let bytes = fs::read(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(checksum.trim_matches('`'), hex::encode(Sha256::digest(&bytes)), "{file}");
        assert!(!licence.is_empty(), "{file} has no licence");
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
        assert!(head.contains(version), "{file} does not say that it is {version}");
        listed.insert(file.to_owned());
    }
    for folder in ["static/vendor", "tests/vendor"] {
        let Ok(entries) = fs::read_dir(root().join(folder)) else { continue };
        for entry in entries.flatten() {
            let file = format!("{folder}/{}", entry.file_name().to_string_lossy());
            assert!(listed.contains(&file), "{file} is not in the table of docs/browser.md");
        }
    }
    assert!(!listed.is_empty(), "no row was read: the table has another form");
}

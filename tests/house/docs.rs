//! What the documents say is checked against what is there: links, files and settings that they name. `commands`
//! checks the commands, `reference` the pages that are made from the code.

use std::fs;

use gates::LIST;
use seckill::config::DEFAULTS;

use crate::support::prelude::*;
use crate::support::project;

/// A first page that is longer is not read; the rest belongs to a page of `docs`.
const README_LINES_MAX: usize = 130;
const README_WORDS_MAX: usize = 1_300;
const PAGE_LINES_MAX: usize = 400;
/// Words of the README and all pages of `docs` together: nobody reads more.
const WORDS_MAX: usize = 45_000;

/// One page, by its path below the root.
pub struct Page {
    pub path: PathBuf,
    pub text: String,
}

#[test]
fn the_readme_is_one_page_and_counts_the_strategies() {
    let readme = read("README.md");
    let lines = readme.lines().count();
    assert!(lines <= README_LINES_MAX, "README.md has more than {README_LINES_MAX} lines");
    let words = readme.split_whitespace().count();
    assert!(words <= README_WORDS_MAX, "README.md has more than {README_WORDS_MAX} words");
    let sentence = format!("one of {} *strategies*", LIST.len());
    assert!(readme.contains(&sentence), "README.md must say: {sentence}");
}

/// A number that no invariant has. Numbers are not given out again, because old reports name them.
const UNUSED_NUMBER: usize = 15;

/// The audits name their invariants I1, I2 and so on: the pages say how many there are, and explain each.
#[test]
fn every_invariant_is_counted_and_explained() {
    let mut judged = BTreeSet::new();
    for folder in ["crates/ledger-audit/src", "crates/ledger-audit/src/rules"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder").flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            judged.extend(numbers_of_invariants(&text));
        }
    }
    let count = judged.len();
    let last = judged.last().copied().unwrap_or_default();
    let numbered: BTreeSet<usize> = (1..=last).filter(|&number| number != UNUSED_NUMBER).collect();
    assert_eq!(judged, numbered, "each rule has a number");
    assert!(count >= 20, "{judged:?}");
    let page = read("docs/load-test.md");
    let (_, verdict) = page.split_once("## How to read the verdict").expect("a section");
    let verdict = verdict.split("\n## ").next().unwrap_or_default();
    let mut explained: BTreeSet<usize> = numbers_of_invariants(verdict).collect();
    for range in verdict.split("**").filter(|words| words.contains(" to ")) {
        let ends: Vec<usize> = numbers_of_invariants(range).collect();
        if let [first, last] = ends[..] {
            explained.extend(first..=last);
        }
    }
    assert_eq!(explained, judged, "docs/load-test.md explains each invariant");
    assert!(verdict.contains(&format!("There are {count}")), "docs/load-test.md: {count}");
    assert!(read("README.md").contains(&format!("{count} invariants")), "README.md: {count}");
    for page in ["docs/architecture.md", "docs/decisions-builds.md"] {
        assert!(read(page).contains(&format!("I1 to I{last}")), "{page}: {last}");
    }
}

/// The numbers of words like I7.
fn numbers_of_invariants(text: &str) -> impl Iterator<Item = usize> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter_map(|word| word.strip_prefix('I')?.parse().ok())
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut count = 0;
    for page in pages() {
        let folder = page.path.parent().expect("a page is in a folder");
        for target in links(&page.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { page.path.clone() } else { folder.join(file) };
            assert!(root().join(&path).exists(), "{}: no {target}", page.path.display());
            if !heading.is_empty() {
                let text = read(&path);
                assert!(anchors(&text).contains(heading), "{}: no {target}", page.path.display());
            }
            count += 1;
        }
    }
    assert!(count > 0, "no link was found: the test reads the pages wrongly");
}

#[test]
fn every_page_of_docs_is_in_the_book() {
    let summary = read("docs/SUMMARY.md");
    let of_docs = links(&summary).into_iter().filter(|target| !target.starts_with("../"));
    let listed: BTreeSet<PathBuf> = of_docs.map(|target| Path::new("docs").join(target)).collect();
    let expected: BTreeSet<PathBuf> = pages()
        .into_iter()
        .map(|page| page.path)
        .filter(|path| path.starts_with("docs") && !path.ends_with("SUMMARY.md"))
        .collect();
    assert_eq!(listed, expected, "docs/SUMMARY.md names each page of docs");
}

#[test]
fn pages_are_not_too_long() {
    let mut words = read("README.md").split_whitespace().count();
    for page in pages().into_iter().filter(|page| page.path.starts_with("docs")) {
        let lines = page.text.lines().count();
        assert!(lines <= PAGE_LINES_MAX, "{} has {lines} lines", page.path.display());
        words += page.text.split_whitespace().count();
    }
    assert!(words <= WORDS_MAX, "{words} words; at most {WORDS_MAX}");
}

#[test]
fn every_file_that_is_named_exists() {
    let folders =
        "src tests scripts docs migrations loadtest static deploy bench crates extensions";
    let mut count = 0;
    for page in pages() {
        for span in code_spans(&page.text) {
            // A path alone: not a command, a pattern or a placeholder.
            let folder = span.split_once('/').map(|(folder, _)| folder);
            let is_path = folder.is_some_and(|name| folders.split(' ').any(|it| it == name));
            if is_path && !span.contains([' ', '*', '<', '{']) {
                assert!(root().join(span).exists(), "{}: no {span}", page.path.display());
                count += 1;
            }
        }
    }
    assert!(count > 0, "no path was found: the test reads the pages wrongly");
}

/// A server reads no second setting of a line.
#[test]
fn an_option_file_has_one_setting_a_line() {
    let page = read("docs/databases.md");
    let blocks = page.split("```ini\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    assert!(lines.len() > 10, "{lines:?}");
    for line in lines {
        let setting = line.split('#').next().unwrap_or_default();
        let is_one = !setting.contains(',') && setting.matches('=').count() <= 1;
        assert!(is_one, "several settings: {line}");
    }
}

/// The order of the imports, as every page shows it.
const MAP: &str = "http -> purchase -> gates -> {leaselock, ledger} -> shop-domain";

#[test]
fn the_map_is_drawn_in_one_way() {
    let mut texts: Vec<_> = pages().into_iter().map(|page| (page.path, page.text)).collect();
    texts.push((PathBuf::from("src/lib.rs"), read("src/lib.rs")));
    let mut drawn = 0;
    for (path, text) in &texts {
        for line in text.lines().filter(|line| line.contains("http -> ")) {
            assert!(line.contains(MAP), "{}: {line}", path.display());
            drawn += 1;
        }
    }
    assert!(drawn >= 3, "{drawn} maps");
}

#[test]
fn every_variable_that_is_named_exists() {
    let mut known = settings();
    for script in ["compare", "loadtest", "run", "test", "install-packages", "from-sid"] {
        known.extend(variables(&read(format!("scripts/{script}"))).map(str::to_owned));
    }
    // Those that make tests longer stand where they are read.
    let longer = "http/fuzz/dice http/many_pages purchase/overload house/reference process/stopping \
                  support/mod ledger/waiting_list/rush shop/events/volume";
    for test in longer.split(' ') {
        known.extend(variables(&read(format!("tests/{test}.rs"))).map(str::to_owned));
    }
    for page in pages() {
        for name in variables(&page.text) {
            assert!(known.contains(name), "{}: there is no {name}", page.path.display());
        }
    }
}

/// Variables that set a key of `defaults.toml`.
fn settings() -> BTreeSet<String> {
    let defaults: toml::Table = toml::from_str(&DEFAULTS).expect("defaults.toml is TOML");
    let names = defaults.iter().flat_map(|(key, value)| match value.as_table() {
        Some(section) => section.keys().map(|inner| format!("{key}_{inner}")).collect::<Vec<_>>(),
        None => vec![key.clone()],
    });
    names.map(|name| format!("SECKILL_{name}").to_uppercase()).collect()
}

fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| word.starts_with("SECKILL_") && *word != "SECKILL_")
}

pub fn root() -> PathBuf {
    project()
}

pub fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages for people: those at the root and those in `docs`.
pub fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    for folder in ["", "docs"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder of the project").flatten() {
            let path = Path::new(folder).join(entry.file_name());
            if path.extension().is_some_and(|kind| kind == "md") {
                pages.push(Page { text: read(&path), path });
            }
        }
    }
    let has = |name: &str| pages.iter().any(|page| page.path == Path::new(name));
    for name in ["README.md", "CHANGELOG.md", "docs/architecture.md", "docs/decisions.md"] {
        assert!(has(name), "{name} is missing");
    }
    pages
}

/// The targets of `[words](target)` and `![words](target)`, outside code.
pub fn links(text: &str) -> Vec<&str> {
    let prose = parts(text).into_iter().filter(|part| !part.is_code);
    prose
        .flat_map(|part| part.line.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .collect()
}

/// The names by which headings are linked: lower case, spaces as hyphens, no other signs.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings =
        parts(text).into_iter().filter(|part| !part.is_code && part.line.starts_with('#'));
    headings
        .map(|part| {
            let words = part.line.trim_start_matches('#').trim().to_lowercase();
            let kept =
                words.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
            kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
        })
        .collect()
}

/// The lines of each part between fences.
pub fn code_blocks(text: &str) -> Vec<Vec<&str>> {
    parts(text)
        .chunk_by(|one, next| one.is_code == next.is_code && one.block == next.block)
        .filter(|lines| lines[0].is_code)
        .map(|lines| lines.iter().map(|part| part.line).collect())
        .collect()
}

/// What stands between backticks in prose. A span never goes over the end of a line.
pub fn code_spans(text: &str) -> Vec<&str> {
    let prose = parts(text).into_iter().filter(|part| !part.is_code);
    prose.flat_map(|part| part.line.split('`').skip(1).step_by(2)).collect()
}

/// A line, whether it stands between fences, and the number of fences above it.
struct Part<'a> {
    line: &'a str,
    is_code: bool,
    block: usize,
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut block = 0;
    let mut parts = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            block += 1;
        } else {
            parts.push(Part { line, is_code: block % 2 == 1, block });
        }
    }
    parts
}

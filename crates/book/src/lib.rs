//! Makes the documents pages of the program: the README, `docs`, and the pages of the libraries.
//!
//! The build script of the service calls this crate, so no part of it is in the program.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

/// The list of contents, in which each link is a page.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The documents whose links are links between pages.
struct Book<'a> {
    pages: BTreeSet<String>,
    /// The address of the repository; empty where it is not known.
    repository: &'a str,
}

/// Makes the pages and their pictures: a Rust expression with the address, the media type and the content of each.
///
/// # Errors
/// A document or a picture cannot be read.
pub fn pages(root: &Path, repository: &str) -> io::Result<String> {
    let summary = fs::read_to_string(root.join(SUMMARY))?;
    let contents = contents(&summary);
    let linked = events(&contents).into_iter().filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. }) => Some(resolved(SUMMARY, &dest_url)),
        _ => None,
    });
    let book = Book { pages: linked.collect(), repository };
    let list = book.html(SUMMARY, &events(&contents));
    let mut files = String::new();
    for path in &book.pages {
        let page = book.page(path, &fs::read_to_string(root.join(path))?, &list);
        files += &format!("({:?}, \"text/html\", {page:?}.as_bytes()),\n", address(path));
        println!("cargo::rerun-if-changed={path}");
    }
    let pictures = fs::read_dir(root.join("docs/img"))?.map(|entry| Ok(entry?.path()));
    let mut pictures = pictures.collect::<io::Result<Vec<PathBuf>>>()?;
    pictures.sort();
    for path in pictures {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kind = if name.ends_with(".svg") { "image/svg+xml" } else { "image/png" };
        files += &format!("(\"book/img/{name}\", {kind:?}, include_bytes!({path:?})),\n");
    }
    println!("cargo::rerun-if-changed={SUMMARY}\ncargo::rerun-if-changed=docs/img");
    Ok(format!("&[{files}]"))
}

/// The list of all pages. Its headings become bold, because a page has headings of its own.
fn contents(summary: &str) -> String {
    let all = summary.trim_start_matches("# Summary\n");
    let lines = all.lines().map(|line| match line.strip_prefix("# ") {
        Some(words) => format!("**{words}**\n"),
        None => format!("{line}\n"),
    });
    lines.collect()
}

fn events(text: &str) -> Vec<Event<'_>> {
    Parser::new_ext(text, Options::ENABLE_TABLES).collect()
}

/// The address of the page that is made of a document, without the slash before it.
fn address(path: &str) -> String {
    match path.strip_prefix("docs/").unwrap_or(path).strip_suffix(".md") {
        Some("README") if path == "README.md" => "book/".to_owned(),
        name => format!("book/{}.html", name.unwrap_or(path)),
    }
}

/// The path of the file to which the document `from` links.
fn resolved(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The words of the heading that begins with the first of the events.
fn heading(events: &[Event]) -> String {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let words = inside.filter_map(|event| match event {
        Event::Text(words) | Event::Code(words) => Some(&**words),
        _ => None,
    });
    words.collect()
}

/// The name by which links name a heading: lower case, spaces as hyphens, no other signs.
fn anchor(heading: &str) -> String {
    let words = heading.to_lowercase();
    let kept = words.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn to_html<'a>(events: impl Iterator<Item = Event<'a>>) -> String {
    let mut text = String::new();
    html::push_html(&mut text, events);
    text
}

impl Book<'_> {
    /// The whole page of a document.
    fn page(&self, path: &str, text: &str, list: &str) -> String {
        let events = events(text);
        let begin =
            events.iter().position(|event| matches!(event, Event::Start(Tag::Heading { .. })));
        let title = heading(begin.map_or(&[], |at| &events[at..]));
        let link = format!("href=\"/{}\"", address(path));
        let list = list.replacen(&link, &format!("{link} aria-current=\"page\""), 1);
        let page = include_str!("page.html").replace("{contents}", &list);
        let page = page.replace("{title}", &to_html([Event::Text(title.into())].into_iter()));
        page.replace("{text}", &self.html(path, &events))
    }

    /// The HTML of a document, whose links lead to pages of the program. A wide table or listing is scrolled by keyboard,
    /// too. The policy of the pages allows no style of a table's column.
    fn html(&self, from: &str, events: &[Event]) -> String {
        let changed = events.iter().enumerate().map(|(at, event)| {
            let mut event = event.clone();
            match &mut event {
                Event::Start(Tag::Heading { id, .. }) => {
                    *id = Some(anchor(&heading(&events[at..])).into());
                }
                Event::Start(Tag::Table(alignments)) => alignments.clear(),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    match self.target(from, dest_url) {
                        Some(target) => *dest_url = target.into(),
                        None => {
                            let path = resolved(from, dest_url);
                            event = Event::InlineHtml(format!("<a title=\"{path}\">").into());
                        }
                    }
                }
                _ => {}
            }
            event
        });
        let text = to_html(changed);
        text.replace("<pre>", "<pre tabindex=\"0\">").replace("<table>", "<table tabindex=\"0\">")
    }

    /// Where a link of the document `from` leads. `None`: to a file of the source, and nobody knows where that is.
    fn target(&self, from: &str, link: &str) -> Option<String> {
        let (file, anchor) = link.find('#').map_or((link, ""), |at| link.split_at(at));
        if file.is_empty() || file.contains(':') {
            return Some(link.to_owned());
        }
        let path = resolved(from, file);
        let target = if self.pages.contains(&path) {
            format!("/{}", address(&path))
        } else if let Some(picture) = path.strip_prefix("docs/img/") {
            format!("/book/img/{picture}")
        } else if let Some(page) = path.strip_prefix("static/") {
            format!("/{page}")
        } else if self.repository.is_empty() {
            return None;
        } else {
            format!("{}/blob/HEAD/{path}", self.repository)
        };
        Some(target + anchor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages() {
        let pages = ["README.md", "docs/README.md", "docs/locks.md"].map(str::to_owned).into();
        let mut book = Book { pages, repository: "https://example.org/shop" };
        for (from, link, target) in [
            ("README.md", "docs/locks.md#all", "/book/locks.html#all"),
            ("docs/README.md", "../README.md", "/book/"),
            ("docs/locks.md", "README.md", "/book/README.html"),
            ("docs/locks.md", "#all", "#all"),
            ("docs/locks.md", "img/idea.svg", "/book/img/idea.svg"),
            ("docs/locks.md", "../static/item.html", "/item.html"),
            ("docs/locks.md", "https://example.net/a.md", "https://example.net/a.md"),
            ("docs/locks.md", "../src/main.rs", "https://example.org/shop/blob/HEAD/src/main.rs"),
        ] {
            assert_eq!(book.target(from, link).as_deref(), Some(target), "{from}: {link}");
        }
        book.repository = "";
        assert_eq!(book.target("docs/locks.md", "../src/main.rs"), None);
        let text = "# All `locks` & more\n\n[a](../README.md) [b](../src) `<c>`\n";
        let page = book.page("docs/locks.md", text, "<a href=\"/book/locks.html\">Locks</a>");
        for part in [
            "<title>All locks &amp; more · ",
            "<h1 id=\"all-locks--more\">",
            "<a href=\"/book/\">a</a> <a title=\"src\">b</a> <code>&lt;c&gt;</code>",
            "<a href=\"/book/locks.html\" aria-current=\"page\">Locks</a>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}

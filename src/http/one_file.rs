//! The page that checks draws as one file: what it names is put into it, so that a buyer can save it, and use it without
//! the shop.

use axum::http::HeaderValue;
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use sha2::{Digest, Sha256};

/// A page in one file.
pub(super) struct OneFile {
    pub html: String,
    /// Allows the scripts and styles of the page by their hashes, and those of the folder `static`.
    pub policy: HeaderValue,
}

impl OneFile {
    /// Puts what a page names into it. A style sheet and a script have a line of the page each; the scripts go to its end,
    /// because none inside a page is deferred.
    pub(super) fn new(page: &str, read: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Self> {
        let text = |name| String::from_utf8(read(name)?).ok();
        let mut html = String::new();
        let mut scripts = String::new();
        let mut script_hashes = String::new();
        let mut style_hashes = String::new();
        for line in page.lines() {
            let tag = line.trim();
            if let Some(name) = between(tag, "<script defer src=\"", "\"></script>") {
                scripts += &inside("script", &text(name)?, &mut script_hashes);
            } else if let Some(name) = between(tag, "<link rel=\"stylesheet\" href=\"", "\">") {
                html += &inside("style", &text(name)?, &mut style_hashes);
            } else {
                if tag == "</body>" {
                    html += &scripts;
                }
                html += &with_picture(line, &read)?;
                html.push('\n');
            }
        }
        let policy = format!(
            "default-src 'self'; img-src 'self' data: https:; style-src 'self'{style_hashes}; \
             script-src 'self'{script_hashes}; object-src 'none'; base-uri 'none'; form-action 'self'; \
             frame-ancestors 'none'"
        );
        Some(Self { html, policy: HeaderValue::try_from(policy).ok()? })
    }
}

/// An element with `text`, whose hash is added to `hashes`.
fn inside(element: &str, text: &str, hashes: &mut String) -> String {
    *hashes += &format!(" 'sha256-{}'", BASE64.encode(Sha256::digest(text)));
    format!("<{element}>{text}</{element}>\n")
}

/// The line with the picture that it names, if any.
fn with_picture(line: &str, read: impl Fn(&str) -> Option<Vec<u8>>) -> Option<String> {
    let Some((before, rest)) = line.split_once("\"img/") else { return Some(line.to_owned()) };
    let (name, after) = rest.split_once('"')?;
    let picture = BASE64.encode(read(&format!("img/{name}"))?);
    Some(format!("{before}\"data:image/svg+xml;base64,{picture}\"{after}"))
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(start)?.strip_suffix(end)
}

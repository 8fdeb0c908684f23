//! The documents as pages of the running shop.

use std::fs;

use seckill::http::pages::NO_PAGES;

use super::*;
use crate::support::project;

/// Every link is followed, beginning at the first page. What it names is there, and nothing is asked of another host.
#[tokio::test]
async fn every_link_of_the_book_leads_somewhere() {
    let (_shop, instance) = Shop::open().await;
    let stranger = instance.stranger();
    let mut served = BTreeMap::new();
    let mut named = Vec::new();
    let mut waiting = vec!["/book/".to_owned()];
    while let Some(path) = waiting.pop() {
        if served.contains_key(&path) {
            continue;
        }
        let answer = stranger.get(&path).await;
        // The first page of the API's description leads on.
        let is_served = answer.status == 200 || (answer.status, &*path) == (303, "/docs");
        assert!(is_served, "{path}: {}", answer.status);
        if path.starts_with("/book/") && !path.starts_with("/book/img/") {
            for link in links_of_page(&path, &answer) {
                let (to, heading) = link.split_once('#').unwrap_or((link, ""));
                let to = if to.is_empty() { path.clone() } else { to.to_owned() };
                if !heading.is_empty() {
                    named.push((to.clone(), format!(" id=\"{heading}\"")));
                }
                waiting.push(to);
            }
        }
        served.insert(path, answer.text);
    }
    for (page, heading) in named {
        assert!(served[&page].contains(&heading), "{page}: no {heading}");
    }
    let summary = fs::read_to_string(project().join("docs/SUMMARY.md")).expect("it is there");
    let pages = summary.split("](").skip(1).filter_map(|rest| rest.split_once(".md)"));
    for (name, _) in pages {
        let page = match name {
            "../README" => "/book/".to_owned(),
            name => format!("/book/{}.html", name.trim_start_matches("../")),
        };
        assert!(served.contains_key(&page), "{name} is not served");
    }
}

/// A folder of pages replaces those of the program, and has a link to the book, so the book is served beside it. Its
/// address without the last slash leads to it.
#[tokio::test]
async fn the_book_is_beside_every_folder_of_pages() {
    let folder = TestFolder::new("pages");
    fs::write(folder.join("index.html"), "<p>").expect("written");
    for dir in [Path::new(""), &*folder] {
        let (_shop, instance) = Shop::open_with(|config| config.http.static_dir = dir.into()).await;
        let stranger = instance.stranger();
        if dir != Path::new("") {
            for edited in ["<p>edited", "<p>edited again"] {
                fs::write(folder.join("index.html"), edited).expect("written");
                assert_eq!(stranger.get("/").await.text, edited);
            }
            assert_eq!(stranger.get("/orders.html").await.status, 404);
        }
        let bare = stranger.get("/book").await.expect_status(308);
        assert_eq!(bare.headers["location"], "/book/", "{}", dir.display());
        for path in ["/book/", "/book/architecture.html", "/book/img/purchase.svg"] {
            assert_eq!(stranger.get(path).await.status, 200, "{}: {path}", dir.display());
        }
        assert_eq!(stranger.get("/book/nothing.html").await.status, 404, "{}", dir.display());
    }
    let (_shop, instance) =
        Shop::open_with(|config| config.http.static_dir = NO_PAGES.into()).await;
    for path in ["/", "/book", "/book/"] {
        assert_eq!(instance.stranger().get(path).await.status, 404, "{path}: the API alone");
    }
}

/// Checks the form of a page; its links but for those to other hosts, which a reader may follow.
fn links_of_page<'a>(path: &str, answer: &'a Answer) -> Vec<&'a str> {
    assert_eq!(answer.headers["content-type"], "text/html", "{path}");
    let policy = answer.headers["content-security-policy"].to_str().expect("text");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{path}: {policy}");
    let page = &answer.text;
    assert!(page.contains(" · The book of Seckill</title>") && page.contains("<h1 id="), "{path}");
    assert!(!page.contains("<script") && !page.contains(" style=\""), "{path}");
    let tags = page.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
    let mut links = Vec::new();
    for (tag, _) in tags {
        let mut parts = ["href=\"", "src=\""].into_iter().filter_map(|name| tag.split_once(name));
        let Some(target) = parts.next().and_then(|(_, rest)| rest.split('"').next()) else {
            continue;
        };
        let is_foreign = target.contains("://");
        assert!(!is_foreign || tag.starts_with("a "), "{path}: <{tag}>");
        if !is_foreign {
            links.push(target);
        }
    }
    links
}

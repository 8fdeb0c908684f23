//! The pages of the shop: the files of `static`, which are inside the program, or those of a folder; and the documents.
//!
//! The program needs no folder beside it, wherever it is started. Entity tags and
//! compressed forms are made once in a process, not for each request.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::LazyLock;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{Redirect, Response};
use axum::routing::get;
use axum_extra::headers::{ETag, HeaderMapExt, IfNoneMatch};
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::{Embed, EmbeddedFile};
use sha2::{Digest, Sha256};
use tower_http::compression::CompressionLayer;
use tower_http::services::{ServeDir, ServeFile};

use super::one_file::OneFile;

/// The value of `http.static_dir` that means: no pages.
pub const NO_PAGES: &str = "none";

/// The page of the address `/`.
const INDEX: &str = "index.html";
/// The header of a request that decides between the plain and the compressed form, for caches.
const ENCODING: HeaderValue = HeaderValue::from_static("accept-encoding");
/// The page that checks draws, which is one file.
const VERIFY: &str = "verify.html";
/// The page of every unknown address.
const NOT_FOUND: &str = "404.html";

/// The files of the folder `static`.
#[derive(Embed)]
#[folder = "static"]
struct Files;

/// The documents as pages, made by the build script: address, media type and content. None without the feature `book`.
static BOOK: &[(&str, &str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/book.rs"));

/// A file inside the program, ready to be sent.
struct PageFile {
    kind: HeaderValue,
    tag: ETag,
    plain: Bytes,
    /// `None` where the compressed form is no shorter.
    gzip: Option<Bytes>,
}

/// The pages inside the program, by their path.
static PAGES: LazyLock<HashMap<String, PageFile>> = LazyLock::new(|| {
    let named = Files::iter().filter_map(|name| Files::get(&name).map(|file| (name, file)));
    let page = |name: &str, file: EmbeddedFile| {
        let one = VERIFY_FILE.as_ref().filter(|_| name == VERIFY);
        let plain = match one {
            Some(one) => Bytes::from_static(one.html.as_bytes()),
            None => Bytes::from_owner(file.data),
        };
        PageFile::new(file.metadata.mimetype(), plain)
    };
    let files = named.filter_map(|(name, file)| Some((name.to_string(), page(&name, file)?)));
    let book = BOOK.iter().filter_map(|&(name, kind, content)| {
        Some((name.to_owned(), PageFile::new(kind, Bytes::from_static(content))?))
    });
    files.chain(book).collect()
});

/// The page [`VERIFY`]; `None` never happens, because all its files are inside the program.
static VERIFY_FILE: LazyLock<Option<OneFile>> =
    LazyLock::new(|| OneFile::new(&String::from_utf8(file(VERIFY)?).ok()?, file));

/// The content security policy of the page [`VERIFY`]; `None` for any other path.
pub fn policy_of(path: &str) -> Option<HeaderValue> {
    let is_one_file = path.strip_prefix('/') == Some(VERIFY);
    VERIFY_FILE.as_ref().filter(|_| is_one_file).map(|page| page.policy.clone())
}

/// The content of a file inside the program.
fn file(name: &str) -> Option<Vec<u8>> {
    Files::get(name).map(|file| file.data.into_owned())
}

/// The routes of the pages: of those in `static_dir`, or, where it is empty, of those inside the program.
pub fn router<S: Clone + Send + Sync + 'static>(static_dir: &Path) -> Router<S> {
    if static_dir.as_os_str() == NO_PAGES {
        return Router::new();
    }
    // Compressed before the first buyer comes.
    LazyLock::force(&PAGES);
    if static_dir.as_os_str().is_empty() {
        return book().fallback(get(embedded));
    }
    let not_found = ServeFile::new(static_dir.join(NOT_FOUND));
    let files = ServeDir::new(static_dir).not_found_service(not_found);
    Router::new().fallback_service(files).layer(CompressionLayer::new()).merge(book::<S>())
}

/// The routes of the documents. They are inside the program also where the other pages are in a folder, because those
/// pages link to them.
fn book<S: Clone + Send + Sync + 'static>() -> Router<S> {
    if !cfg!(feature = "book") {
        return Router::new();
    }
    Router::new()
        .route("/book", get(async || Redirect::permanent("/book/")))
        .route("/book/", get(embedded))
        .route("/book/{*page}", get(embedded))
}

async fn embedded(uri: Uri, headers: HeaderMap) -> Response {
    let name = Some(uri.path().trim_start_matches('/')).filter(|name| !name.is_empty());
    if let Some(page) = PAGES.get(name.unwrap_or(INDEX)) {
        return page.answer(&headers);
    }
    let page = PAGES.get(NOT_FOUND);
    let mut response = page.map_or_else(Response::default, |page| page.send(&headers));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

impl PageFile {
    /// Compresses a file; `None` when its media type is no header, which no file of ours has.
    fn new(kind: &str, plain: Bytes) -> Option<Self> {
        let kind = HeaderValue::from_str(kind).ok()?;
        // Weak: the plain and the compressed form have one tag.
        let tag = format!("W/\"{}\"", hex::encode(Sha256::digest(&plain))).parse().ok()?;
        let gzip = compressed(&plain).filter(|gzip| gzip.len() < plain.len());
        Some(Self { kind, tag, plain, gzip })
    }

    /// Sends the file, or says that the client has it already.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let mut response = match headers.typed_get::<IfNoneMatch>() {
            Some(known) if !known.precondition_passes(&self.tag) => {
                let mut response = Response::default();
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                response
            }
            _ => self.send(headers),
        };
        response.headers_mut().typed_insert(self.tag.clone());
        response.headers_mut().insert(VARY, ENCODING);
        response
    }

    fn send(&self, headers: &HeaderMap) -> Response {
        let gzip = self.gzip.as_ref().filter(|_| takes_gzip(headers));
        let mut response = Response::new(Body::from(gzip.unwrap_or(&self.plain).clone()));
        let added = response.headers_mut();
        added.insert(CONTENT_TYPE, self.kind.clone());
        added.insert(VARY, ENCODING);
        if gzip.is_some() {
            added.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

fn compressed(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// Whether the client takes gzip: it names gzip or any encoding, and not with the weight 0 (RFC 9110, 12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut takes_any = false;
    for coding in values.flat_map(|value| value.split(',')) {
        let coding = coding.to_ascii_lowercase();
        let (name, weight) = coding.split_once(';').unwrap_or((&coding, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|text| text.trim().parse().ok());
        let is_taken = weight != Some(0.0_f32);
        match name.trim() {
            "gzip" | "x-gzip" => return is_taken,
            "*" => takes_any = is_taken,
            _ => {}
        }
    }
    takes_any
}

//! What no decent client sends: half requests, endless ones, ambiguous ones.

use super::assert_clean;
use super::ledger::Ledger;
use crate::support::prelude::*;
use crate::support::raw::{Heard, Raw};

/// How long the instances of these tests wait for a head or a body.
const PATIENCE_MS: u64 = 400;
/// The pause of a client that sends byte by byte.
const TRICKLE: Duration = Duration::from_millis(20);

/// An instance with short time limits, and the ledger as it was before the requests.
struct Testbed {
    shop: Shop,
    instance: Instance,
    item: i64,
    before: Ledger,
}

impl Testbed {
    async fn new() -> Self {
        let (shop, instance) = Shop::open_with(|config| {
            config.http.head_timeout_ms = PATIENCE_MS;
            config.http.body_timeout_ms = PATIENCE_MS;
        })
        .await;
        let item = instance.make_item(json!({ "per_buyer_limit": 10 })).await;
        let before = Ledger::of(&shop).await;
        Self { shop, instance, item, before }
    }

    async fn connect(&self) -> Raw {
        Raw::connect(self.instance.addr).await
    }

    /// The head of a purchase with more headers, each with its line end.
    fn purchase(&self, headers: &str) -> String {
        let (addr, token) = (self.instance.addr, self.instance.token(1, Role::Buyer));
        format!(
            "POST /api/seckill/mysql-atomic/{} HTTP/1.1\r\nHost: {addr}\r\nAuthorization: Bearer {token}\r\n{headers}\r\n",
            self.item
        )
    }

    /// Sends one request and reads one answer.
    async fn ask(&self, request: impl AsRef<[u8]>) -> (Heard, Raw) {
        let mut raw = self.connect().await;
        raw.send(request).await;
        (raw.answer().await, raw)
    }

    /// Nothing was bought, and the service still serves.
    async fn assert_untouched(&self, what: &str) {
        assert_eq!(Ledger::of(&self.shop).await, self.before, "{what}: the ledger changed");
        assert_eq!(self.instance.stranger().get("/healthz").await.status, 200, "{what}");
    }

    async fn assert_clean(&self) {
        self.assert_untouched("in the end").await;
        assert_clean(&self.instance, self.item).await;
    }
}

const BODY: &str = "{\"quantity\":1}";
const JSON: &str = "Content-Type: application/json\r\n";
const CHUNKED: &str = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";

#[tokio::test]
async fn slow_clients_are_let_go() {
    let testbed = Testbed::new().await;
    // Connections on which nothing is said, or as much as could still become HTTP/2.
    for start in
        ["", "P", "PRI * HTTP/2.0\r\n\r\nSM", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HT"]
    {
        let mut raw = testbed.connect().await;
        raw.send(start).await;
        assert!(raw.ends().await, "after {start:?} the connection stays open");
    }
    // A head that never ends.
    let mut raw = testbed.connect().await;
    let head = testbed.purchase("").into_bytes();
    let endless = head.into_iter().take(60).chain(std::iter::repeat(b'x'));
    raw.trickle(endless.map(|byte| [byte]), TRICKLE).await;
    let heard = raw.answer().await;
    assert!([0, 408].contains(&heard.status), "{heard:?}");
    assert!(raw.is_closed().await, "a slow head keeps its connection");
    testbed.assert_untouched("a slow head").await;
    // A body that never ends.
    let mut raw = testbed.connect().await;
    raw.send(testbed.purchase(&format!("{JSON}Content-Length: 1000\r\n"))).await;
    raw.trickle(std::iter::repeat(" "), TRICKLE).await;
    let heard = raw.answer().await;
    assert_eq!(heard.brief(), (408, "request_timeout"), "{heard:?}");
    assert!(heard.head.contains("connection: close") && raw.is_closed().await);
    // The same in chunks.
    let mut raw = testbed.connect().await;
    raw.send(testbed.purchase(CHUNKED)).await;
    raw.trickle(["1", "\r\n", " ", "\r\n"].iter().cycle(), TRICKLE).await;
    assert_eq!(raw.answer().await.brief(), (408, "request_timeout"));
    testbed.assert_clean().await;
}

/// A body without end is cut.
#[tokio::test]
async fn a_body_that_is_endless_too_large_or_cut_buys_nothing() {
    let testbed = Testbed::new().await;
    let mut raw = testbed.connect().await;
    raw.send(testbed.purchase(CHUNKED)).await;
    // A kilobyte at a time.
    let chunk = format!("400\r\n{}\r\n", " ".repeat(1024));
    raw.trickle(std::iter::repeat(chunk), Duration::from_millis(5)).await;
    let heard = raw.answer().await;
    assert_eq!(heard.brief(), (413, "payload_too_large"), "{heard:?}");
    assert!(heard.head.contains("connection: close") && raw.is_closed().await);
    // A large one is refused before it is sent.
    for length in ["16385", "99999999999", "9223372036854775808"] {
        let headers = format!("{JSON}Content-Length: {length}\r\nExpect: 100-continue\r\n");
        let (heard, mut raw) = testbed.ask(testbed.purchase(&headers)).await;
        assert_eq!(heard.brief(), (413, "payload_too_large"), "{length}: {heard:?}");
        assert!(raw.is_closed().await, "{length}");
    }
    // One that is not too large is asked for.
    let headers = format!("{JSON}Content-Length: 2\r\nExpect: 100-continue\r\n");
    let (heard, mut raw) = testbed.ask(testbed.purchase(&headers)).await;
    assert_eq!(heard.status, 100, "{heard:?}");
    raw.send("[]").await;
    assert_eq!(raw.answer().await.brief(), (422, "invalid_type"));
    let length = format!("{JSON}Content-Length: {}\r\n", BODY.len() + 1);
    let chunked = testbed.purchase(CHUNKED);
    for (what, request) in [
        ("a cut body", testbed.purchase(&length) + BODY),
        ("a cut chunk", chunked.clone() + "e\r\n{\"quantity\""),
        ("no last chunk", chunked.clone() + "e\r\n" + BODY + "\r\n"),
        ("a chunk of no size", chunked.clone() + "zz\r\n" + BODY + "\r\n0\r\n\r\n"),
        ("a chunk of any size", chunked.clone() + "ffffffffffffffff1\r\n" + BODY + "\r\n0\r\n\r\n"),
    ] {
        let mut raw = testbed.connect().await;
        raw.send(request).await;
        raw.finish().await;
        let heard = raw.answer().await;
        assert!([0, 400].contains(&heard.status), "{what}: {heard:?}");
        testbed.assert_untouched(what).await;
    }
    testbed.assert_clean().await;
}

/// Requests of which two servers could think differently: a proxy in front of us would be misled.
#[tokio::test]
async fn ambiguous_requests_are_refused_and_nothing_is_smuggled() {
    let testbed = Testbed::new().await;
    let hidden = testbed.purchase("");
    let half = hidden.len();
    let in_http_1_0 = testbed.purchase(CHUNKED).replace("HTTP/1.1", "HTTP/1.0");
    let with = |header: &str| testbed.purchase(&format!("{JSON}{header}\r\n"));
    for (what, request) in [
        ("two lengths", with("Content-Length: 2\r\nContent-Length: 3") + "[]x"),
        ("two lengths in one", with("Content-Length: 2, 3") + "[]x"),
        ("a negative length", with("Content-Length: -1")),
        ("a length with a sign", with("Content-Length: +2") + "[]"),
        ("a length in hex", with("Content-Length: 0x2") + "[]"),
        ("gzip as transfer", with("Transfer-Encoding: gzip") + "[]"),
        ("chunked, then gzip", with("Transfer-Encoding: chunked, gzip") + "0\r\n\r\n"),
        ("chunked in HTTP/1.0", in_http_1_0 + "0\r\n\r\n"),
        ("a folded header", testbed.purchase("X-A: b\r\n c: d\r\n")),
        ("a space before the colon", testbed.purchase("Content-Length : 0\r\n")),
        ("a bare line end in a header", testbed.purchase("Idempotency-Key: a\rb\r\n")),
        ("a NUL in a header", testbed.purchase("Idempotency-Key: a\0b\r\n")),
    ] {
        let (heard, mut raw) = testbed.ask(request + hidden.as_str()).await;
        assert_eq!(heard.status, 400, "{what}: {heard:?}");
        assert!(raw.is_closed().await, "{what}: something more was answered");
        testbed.assert_untouched(what).await;
    }
    // Both a length and chunks: the chunks count, the length is ignored, and the connection is
    // closed, so that what follows is never taken for a request.
    let both = with(&format!("Content-Length: {}\r\nTransfer-Encoding: chunked", half + 7));
    let (heard, mut raw) = testbed.ask(both + "2\r\n[]\r\n0\r\n\r\n" + hidden.as_str()).await;
    assert!([(400, ""), (422, "invalid_type")].contains(&heard.brief()), "{heard:?}");
    assert!(raw.is_closed().await, "the hidden request was answered");
    testbed.assert_clean().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_or_malformed_is_refused() {
    let testbed = Testbed::new().await;
    let addr = testbed.instance.addr;
    let many: String = (0..120).map(|number| format!("X-{number}: y\r\n")).collect();
    let long = "x".repeat(70_000);
    let get = |line: &str| format!("GET {line}\r\nHost: {addr}\r\n\r\n");
    let before = |head: &str| format!("{head}{}", testbed.purchase(""));
    for (what, request, expected) in [
        // haproxy.org's proxy-protocol.txt: v1 is a line, v2 is binary.
        (
            "the PROXY protocol",
            before("PROXY TCP4 203.0.113.7 10.0.0.3 56324 8080\r\n"),
            &[400][..],
        ),
        ("the PROXY protocol of nobody", before("PROXY UNKNOWN\r\n"), &[400]),
        (
            "its version 2",
            before("\r\n\r\n\0\r\nQUIT\n!\u{11}\0\u{c}\u{7f}\0\0\u{1}\u{7f}\0\0\u{1}PPPP"),
            &[400],
        ),
        ("many headers", testbed.purchase(&many), &[431]),
        ("a large header", testbed.purchase(&format!("X-A: {long}\r\n")), &[431]),
        ("a long path", get(&format!("/{long} HTTP/1.1")), &[414, 431]),
        ("a long query", get(&format!("/api/items?{long} HTTP/1.1")), &[414, 431]),
        ("no HTTP", "hello\r\n\r\n".to_owned(), &[400]),
        ("TLS", "\u{16}\u{3}\u{1}\0\u{1}\r\n\r\n".to_owned(), &[400]),
        ("a version to come", get("/ HTTP/9.9"), &[400, 505]),
        ("no path", get("HTTP/1.1"), &[400]),
        ("a header without a name", testbed.purchase(": x\r\n"), &[400]),
    ] {
        let (heard, mut raw) = testbed.ask(request).await;
        // The answer may be lost when the other side closes while we still send.
        assert!(heard.status == 0 || expected.contains(&heard.status), "{what}: {heard:?}");
        assert!(raw.is_closed().await, "{what}");
        testbed.assert_untouched(what).await;
    }
    // A name that is not ours was made to point here.
    let ours = format!("Host: {addr}");
    for foreign in ["evil.example", "", "a b", "@"] {
        let request = testbed.purchase("").replace(&ours, &format!("Host: {foreign}"));
        let (heard, _) = testbed.ask(request).await;
        let is_refused = heard.brief() == (421, "misdirected_request") || heard.status == 400;
        assert!(is_refused, "Host: {foreign}: {heard:?}");
        testbed.assert_untouched(foreign).await;
    }
    let (heard, _) = testbed.ask(get("http://evil.example/healthz HTTP/1.1")).await;
    assert_eq!(heard.brief(), (421, "misdirected_request"), "{heard:?}");
    let (heard, _) = testbed.ask(testbed.purchase("").replace("Host:", "X-Host:")).await;
    assert_eq!(heard.brief(), (400, "host_missing"), "{heard:?}");
    testbed.assert_clean().await;
}

#[tokio::test]
async fn odd_paths_and_methods_find_nothing() {
    let testbed = Testbed::new().await;
    let addr = testbed.instance.addr;
    let (item, token) = (testbed.item, testbed.instance.token(1, Role::Buyer));
    let paths = "/..%2f /../Cargo.toml /..%2fCargo.toml /%2e%2e/Cargo.toml /%2e%2e%2fCargo.toml /..%5cCargo.toml \
         /css/../../Cargo.toml /%00 /index.html%00.css // //etc/passwd //evil.example/.. /api /api/ /api/nothing \
         /api//items /api/items/ /api/seckill/default /api/seckill/default/1/2 /API/items /api/%2e%2e/items \
         /docs/../Cargo.toml /.git/HEAD /.data/env";
    for path in paths.split(' ') {
        let (heard, _) = testbed.ask(format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n")).await;
        assert_eq!(heard.status, 404, "{path}: {heard:?}");
        if path.starts_with("/api/") {
            assert_eq!(heard.brief(), (404, "not_found"), "{path}");
        }
        assert!(!heard.text.contains("[package]"), "{path} shows a file of ours");
        let purchase = format!(
            "POST {path} HTTP/1.1\r\nHost: {addr}\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n"
        );
        let (heard, _) = testbed.ask(purchase).await;
        let expected = if path.starts_with("/api/") { &[404][..] } else { &[404, 405] };
        assert!(expected.contains(&heard.status), "POST {path}: {heard:?}");
        testbed.assert_untouched(path).await;
    }
    for (request, path, allowed) in [
        ("TRACE", "/api/items".to_owned(), "get"),
        ("TRACE", format!("/api/seckill/default/{item}"), "post"),
        ("GET", format!("/api/seckill/default/{item}"), "post"),
        ("PUT", format!("/api/admin/items/{item}"), "patch"),
        ("DELETE", "/api/orders".to_owned(), "get"),
        ("BUY", format!("/api/seckill/default/{item}"), "post"),
        ("post", format!("/api/seckill/default/{item}"), "post"),
        ("DELETE", "/healthz".to_owned(), "get"),
    ] {
        let head = format!(
            "{request} {path} HTTP/1.1\r\nHost: {addr}\r\nAuthorization: Bearer {token}\r\nCookie: planted=1\r\n\r\n"
        );
        let (heard, _) = testbed.ask(head).await;
        assert_eq!(heard.brief(), (405, "method_not_allowed"), "{request} {path}: {heard:?}");
        let allow = heard.head.lines().find(|line| line.starts_with("allow:")).unwrap_or_default();
        assert!(allow.contains(allowed), "{request} {path}: {}", heard.head);
        assert!(!heard.text.contains("planted"), "the request is echoed");
    }
    // An address in the request line, and HTTP/1.0 without a host, are as good as any other.
    let (heard, _) =
        testbed.ask(format!("GET http://{addr}/healthz HTTP/1.1\r\nHost: {addr}\r\n\r\n")).await;
    assert_eq!(heard.status, 200, "{heard:?}");
    let (heard, mut raw) = testbed.ask("GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(heard.status == 200 && raw.is_closed().await, "{heard:?}");
    testbed.assert_clean().await;
}

/// A plain request of these tests would buy.
#[tokio::test]
async fn requests_in_one_packet_are_answered_in_their_order() {
    let testbed = Testbed::new().await;
    let headers = format!("{JSON}Content-Length: {}\r\n", BODY.len());
    for request in [testbed.purchase(&headers) + BODY, testbed.purchase("")] {
        let (heard, _) = testbed.ask(request).await;
        assert_eq!(heard.status, 201, "{heard:?}");
    }
    let addr = testbed.instance.addr;
    let one = format!("GET /healthz HTTP/1.1\r\nHost: {addr}\r\n\r\n");
    let two = format!("GET /api/nothing HTTP/1.1\r\nHost: {addr}\r\n\r\n");
    let mut raw = testbed.connect().await;
    raw.send(one.clone() + two.as_str() + one.as_str()).await;
    for expected in [200, 404, 200] {
        assert_eq!(raw.answer().await.status, expected);
    }
    // A connection that is kept is not kept for ever.
    assert!(raw.is_closed().await, "an idle connection stays open");
}

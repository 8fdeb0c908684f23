//! Too many clients, and clients that are too slow: those in between buy as ever, and the service does
//! not grow.
//!
//! The figures of docs/security.md come from `SECKILL_TEST_DRIBBLERS=2000` and
//! `SECKILL_TEST_OVERLOAD_SECONDS=15`; `SECKILL_TEST_UNDER_WAY_MAX` allows the buyers more.

use std::sync::atomic::AtomicU64;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, interval, sleep, timeout};
use web::token::Tokens;

use crate::http::many_pages::memory_kb;
use crate::support::prelude::*;

/// Sockets that dribble in a normal run.
const DRIBBLERS: u64 = 200;
/// How long each phase of a normal run lasts.
const SPAN: Duration = Duration::from_millis(700);
/// How many times as long it lasts at most while nobody has been shed.
const SPANS_MAX: u64 = 10;
/// Buyers who are always about to buy.
const BUYERS: i64 = 32;
/// How many times the peak is offered.
const OVERLOAD: u64 = 5;
/// The most purchases that the buyers of a normal run have under way at once, each a connection:
/// beyond that the buyers wait, as their own machines would make them.
const UNDER_WAY_MAX: usize = 2_000;
/// One purchase in this many that are under way is let in by the service at once.
const UNDER_WAY_PER_PERMIT: usize = 4;
/// From one byte to the next of a socket that dribbles.
const DRIBBLE_PAUSE: Duration = Duration::from_millis(500);
/// What the second wave may leave behind, in kilobytes, above what the first one has.
const GROWTH_KB_MAX: u64 = 50_000;

/// The answers to many buyers.
#[derive(Default)]
struct AnswerCounts {
    sold: AtomicU64,
    shed: AtomicU64,
    /// Answered 504 at their deadline.
    late: AtomicU64,
    failed: AtomicU64,
    /// The longest wait of an accepted purchase, in microseconds.
    longest_us: AtomicU64,
}

impl AnswerCounts {
    async fn buy(&self, buyer: &Client, item: i64) {
        let since = Instant::now();
        let sent = buyer.request(Method::POST, &purchase_path("mysql-batch", item)).send().await;
        let waited_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        let count = match sent {
            Ok(answer) if answer.status() == 201 => {
                self.longest_us.fetch_max(waited_us, Ordering::Relaxed);
                &self.sold
            }
            Ok(answer)
                if answer.status() == 503 && answer.headers().contains_key("retry-after") =>
            {
                &self.shed
            }
            Ok(answer) if answer.status() == 504 => &self.late,
            _ => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Sold, and the rest by kind.
    fn figures(&self) -> (u64, [u64; 3]) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.sold), [&self.shed, &self.late, &self.failed].map(read))
    }
}

/// A service in its own process, and an item with more stock than any test sells.
struct OverloadTestbed {
    shop: Shop,
    child: tokio::process::Child,
    addr: String,
    item: i64,
}

impl OverloadTestbed {
    async fn new(settings: &[(&str, &str)]) -> Self {
        let shop = Shop::new().await;
        let addr = free_addr();
        let child = serve(&shop, &addr, settings).await;
        let body = item_body(json!({ "stock": 900_000_000, "per_buyer_limit": 1_000_000 }));
        let testbed = Self { shop, child, addr, item: 0 };
        let made = testbed.buyer(1).post("/api/admin/items", &body).await;
        let item = made.json["id"].as_i64().unwrap_or_else(|| panic!("no item: {}", made.text));
        Self { item, ..testbed }
    }

    /// Operators are not counted by the limits per user, which are not what is tried here.
    fn token(&self, id: i64) -> String {
        let shop = &self.shop.config;
        let until = OffsetDateTime::now_utc() + time::Duration::HOUR;
        let user = UserId::new(id).expect("positive");
        Tokens::new(&shop.secret, &shop.secret_previous).sign(user, Role::Admin, until)
    }

    fn buyer(&self, id: i64) -> Client {
        Client::new(self.addr.parse().expect("an address"), Some(self.token(id)))
    }

    fn memory_kb(&self) -> u64 {
        memory_kb(self.child.id().expect("it runs"))
    }

    /// Each of the buyers buys again as soon as it has an answer.
    async fn busy(&self, span: Duration) -> Arc<AnswerCounts> {
        let counts = Arc::new(AnswerCounts::default());
        let until = Instant::now() + span;
        let mut buyers = JoinSet::new();
        for id in 1..=BUYERS {
            let (buyer, item, counts) = (self.buyer(id), self.item, Arc::clone(&counts));
            buyers.spawn(async move {
                while Instant::now() < until {
                    counts.buy(&buyer, item).await;
                }
            });
        }
        buyers.join_all().await;
        counts
    }

    /// Sends `per_second` purchases a second, whether or not earlier ones have been answered, for `span` and until one
    /// is shed, but for at most [`SPANS_MAX`] spans: a busy machine takes longer to send more than the service takes.
    /// Pauses while [`under_way_max`](UNDER_WAY_MAX) are under way. Returns the counts and the sales a second.
    async fn offered(&self, per_second: u64, span: Duration) -> (Arc<AnswerCounts>, u64) {
        let counts = Arc::new(AnswerCounts::default());
        let buyers: Vec<Client> = (1..=BUYERS).map(|id| self.buyer(id)).collect();
        let mut under_way = JoinSet::new();
        let mut tick = interval(Duration::from_millis(10));
        let ticks = u64::try_from(span.as_millis() / 10).expect("a number");
        let began = Instant::now();
        for tock in 0..ticks * SPANS_MAX {
            if tock >= ticks && counts.shed.load(Ordering::Relaxed) > 0 {
                break;
            }
            tick.tick().await;
            for number in tock * per_second / 100..(tock + 1) * per_second / 100 {
                let at = usize::try_from(number).expect("a number") % buyers.len();
                let (buyer, item, counts) = (buyers[at].clone(), self.item, Arc::clone(&counts));
                if under_way.len() == under_way_max() {
                    under_way.join_next().await;
                }
                under_way.spawn(async move { counts.buy(&buyer, item).await });
            }
        }
        let goodput = per_second_of(counts.figures().0, began.elapsed());
        under_way.join_all().await;
        (counts, goodput)
    }
}

fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn span() -> Duration {
    asked("SECKILL_TEST_OVERLOAD_SECONDS").map_or(SPAN, Duration::from_secs)
}

fn under_way_max() -> usize {
    let asked = asked("SECKILL_TEST_UNDER_WAY_MAX");
    asked.map_or(UNDER_WAY_MAX, |asked| usize::try_from(asked).expect("a number"))
}

fn per_second_of(count: u64, span: Duration) -> u64 {
    count * 1_000 / u64::try_from(span.as_millis()).unwrap_or(1).max(1)
}

/// Sends a request byte by byte, over and over: its head, or with a token its body.
async fn dribble(addr: String, item: i64, token: Option<String>, open: Arc<AtomicU64>) {
    let head = format!("POST /api/seckill/mysql-batch/{item} HTTP/1.1\r\nhost: {addr}\r\n");
    let body = token.is_some();
    let whole = format!(
        "{head}authorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: 5000\r\n\r\n{{",
        token.unwrap_or_default()
    );
    loop {
        let Ok(mut stream) = TcpStream::connect(&addr).await else { return };
        open.fetch_add(1, Ordering::Relaxed);
        let mut bytes = head.bytes();
        if body && stream.write_all(whole.as_bytes()).await.is_err() {
            continue;
        }
        loop {
            let byte = if body { b' ' } else { bytes.next().unwrap_or(b'x') };
            let mut answer = [0_u8; 512];
            let sent = stream.write_all(&[byte]).await;
            let over = timeout(DRIBBLE_PAUSE, stream.read(&mut answer)).await;
            if sent.is_err() || over.is_ok() {
                break;
            }
        }
        open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_that_dribble_leave_the_others_alone() {
    let dribblers = asked("SECKILL_TEST_DRIBBLERS").unwrap_or(DRIBBLERS);
    let span = span();
    let testbed = OverloadTestbed::new(&[]).await;
    let alone = testbed.busy(span).await;
    let open = Arc::new(AtomicU64::new(0));
    let mut slow = JoinSet::new();
    for number in 0..dribblers {
        // Half of them over the head, which needs no token, half over the body.
        let token = (number % 2 == 0).then(|| testbed.token(1));
        slow.spawn(dribble(testbed.addr.clone(), testbed.item, token, Arc::clone(&open)));
    }
    eventually("most of them to be connected", || async {
        (open.load(Ordering::Relaxed) >= dribblers * 9 / 10).then_some(())
    })
    .await;
    let beside = testbed.busy(span).await;
    let connected = open.load(Ordering::Relaxed);
    slow.shutdown().await;
    let ((before, _), (sold, rest)) = (alone.figures(), beside.figures());
    let [shed, late, failed] = rest;
    println!(
        "{dribblers} dribbling sockets ({connected} open at the end): {sold} sold in {span:?} \
         ({before} without them), {shed} shed, {late} late, {failed} failed; longest {} ms ({} ms)",
        beside.longest_us.load(Ordering::Relaxed) / 1_000,
        alone.longest_us.load(Ordering::Relaxed) / 1_000,
    );
    assert!(connected >= dribblers / 2, "only {connected} dribbled");
    // 99.9 percent, and one that a busy machine may cost.
    let rest: u64 = rest.iter().sum();
    assert!(rest <= sold / 1_000 + 1, "{rest} of {sold} were not sold");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_times_the_load_is_shed_and_nothing_grows() {
    let permits = (under_way_max() / UNDER_WAY_PER_PERMIT).to_string();
    let testbed = OverloadTestbed::new(&[("SECKILL_PURCHASE_IN_FLIGHT_MAX", &permits)]).await;
    let span = span();
    testbed.busy(span).await;
    let peak = per_second_of(testbed.busy(span).await.figures().0, span);
    let at_peak_kb = testbed.memory_kb();
    let mut grown_kb = Vec::new();
    for _ in 0..2 {
        let began = Instant::now();
        let (over, goodput) = testbed.offered(peak * OVERLOAD, span).await;
        let took = began.elapsed();
        let (sold, [shed, late, failed]) = over.figures();
        grown_kb.push(testbed.memory_kb());
        println!(
            "peak {peak}/s, {at_peak_kb} kB; {}/s offered for {span:?}, all answered after {took:?}: \
             {} sold/s meanwhile, {sold} in all, {shed} shed, {late} late, {failed} failed, longest {} ms, {} kB",
            peak * OVERLOAD,
            goodput,
            over.longest_us.load(Ordering::Relaxed) / 1_000,
            testbed.memory_kb(),
        );
        assert!(sold > 0, "nothing is sold under load");
        assert!(shed > 0, "nobody was turned away");
    }
    let [first, second] = grown_kb[..] else { unreachable!("two waves") };
    assert!(second < first + first / 4 + GROWTH_KB_MAX, "{first} kB, then {second} kB");
    // It is well again by itself.
    sleep(Duration::from_millis(100)).await;
    testbed.buyer(1).until_sold("mysql-batch", testbed.item).await;
}

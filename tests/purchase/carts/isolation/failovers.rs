//! Histories of carts while an instance is killed and the writer of the ledger is replaced, again and again.
//!
//! `SECKILL_TEST_SECONDS=3600` is the run of an hour. The history is in pieces with items of their own, each judged
//! alone, so the checker's memory and time do not grow with the run. Tests in the module above plant the mistakes that
//! must be found: `half_a_cart_is_found`, `a_reader_without_a_snapshot_is_found`, `a_lost_cart_is_found` and
//! `a_lost_cart_that_was_seen_is_found`.

use std::time::Instant;

use dev_servers::{MysqlSet, Replication};
use mysql_connection::replication;
use tokio::process::Child;

use super::*;
use crate::support::crowd::on;
use crate::support::seconds;

/// Seconds of an ordinary run. The piece that has begun then is finished.
const SECONDS: u64 = 20;
/// Buyers, each with one cart at a time.
const BUYERS: i64 = 8;
/// Changes before each fault, and after the last one.
const CHANGES: usize = 100;
/// The settings of the instance that is killed.
const SETTINGS: &[(&str, &str)] =
    &[("SECKILL_LIMITS_USER_PER_SECOND", "0"), ("SECKILL_LOG_FILTER", "error")];

/// No reader sees half of a change, at the old writer or at the new one. No change is lost that a reader has seen or a
/// buyer was told of, and none is made twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: make test-all"]
async fn no_half_cart_is_seen_over_failovers() {
    let (pair, shop, instance) = on(Replication::SemiSync).await;
    let mut servers = Servers::start(&shop, pair).await;
    let begin = Instant::now();
    let mut changes = 0;
    let mut reads = 0;
    let mut unknown = 0;
    loop {
        let piece = Piece::begin(&instance, &servers.addr).await;
        let is_written = Cell::new(false);
        let write = async {
            let buyers = (1..=BUYERS).map(|buyer| piece.buys(buyer));
            join(join_all(buyers), Box::pin(servers.fail(&piece))).await;
            is_written.set(true);
        };
        let readers =
            (0..READERS).map(|_| read_until(&shop, &piece.items, &piece.log, &is_written));
        join(write, join_all(readers)).await;
        assert_serializable(&piece.log);
        assert_all_clean(&instance, &piece.items).await;
        changes += piece.log.written.borrow().len();
        reads += piece.log.seen.borrow().len();
        unknown += piece.unknown.get();
        let took = begin.elapsed();
        let Servers { kills, failovers, .. } = servers;
        println!(
            "{changes} changes, {reads} reads, {kills} kills of an instance, {failovers} failovers, \
             {unknown} unknown outcomes in {took:.0?}"
        );
        if took >= seconds(SECONDS) {
            return;
        }
    }
}

/// The servers that are killed and come back.
struct Servers<'a> {
    shop: &'a Shop,
    pair: MysqlSet,
    /// One of the two instances: a process, and its address.
    beside: Child,
    addr: String,
    kills: u32,
    failovers: u32,
}

impl<'a> Servers<'a> {
    async fn start(shop: &'a Shop, pair: MysqlSet) -> Self {
        let addr = free_addr();
        let beside = serve(shop, &addr, SETTINGS).await;
        Self { shop, pair, beside, addr, kills: 0, failovers: 0 }
    }

    /// Kills the instance, then both the writer and the instance, and lets each come back while carts are sold. Then
    /// the piece is over.
    async fn fail(&mut self, piece: &Piece<'_>) {
        piece.goes_on().await;
        self.kill_instance().await;
        piece.goes_on().await;
        self.start_instance().await;
        piece.goes_on().await;
        self.until_commits_wait().await;
        let old = self.pair.writer();
        self.pair.member(old).kill().await;
        self.kill_instance().await;
        self.pair.take_over().await.expect("the replica takes over");
        self.failovers += 1;
        self.start_instance().await;
        piece.goes_on().await;
        self.pair.member(old).restart().await.expect("it starts again");
        self.pair.rejoin(old).await.expect("it replicates");
        piece.goes_on().await;
        piece.is_over.set(true);
    }

    async fn kill_instance(&mut self) {
        self.beside.kill().await.expect("killed");
        self.kills += 1;
    }

    async fn start_instance(&mut self) {
        self.beside = serve(self.shop, &self.addr, SETTINGS).await;
    }

    /// Waits until commits wait for the replica. A writer that is killed while it goes on without a replica loses
    /// carts, as docs/promises.md says.
    async fn until_commits_wait(&self) {
        eventually(RECOVERY_MAX, || async {
            let found = replication::read_from(&self.shop.pool).await;
            let fault = found.map_err(|error| error.to_string())?.fault();
            fault.map_or(Ok(()), |fault| Err(fault.to_owned()))
        })
        .await;
    }
}

/// A piece of the history.
struct Piece<'a> {
    instance: &'a Instance,
    /// Of both instances.
    clients: [Client; 2],
    items: Vec<i64>,
    log: Log,
    /// Whether no further cart is begun.
    is_over: Cell<bool>,
    /// Requests that were sent.
    sent: Cell<usize>,
    /// Requests with an unknown outcome before the known one.
    unknown: Cell<usize>,
}

impl<'a> Piece<'a> {
    async fn begin(instance: &'a Instance, beside: &str) -> Self {
        let beside = Client::new(beside.parse().expect("an address"), None);
        Self {
            instance,
            clients: [instance.stranger(), beside],
            items: items(instance).await,
            log: Log::default(),
            is_over: Cell::new(false),
            sent: Cell::new(0),
            unknown: Cell::new(0),
        }
    }

    /// Buys carts until the piece is over, and cancels some of them at once.
    async fn buys(&self, buyer: i64) {
        let token = self.instance.token(buyer, Role::Buyer);
        let clients = self.clients.each_ref().map(|client| client.with_token(&token));
        for number in 0.. {
            if self.is_over.get() {
                return;
            }
            let wanted = cart(&self.items, number);
            let body = lines(&wanted.map(|item| (item, 1_u32)));
            let order = self.order(&clients, "/api/reservations", &body, 201).await;
            self.log.wrote(&order, "sold", &wanted);
            if number % 4 == 0 {
                let path = format!("/api/orders/{order}/cancellation");
                self.order(&clients, &path, &json!({}), 200).await;
                self.log.wrote(&order, "cancelled", &wanted);
            }
        }
    }

    /// Sends a request with one key to one instance after the other, until the answer has the status `done`; the id
    /// of the order.
    async fn order(&self, clients: &[Client; 2], path: &str, body: &Value, done: u16) -> String {
        let key = unique("cart");
        let is_unknown = Cell::new(false);
        let order = eventually(RECOVERY_MAX, || async {
            let turn = self.sent.get();
            self.sent.set(turn + 1);
            let request = clients[turn % 2].request(Method::POST, path);
            let sent = send(request.header("idempotency-key", &key).json(body)).await;
            let (status, answer) = sent.map_err(|error| {
                // Without a connection nothing was sent.
                is_unknown.set(is_unknown.get() || !error.is_connect());
                error.to_string()
            })?;
            if status == done {
                return Ok(answer["id"].as_str().expect("an id").to_owned());
            }
            is_unknown.set(is_unknown.get() || answer["outcome"] == "unknown");
            assert!(status >= 500 || answer["code"] == "request_in_progress", "{path}: {answer}");
            Err(answer.to_string())
        })
        .await;
        self.unknown.set(self.unknown.get() + usize::from(is_unknown.get()));
        order
    }

    /// Waits until more changes were made.
    async fn goes_on(&self) {
        let before = self.log.written.borrow().len();
        let more = || async { self.log.written.borrow().len() - before };
        until(RECOVERY_MAX, more, |more| *more >= CHANGES).await;
    }
}

/// The status and the body of an answer.
async fn send(request: RequestBuilder) -> reqwest::Result<(u16, Value)> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    Ok((status, response.json().await?))
}

//! Many orders with the outbox on, while the services, the receiver and the database are killed: each
//! durable change arrives at least once, and nothing arrives that is not durable.
//!
//! `SECKILL_TEST_ORDERS=1000000` is the whole run; without it there are some thousand.

use std::os::unix::process::ExitStatusExt;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicU64;

use axum::extract::State;
use forgetful_disk::{ForgetfulDisk, Survives};
use futures::TryStreamExt;
use rand::RngExt;
use sqlx::Row;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::*;

/// Orders of an ordinary run.
const ORDERS: u64 = 1_200;
/// Buyers who buy at the same time.
const CLIENTS: i64 = 48;
/// Items that they buy.
const ITEMS: usize = 12;
/// How long the events may take to arrive after the last order and the last kill.
const ARRIVAL_MAX: Duration = Duration::from_secs(600);
/// The signal of a process that has aborted itself (SIGABRT).
const ABORTED: i32 = 6;
const SETTINGS: &[(&str, &str)] = &[
    ("SECKILL_EVENTS_ENABLED", "true"),
    ("SECKILL_EVENTS_POLL_MS", "50"),
    ("SECKILL_EVENTS_BATCH_MAX", "500"),
    ("SECKILL_EVENTS_PAUSE_SECONDS_MAX", "1"),
    ("SECKILL_EVENTS_PRIVATE_NETWORKS", "127.0.0.1"),
    ("SECKILL_EVENTS_TIMEOUT_MS", "3000"),
    ("SECKILL_LIMITS_LOOPBACK_EXEMPT", "true"),
    ("SECKILL_MYSQL_ACQUIRE_TIMEOUT_MS", "2000"),
];

/// A change of an order: its id, and the status that it got.
type Change = (u128, u8);

/// Numbers of the statuses, to keep a million changes small.
const STATUSES: [&str; 5] = ["pending", "paid", "cancelled", "expired", "rejected"];

fn change(id: &str, status: &str) -> Change {
    let status = STATUSES.iter().position(|known| *known == status).expect("a known status");
    let id = Uuid::parse_str(id).expect("an order's id").as_u128();
    (id, u8::try_from(status).expect("a few"))
}

/// A receiver that can be killed with all its connections. What it has stored survives that.
struct Receiver {
    addr: SocketAddr,
    stored: Arc<Mutex<HashSet<Change>>>,
    connections: JoinSet<()>,
}

impl Receiver {
    async fn start() -> Self {
        let addr = free_addr().parse().expect("an address");
        let mut receiver = Self { addr, stored: Arc::default(), connections: JoinSet::new() };
        receiver.listen().await;
        receiver
    }

    async fn listen(&mut self) {
        let listener = eventually("the receiver's port", || async {
            tokio::net::TcpListener::bind(self.addr).await.ok()
        })
        .await;
        let router = Router::new().route("/in", post(store)).with_state(Arc::clone(&self.stored));
        self.connections.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = hyper_util::service::TowerToHyperService::new(router.clone());
                connections.spawn(async move {
                    let io = hyper_util::rt::TokioIo::new(stream);
                    let serve = hyper::server::conn::http1::Builder::new();
                    let _ = serve.serve_connection(io, service).await;
                });
            }
        });
    }

    /// Ends it in the middle of whatever it does.
    async fn kill(&mut self) {
        self.connections.shutdown().await;
    }

    fn stored(&self) -> MutexGuard<'_, HashSet<Change>> {
        self.stored.lock().expect("no panic")
    }
}

async fn store(State(stored): State<Arc<Mutex<HashSet<Change>>>>, body: Bytes) -> StatusCode {
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let orders =
        list(&message["events"]).into_iter().flat_map(|event| list(&event["data"]["orders"]));
    let text = |order: &Value, field: &str| order[field].as_str().expect("a text").to_owned();
    let changes = orders.map(|order| change(&text(&order, "id"), &text(&order, "status")));
    stored.lock().expect("no panic").extend(changes);
    // A kill in this moment loses the answer, and the events are stored.
    tokio::task::yield_now().await;
    StatusCode::OK
}

/// Buys, and pays or cancels some, until enough orders are sold.
async fn sell(
    (clients, token, buyer): ([Client; 2], String, i64),
    items: Vec<i64>,
    (sold, wanted): (Arc<AtomicU64>, u64),
) {
    let clients = clients.map(|client| client.with_token(&token));
    let mut turn = usize::try_from(buyer).expect("positive");
    while sold.load(Ordering::Relaxed) < wanted {
        turn += 1;
        let client = &clients[turn % 2];
        let path = purchase_path("mysql-batch", items[turn % items.len()]);
        let bought = client.request(Method::POST, &path).send().await;
        let order = match bought {
            Ok(answer) if answer.status() == 201 => answer.json::<Value>().await.ok(),
            _ => {
                sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        sold.fetch_add(1, Ordering::Relaxed);
        let word = match rand::rng().random_range(0..10) {
            0 => "payment",
            1 => "cancellation",
            _ => continue,
        };
        if let Some(id) = order.as_ref().and_then(|order| order["id"].as_str()) {
            let step = client.request(Method::POST, &format!("/api/orders/{id}/{word}"));
            // Whether it was done, the ledger knows.
            let _ = step.send().await;
        }
    }
}

/// The ledger's server, perhaps on a disk whose power is cut when it is killed.
struct Database {
    mysql: MysqlServer,
    disk: Option<ForgetfulDisk>,
    /// What the cuts have taken.
    forgotten: u64,
}

impl Database {
    async fn kill_and_restart(&mut self) {
        if let Some(disk) = &self.disk {
            disk.cut();
        }
        self.mysql.kill().await;
        if let Some(disk) = &self.disk {
            let survives = Survives::Some(rand::rng().random_range(0..u64::MAX));
            self.forgotten += disk.power_on(survives).expect("power").steps;
        }
        self.mysql.restart().await.expect("the database starts again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_durable_change_arrives_and_none_is_invented_while_all_are_killed() {
    let mysql = own_mysql(MysqlOptions::temporary()).await;
    all_arrive(Database { mysql, disk: None, forgotten: 0 }).await;
}

/// Here the database also loses what it has not flushed. In `make test-all`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cuts() {
    if !is_whole() {
        return;
    }
    let folder = std::env::temp_dir().join(unique("seckill-power"));
    let mut mysql = MysqlServer::start(MysqlOptions::new(folder.clone())).await.expect("it starts");
    mysql.stop().await;
    match ForgetfulDisk::over(&folder.join("data")) {
        Ok(disk) => {
            mysql.restart().await.expect("it starts");
            all_arrive(Database { mysql, disk: Some(disk), forgotten: 0 }).await;
        }
        Err(error) => {
            println!("left out: no disk whose power can be cut can be mounted here: {error}");
        }
    }
    std::fs::remove_dir_all(folder).expect("the folder of the database goes");
}

async fn all_arrive(mut database: Database) {
    let asked = std::env::var("SECKILL_TEST_ORDERS").ok();
    let wanted = asked.map_or(ORDERS, |text| text.parse().expect("a number"));
    let url = database.mysql.url_of(&unique("seckill"));
    let (shop, maker) = Shop::open_with(|config| {
        config.database_url = Secret::new(url);
        config.events.enabled = true;
        config.sections.set("events", "private_networks", "127.0.0.1");
        // Its own deliverer is idle: it is there to make items, and to look.
        config.sections.set("events", "poll_ms", 60_000);
    })
    .await;
    let mut receiver = Receiver::start().await;
    let body = json!({ "target": format!("http://{}/in", receiver.addr) });
    maker.admin().post("/api/admin/endpoints", &body).await.expect_status(201);
    let units = json!({ "stock": 1_000_000, "per_buyer_limit": 1_000_000, "hold_seconds": 86_400 });
    let items = maker.make_items(ITEMS, &units).await;
    let tokens: Vec<String> = (1..=CLIENTS).map(|id| maker.token(id, Role::Buyer)).collect();
    maker.stop().await;

    let addresses = [free_addr(), free_addr()];
    // Alone, so that it is the one that writes the log.
    let mut ends = SETTINGS.to_vec();
    ends.push(("FAILPOINT", "events-moved:3"));
    let mut first = serve(&shop, &addresses[0], &ends).await;
    let clients =
        addresses.each_ref().map(|address| Client::new(address.parse().expect("an address"), None));
    let sold = Arc::new(AtomicU64::new(0));
    let mut selling = JoinSet::new();
    for (buyer, token) in (1..).zip(tokens) {
        let counts = (Arc::clone(&sold), wanted);
        selling.spawn(sell((clients.clone(), token, buyer), items.clone(), counts));
    }
    // The crash point ends it: between the log and its COMMIT.
    let ended = timeout(ARRIVAL_MAX, first.wait()).await.expect("it comes to its crash point");
    assert_eq!(ended.expect("gone").signal(), Some(ABORTED), "the crash point ended it");
    let mut services = Vec::new();
    for address in &addresses {
        services.push(serve(&shop, address, SETTINGS).await);
    }
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let watch = tokio::spawn(async move {
        while selling.join_next().await.is_some() {}
        ended.store(true, Ordering::Relaxed);
    });
    let pause = Duration::from_millis(if wanted > ORDERS { 6_000 } else { 700 });
    let mut kills = [0; 3];
    for turn in 0.. {
        let until = Instant::now() + pause;
        while Instant::now() < until && !over.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(20)).await;
        }
        // One kill of each kind at least, also when all is sold.
        if over.load(Ordering::Relaxed) && turn >= 4 {
            break;
        }
        match turn % 4 {
            0 | 2 => {
                let at = turn / 2 % 2;
                services[at].kill().await.expect("killed");
                services[at] = serve(&shop, &addresses[at], SETTINGS).await;
                kills[0] += 1;
            }
            1 => {
                receiver.kill().await;
                sleep(Duration::from_millis(300)).await;
                receiver.listen().await;
                kills[1] += 1;
            }
            _ => {
                database.kill_and_restart().await;
                kills[2] += 1;
            }
        }
    }
    watch.await.expect("no panic");
    eventually(ARRIVAL_MAX, || async {
        let left: Result<(i64, i64), _> = sqlx::query_as(
            "SELECT (SELECT COUNT(*) FROM outbox), \
             (SELECT last_position FROM event_relay) - (SELECT MIN(delivered) FROM event_endpoints)",
        )
        .fetch_one(&shop.pool)
        .await;
        let is_empty = matches!(left, Ok((0, 0)));
        when(is_empty, format!("{left:?}"))
    })
    .await;
    let gaps = "SELECT COALESCE(MAX(position), 0) - COUNT(*) FROM event_log";
    assert_eq!(shop.number(gaps).await, 0, "positions have no gaps");

    let mut durable: HashSet<Change> = HashSet::new();
    let mut rows =
        sqlx::query("SELECT id, CAST(status AS CHAR) AS status FROM orders").fetch(&shop.pool);
    let mut orders = 0;
    while let Some(row) = rows.try_next().await.expect("the orders") {
        let (id, status): (String, String) = (row.get("id"), row.get("status"));
        durable.extend([change(&id, "pending"), change(&id, &status)]);
        orders += 1;
    }
    database.mysql.stop().await;
    let stored = receiver.stored();
    let missing = durable.difference(&stored).count();
    let invented = stored.difference(&durable).count();
    assert_eq!((missing, invented), (0, 0));
    assert!(orders >= wanted, "{orders}");
    assert!(kills.iter().all(|count| *count > 0), "{kills:?}");
    assert!(database.disk.is_none() || database.forgotten > 0, "the cuts took something");
}

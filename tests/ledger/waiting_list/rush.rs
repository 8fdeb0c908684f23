//! Thousands of buyers wait for units that come back, on two instances, while instances and the
//! database are killed.
//!
//! `SECKILL_TEST_BUYERS=5000` is the whole run; without it there are some hundred buyers and a kill
//! of each kind. What is asserted of the ledger is the same; the times are asserted in the whole run alone.

use futures::StreamExt;
use rand::RngExt;
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use super::timeline::{self, Outage, Timeline};
use crate::support::prelude::*;

/// Buyers of an ordinary run.
const BUYERS: i64 = 240;
/// Buyers who act at once.
const AT_ONCE: usize = 48;
/// Requests that a buyer repeats before the test gives up.
const REPEATED_MAX: u32 = 400;
/// How long the whole run may take.
const RUN_MAX: Duration = Duration::from_secs(900);
/// Restocks by which the units come while buyers join.
const RESTOCKS: i64 = 8;
/// The time that a unit may lie idle while a buyer waits.
const IDLE_SECONDS_MAX: f64 = 2.0;
/// The first buyer.
const FIRST: i64 = 100_000;
const SETTINGS: &[(&str, &str)] = &[
    ("SECKILL_WAITING_LIST_SWEEP_MS", "250"),
    ("SECKILL_JOB_EXPIRE_PERIOD_MS", "250"),
    ("SECKILL_LIMITS_LOOPBACK_EXEMPT", "true"),
    ("SECKILL_MYSQL_POOL_MAX", "24"),
    ("SECKILL_MYSQL_ACQUIRE_TIMEOUT_MS", "3000"),
];

struct Rush {
    shop: Arc<Shop>,
    clients: [Client; 2],
    tokens: Arc<dyn Fn(i64) -> String + Send + Sync>,
    item: i64,
    all_joined: AtomicBool,
    stop: AtomicBool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_overtaken_while_instances_and_the_database_die() {
    let asked = std::env::var("SECKILL_TEST_BUYERS").ok();
    let buyers = asked.as_ref().map_or(BUYERS, |text| text.parse().expect("a number"));
    let mut mysql = own_mysql(MysqlOptions::temporary()).await;
    let url = mysql.url_of(&unique("seckill"));
    let shop = Shop::with(|config| config.database_url = Secret::new(url)).await;
    let shop = Arc::new(shop);
    let maker = shop.start().await;
    let stock = (buyers / 10).max(8);
    let item = maker
        .make_item(json!({
            "kind": "shop", "stock": 0, "hold_seconds": 2, "offer_seconds": 2,
            "strategy": "mysql-batch",
        }))
        .await;
    let addresses = [free_addr(), free_addr()];
    let mut services: Vec<Child> = Vec::new();
    for address in &addresses {
        services.push(serve(&shop, address, SETTINGS).await);
    }
    let tokens: Vec<String> = (0..buyers).map(|at| maker.token(FIRST + at, Role::Buyer)).collect();
    let operator = maker.token(1, Role::Admin);
    let clients =
        addresses.each_ref().map(|address| Client::new(address.parse().expect("an address"), None));
    // From here on the two processes are alone.
    maker.stop().await;
    let tokens: Arc<dyn Fn(i64) -> String + Send + Sync> =
        Arc::new(move |id| tokens[usize::try_from(id - FIRST).expect("one of ours")].clone());
    let rush = Rush {
        shop: Arc::clone(&shop),
        clients,
        tokens,
        item,
        all_joined: AtomicBool::new(false),
        stop: AtomicBool::new(false),
    };

    let started = Instant::now();
    let joining = async {
        let joined = futures::stream::iter(0..buyers)
            .map(|at| rush.join(FIRST + at))
            .buffer_unordered(AT_ONCE);
        joined.collect::<Vec<()>>().await;
        rush.all_joined.store(true, Ordering::Relaxed);
        println!("{buyers} buyers joined within {:?}", started.elapsed());
    };
    let serving = rush.serve_offers(started);
    let killing = rush.kill(&mut services, &addresses, &mut mysql, buyers);
    let ((), (), outages, ()) =
        tokio::join!(joining, serving, killing, rush.restock(stock, &operator, buyers));

    let inspector = shop.start().await;
    let audit = assert_clean(&inspector, item).await;
    let statement = sqlx::query_scalar(
        "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(offered_at)) FROM waiting_list WHERE item_id = ?",
    )
    .bind(item);
    let last: Option<i64> = shop.read(statement).await;
    let seen = timeline::read(&shop.pool, item, last.expect("offers"), &outages).await;
    println!("{buyers} buyers, {stock} units, {} outages: {seen:?}", outages.len());
    println!("the audit: {audit}");
    let faults = super::faults_of_the_line(&shop, item).await;
    assert_eq!(faults, Vec::<String>::new(), "what the other audit says");
    let Timeline { returned, offered, overtaken, overtaken_seconds_max, .. } = seen;
    assert!(offered >= usize::try_from(buyers / 2).expect("positive"), "{offered} offers");
    assert!(returned >= offered, "each offer was of a unit that had come back");
    // Joins overlap, and their times are those at which their statements began.
    assert!(overtaken_seconds_max < 1.0, "{overtaken} overtaken, by {overtaken_seconds_max} s");
    if asked.is_some() {
        assert!(seen.idle_seconds_max < IDLE_SECONDS_MAX, "idle: {seen:?}");
        assert!(seen.late_seconds_max < IDLE_SECONDS_MAX, "late: {seen:?}");
    }
}

impl Rush {
    fn client(&self, buyer: i64) -> Client {
        let at = usize::from(rand::rng().random_bool(0.5));
        self.clients[at].with_token(&(self.tokens)(buyer))
    }

    /// Sends a request, to either instance, until it is answered for good; answers its status.
    async fn ask(&self, buyer: i64, method: Method, suffix: &str) -> u16 {
        let path = format!("/api/items/{}/waiting{suffix}", self.item);
        for _ in 0..REPEATED_MAX {
            let request = self.client(buyer).request(method.clone(), &path);
            let request = request.header("idempotency-key", format!("offer-{buyer}"));
            match request.send().await.map(|answer| answer.status().as_u16()) {
                Ok(status) if status < 500 && status != 429 => return status,
                _ => sleep(Duration::from_millis(50)).await,
            }
        }
        panic!("no answer to {path} of {buyer}");
    }

    /// Adds the units in a few portions, each by one instance. An answer that is lost may mean that the
    /// units are there; the ledger knows.
    async fn restock(&self, units: i64, operator: &str, buyers: i64) {
        // With fewer in the line, units would be everybody's.
        while self.waiting().await.is_none_or(|waiting| waiting < buyers / 2) {
            sleep(Duration::from_millis(20)).await;
        }
        let path = format!("/api/admin/items/{}", self.item);
        for portion in 0..RESTOCKS {
            sleep(Duration::from_millis(400)).await;
            let delta = units / RESTOCKS + i64::from(portion < units % RESTOCKS);
            let at = usize::try_from(portion % 2).expect("0 or 1");
            let admin = self.clients[at].with_token(operator);
            let request = admin.request(Method::PATCH, &path);
            let _ = request.json(&json!({ "stock_delta": delta })).send().await;
        }
    }

    async fn join(&self, buyer: i64) {
        let status = self.ask(buyer, Method::POST, "").await;
        // 409: the line was empty for a moment, and a unit was everybody's.
        assert!([200, 409].contains(&status), "joining: {status}");
        if rand::rng().random_range(0..20) == 0 {
            assert_eq!(self.ask(buyer, Method::DELETE, "").await, 204);
        }
    }

    /// Acts for the buyers who are offered a unit: some buy, some decline, some let it lapse. Of those
    /// who buy, some cancel, few pay.
    async fn serve_offers(&self, started: Instant) {
        let mut served = HashSet::new();
        let mut quiet_since = Instant::now();
        while started.elapsed() < RUN_MAX {
            let offered = self.offered().await;
            let fresh: Vec<i64> = offered
                .unwrap_or_default()
                .into_iter()
                .filter(|buyer| served.insert(*buyer))
                .collect();
            if !fresh.is_empty() {
                quiet_since = Instant::now();
            }
            let acted = futures::stream::iter(fresh).map(|buyer| self.act(buyer));
            acted.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
            let all_joined = self.all_joined.load(Ordering::Relaxed);
            if all_joined
                && self.waiting().await == Some(0)
                && quiet_since.elapsed() > Duration::from_secs(1)
            {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        self.stop.store(true, Ordering::Relaxed);
        assert_eq!(self.waiting().await, Some(0), "all were served");
    }

    async fn act(&self, buyer: i64) {
        match rand::rng().random_range(0..100) {
            0..60 => {
                // An offer may have lapsed before the answer came.
                let status = self.ask(buyer, Method::POST, "/purchase").await;
                assert!([201, 409].contains(&status), "accepting: {status}");
                if status == 201 && rand::rng().random_range(0..10) < 5 {
                    self.step(buyer).await;
                }
            }
            60..75 => assert_eq!(self.ask(buyer, Method::DELETE, "").await, 204),
            _ => {}
        }
    }

    /// Cancels the buyer's order, or pays it, now and then.
    async fn step(&self, buyer: i64) {
        let listed = self.client(buyer).request(Method::GET, "/api/orders").send().await;
        let Ok(listed) = listed else { return };
        let Ok(listed) = listed.json::<Value>().await else { return };
        let Some(order) = listed["orders"][0]["id"].as_str() else { return };
        let word = if rand::rng().random_range(0..10) == 0 { "payment" } else { "cancellation" };
        let path = format!("/api/orders/{order}/{word}");
        // Whatever becomes of it: the hold ends in two seconds.
        let _ = self.client(buyer).request(Method::POST, &path).send().await;
    }

    /// Buyers with an open offer; `None` while the database is away.
    async fn offered(&self) -> Option<Vec<i64>> {
        let read = sqlx::query_scalar(
            "SELECT user_id FROM waiting_list WHERE item_id = ? AND status = 'offered'",
        );
        read.bind(self.item).fetch_all(&self.shop.pool).await.ok()
    }

    async fn waiting(&self) -> Option<i64> {
        let read = sqlx::query_scalar(
            "SELECT COUNT(*) FROM waiting_list WHERE item_id = ? AND status = 'waiting'",
        );
        read.bind(self.item).fetch_one(&self.shop.pool).await.ok()
    }

    /// Kills one instance after the other, and the database in between, until all are served.
    async fn kill(
        &self,
        services: &mut [Child],
        addresses: &[String; 2],
        mysql: &mut MysqlServer,
        buyers: i64,
    ) -> Vec<Outage> {
        let (mut outages, mut instances_killed) = (Vec::new(), 0);
        let pause = if buyers > BUYERS {
            Duration::from_millis(2_500)
        } else {
            Duration::from_millis(1500)
        };
        for turn in 0.. {
            let until = Instant::now() + pause;
            while Instant::now() < until {
                if self.stop.load(Ordering::Relaxed) {
                    println!(
                        "{instances_killed} kills of an instance, {} of the database",
                        outages.len()
                    );
                    return outages;
                }
                sleep(Duration::from_millis(20)).await;
            }
            if turn % 3 == 2 {
                let from = micros_now();
                mysql.kill().await;
                mysql.restart().await.expect("the database starts again");
                eventually("the database to answer", || async {
                    let pool: &Database = &self.shop.pool;
                    sqlx::query("SELECT 1").execute(pool).await.ok()
                })
                .await;
                // Until the instances have noticed: their breakers ask again once a second.
                let path = format!("/api/items/{}", self.item);
                for client in &self.clients {
                    eventually("an instance to have its database again", || async {
                        let answer = client.request(Method::GET, &path).send().await.ok()?;
                        let item: Value = answer.json().await.ok()?;
                        (item["stale"] == false).then_some(())
                    })
                    .await;
                }
                outages.push((from, micros_now()));
            } else {
                let at = turn % 3;
                services[at].kill().await.expect("killed");
                services[at] = serve(&self.shop, &addresses[at], SETTINGS).await;
                instances_killed += 1;
            }
        }
        outages
    }
}

fn micros_now() -> i64 {
    let now = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000;
    i64::try_from(now).expect("before the year 294000")
}

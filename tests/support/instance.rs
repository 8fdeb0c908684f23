//! Services in this process: a shop has one database and one key prefix, and as many instances as
//! a test wants.

use std::net::SocketAddr;

use dev_servers::{RedisServer, Replication};
use ledger::rows::shops::{self, Creation};
use lifecycle::{Lifecycle, StopResult};
use mysql_connection::Database;
use seckill::app::App;
use seckill::config::Config;
use serde_json::{Value, json};
use settings::Secret;
use shop_domain::{Clock, UserId};
use sqlx::{MySql, Transaction};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use web::token::{Holder, Role, Tokens};

use super::{
    Answer, Client, etcd_url, independent_redis, ledger_copy, servers, unique, zookeeper_hosts,
};

/// The secret key by which shops sign draws.
pub const DRAW_KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";

/// How long a buyer of a [`patient`] shop waits.
const PATIENT_MS: u64 = 60_000;
/// How long a test waits for a connection of its own at least, however impatient its instances are.
const ACQUIRE_MS_MIN: u64 = 3_000;

/// One database, one key prefix, one secret.
pub struct Shop {
    /// The settings of its instances.
    pub config: Config,
    /// Its ledger, beside the instances' own connections.
    pub pool: Database,
}

/// A running instance.
pub struct Instance {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Its wall clock, to move.
    pub clock: Clock,
    /// Its stop signal.
    pub lifecycle: Lifecycle,
    task: tokio::task::JoinHandle<StopResult>,
    tokens: Tokens,
}

impl Shop {
    /// A shop with an empty, migrated database of its own.
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A shop whose lock strategies have all their servers: etcd, ZooKeeper and the five Redis of
    /// Redlock, which no other shop starts.
    pub async fn with_lock_servers(change: impl FnOnce(&mut Config)) -> Self {
        let (etcd, zookeeper, five) =
            tokio::join!(etcd_url(), zookeeper_hosts(), independent_redis());
        let redlock: Vec<String> = five.iter().map(RedisServer::url).collect();
        Self::with(|config| {
            config.lock.etcd_endpoints = etcd;
            config.lock.zookeeper_hosts = zookeeper;
            config.lock.redlock_urls = Secret::new(redlock.join(","));
            change(config);
        })
        .await
    }

    /// A shop with some settings changed. With `SECKILL_TEST_LOG`, the warnings of its instances are printed.
    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        if std::env::var_os("SECKILL_TEST_LOG").is_some() {
            // Only the first shop of a run sets it.
            let _ = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).try_init();
        }
        let servers = servers().await;
        let name = unique("seckill");
        let mut config = Config::defaults();
        config.secret = Secret::new("a secret for tests, of thirty-two characters and more");
        config.database_url = Secret::new(servers.mysql.url_of(&name));
        config.redis_url = Secret::new(servers.redis.url());
        of_wanted_shape(&mut config).await;
        on_wanted_engine(&mut config, &name).await;
        config.redis.prefix = format!("{name}:");
        config.sections.set("draw", "signing_key", DRAW_KEY);
        config.http.addr = "127.0.0.1:0".parse().expect("an address");
        config.mysql.pool_max = 16;
        change(&mut config);
        if config.database_url.reveal() == servers.mysql.url_of(&name) {
            ledger_copy::make(servers.mysql, &name).await;
        }
        let mut own = config.clone();
        own.mysql.acquire_timeout_ms = own.mysql.acquire_timeout_ms.max(ACQUIRE_MS_MIN);
        ledger_copy::migrated(&own).await.close().await;
        let pool = mysql_connection::pool(&own).expect("the URL is fine");
        Self { config, pool }
    }

    /// Starts an instance.
    pub async fn start(&self) -> Instance {
        self.start_with(|_| {}).await
    }

    /// Starts an instance with some settings changed.
    pub async fn start_with(&self, change: impl FnOnce(&mut Config)) -> Instance {
        let mut config = self.config.clone();
        change(&mut config);
        self.start_app(App::build(config)).await
    }

    /// Starts an instance that has no extension.
    pub async fn start_core(&self) -> Instance {
        self.start_app(App::build_with(self.config.clone(), &[])).await
    }

    async fn start_app(&self, app: impl Future<Output = Result<App, String>>) -> Instance {
        let app = app.await.expect("the service is built");
        Instance {
            addr: app.addr().expect("an address of TCP"),
            clock: app.clock(),
            lifecycle: app.lifecycle(),
            tokens: Tokens::new(&self.config.secret, &self.config.secret_previous),
            task: tokio::spawn(app.serve()),
        }
    }

    /// Ends the holds of all unpaid orders, and all open offers, `seconds` sooner: they go by the database's clock, which
    /// no test can move.
    pub async fn let_holds_pass(&self, seconds: i64) {
        super::eventually("the holds to be moved", || async {
            // At once: an offer that is made because a hold ran out is not moved.
            let mut transaction = self.pool.begin().await.ok()?;
            for statement in [
                "UPDATE orders SET expires_at = expires_at - INTERVAL ? SECOND \
                 WHERE status = 'pending'",
                "UPDATE waiting_list SET offer_expires_at = offer_expires_at - INTERVAL ? SECOND \
                 WHERE status = 'offered'",
            ] {
                // A sweep may be in the way.
                sqlx::query(statement).bind(seconds).execute(&mut *transaction).await.ok()?;
            }
            transaction.commit().await.ok()
        })
        .await;
    }

    /// Makes the account of an operator, for commands that name one, and returns its id.
    pub async fn make_operator(&self) -> String {
        let insert = "INSERT INTO users (username, username_folded, password_hash, role, created_at) \
             VALUES ('olga', 'olga', '', 'operator', UTC_TIMESTAMP(6))";
        let made = sqlx::query(insert).execute(&self.pool).await.expect("an account");
        made.last_insert_id().to_string()
    }

    /// Makes another shop with this name, and returns its program at an instance.
    pub async fn make_program(&self, instance: &Instance, name: &str) -> Client {
        let made = shops::create(&self.pool, name).await.expect("the ledger answers");
        let Creation::Made(id) = made else { panic!("{name}: {made:?}") };
        let until = instance.clock.now() + Duration::HOUR;
        let token = instance.tokens.sign_in_generation(Holder::Shop(id), until, 0);
        instance.stranger().with_token(&token)
    }

    /// Starts one instance, for tests that need no more.
    pub async fn open() -> (Self, Instance) {
        Self::open_with(|_| {}).await
    }

    /// Starts one instance and makes an item, as [`Instance::make_item`] does.
    pub async fn selling(item: Value) -> (Self, Instance, i64) {
        Self::selling_with(item, |_| {}).await
    }

    /// Starts one instance of a shop with some settings changed, and makes an item.
    pub async fn selling_with(
        item: Value,
        change: impl FnOnce(&mut Config),
    ) -> (Self, Instance, i64) {
        let (shop, instance) = Self::open_with(change).await;
        let item = instance.make_item(item).await;
        (shop, instance, item)
    }

    /// Starts one instance of a shop with some settings changed.
    pub async fn open_with(change: impl FnOnce(&mut Config)) -> (Self, Instance) {
        Self::with(change).await.opened().await
    }

    /// Starts one instance, beside which the shop is used.
    pub async fn opened(self) -> (Self, Instance) {
        let instance = self.start().await;
        (self, instance)
    }

    /// Starts two instances, beside which the shop is used.
    pub async fn opened_twice(self) -> (Self, Instance, Instance) {
        let (one, two) = (self.start().await, self.start().await);
        (self, one, two)
    }
}

impl Instance {
    /// Somebody without a token.
    pub fn stranger(&self) -> Client {
        Client::new(self.addr, None)
    }

    /// Somebody with the token of a session that was opened.
    #[track_caller]
    pub fn signed_in(&self, session: &Answer) -> Client {
        assert_eq!(session.status, 200, "{}", session.text);
        self.stranger().with_token(session.json["token"].as_str().expect("a token"))
    }

    /// A buyer with a token.
    pub fn buyer(&self, id: i64) -> Client {
        Client::new(self.addr, Some(self.token(id, Role::Buyer)))
    }

    /// An operator with a token.
    pub fn admin(&self) -> Client {
        Client::new(self.addr, Some(self.token(1, Role::Admin)))
    }

    /// A token that is good for an hour by this instance's clock.
    pub fn token(&self, id: i64, role: Role) -> String {
        let user = UserId::new(id).expect("a positive id");
        self.tokens.sign(user, role, self.clock.now() + Duration::HOUR)
    }

    /// Makes an item that is open now; `changes` replaces fields of the request.
    pub async fn make_item(&self, changes: Value) -> i64 {
        let answer =
            self.admin().post("/api/admin/items", &item_body(changes)).await.expect_status(201);
        answer.json["id"].as_i64().expect("an id")
    }

    /// Makes this number of items that are alike.
    pub async fn make_items(&self, count: usize, changes: &Value) -> Vec<i64> {
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.make_item(changes.clone()).await);
        }
        items
    }

    /// Makes a group of items that share a limit.
    pub async fn make_group(&self, limit: u32) -> i64 {
        let body = json!({ "name": "Consoles", "per_buyer_limit": limit });
        let made = self.admin().post("/api/admin/limit-groups", &body).await.expect_status(201);
        made.json["id"].as_i64().expect("an id")
    }

    /// The invariants that the audit of an item finds broken.
    pub async fn broken(&self, item: i64) -> Vec<String> {
        let audit = self.audit(item).await;
        let findings = audit["findings"].as_array().expect("findings").iter();
        let broken = findings.filter(|finding| finding["holds"] == false);
        broken.filter_map(|finding| finding["invariant"].as_str()).map(str::to_owned).collect()
    }

    /// The audit of an item, as the service tells it.
    pub async fn audit(&self, item: i64) -> Value {
        self.admin().get(&format!("/api/admin/items/{item}/audit")).await.json
    }

    /// Waits until a figure of an item's audit is this number.
    pub async fn until_audit(&self, item: i64, figure: &str, number: i64) {
        super::until(figure, || self.audit(item), |audit| audit[figure] == number).await;
    }

    /// Waits until an item has this number of units on sale.
    pub async fn until_available(&self, item: i64, units: i64) {
        let path = format!("/api/items/{item}");
        self.stranger().until(&path, |seen| seen.json["available"] == units).await;
    }

    /// Waits until the log has this number of events, and answers it.
    pub async fn until_events(&self, count: usize) -> Value {
        let log = |seen: &Answer| seen.json["events"].as_array().map(Vec::len) == Some(count);
        self.admin().until("/api/admin/events", log).await.json
    }

    /// Stops and waits.
    pub async fn stop(self) -> StopResult {
        self.lifecycle.stop();
        self.task.await.expect("the service does not panic")
    }
}

/// Gives the purchases of a shop more time than a test takes, also on a machine that stands still for some seconds. For
/// a test that holds up a purchase, or sends many at once, and expects that none is "contended" or unknown.
///
/// A row is waited for in four tries of five seconds. A try with a longer wait would be given up after six seconds, as
/// if its connection were lost, and its session would keep its locks until the wait ends.
pub fn patient(config: &mut Config) {
    config.purchase.deadline_ms = PATIENT_MS;
    config.purchase.wait_ms_max = PATIENT_MS;
    config.lifecycle.drain_ms = PATIENT_MS;
    config.mysql.acquire_timeout_ms = PATIENT_MS / 2;
    config.mysql.lock_wait_timeout_seconds = 5;
    config.redis.command_timeout_ms = PATIENT_MS / 15;
    config.lock.lease_ms = PATIENT_MS / 5;
}

/// A request for an item: a lab item of ten units, open for a day, with `changes` on top.
pub fn item_body(changes: Value) -> Value {
    let now = OffsetDateTime::now_utc();
    let time = |instant: OffsetDateTime| instant.format(&Rfc3339).expect("a time of today");
    let body = json!({
        "name": "A thing",
        "price_cents": 250,
        "stock": 10,
        "starts_at": time(now - Duration::MINUTE),
        "ends_at": time(now + Duration::DAY),
        "kind": "lab",
    });
    changed(body, changes)
}

/// The fields of a body, of which `changes` replaces some or adds to them.
pub fn changed(mut body: Value, changes: Value) -> Value {
    if let (Value::Object(body), Value::Object(changes)) = (&mut body, changes) {
        body.extend(changes);
    }
    body
}

/// Holds an item's stock row, so that no purchase of it can be decided, until the transaction is
/// rolled back or dropped.
pub async fn hold_stock_row(pool: &Database, item: i64) -> Transaction<'static, MySql> {
    let mut holder = patient_transaction(pool).await;
    sqlx::query("SELECT available FROM stock WHERE item_id = ? FOR UPDATE")
        .bind(item)
        .execute(&mut *holder)
        .await
        .expect("the row is locked");
    holder
}

/// A transaction that a test holds for as long as it takes.
pub async fn patient_transaction(pool: &Database) -> Transaction<'static, MySql> {
    let mut holder = pool.begin().await.expect("a transaction");
    // The sessions of the service end a transaction that idles for 20 s; a test on a busy machine may take longer.
    let patient = "SET SESSION wait_timeout = 600 /*M! , SESSION idle_transaction_timeout = 600 */";
    sqlx::raw_sql(patient).execute(&mut *holder).await.expect("the session waits");
    // Vitess ends each transaction after 10 s; the others do not know the name, and change nothing.
    let _ = sqlx::raw_sql("SET transaction_timeout = 0").execute(&mut *holder).await;
    holder
}

/// How many sessions of the shop's database, this one apart, are in the middle of a statement that
/// is `LIKE` this. Behind a vtgate a keyspace's database has another name, and items in shards have servers of their
/// own.
pub async fn statements_running(pool: &Database, like: &str) -> i64 {
    if super::has_shards() {
        let cluster = super::sharded_vitess().await;
        if cluster.is_led_to_by(pool) {
            return cluster.statements_running(like).await;
        }
    }
    sqlx::query_scalar(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
         WHERE DB IN (DATABASE(), CONCAT('vt_', DATABASE(), '_0')) \
         AND ID <> CONNECTION_ID() AND INFO LIKE ?",
    )
    .bind(like)
    .fetch_one(pool)
    .await
    .expect("the list of sessions")
}

/// Waits until this number of sessions, or more, are in the middle of such a statement.
pub async fn until_running(pool: &Database, like: &str, count: i64) {
    super::until(like, || statements_running(pool, like), |running| *running >= count).await;
}

/// Sets the Redis of the shape that `SECKILL_TEST_REDIS` names: `tls`, `sentinel` or `cluster`.
async fn of_wanted_shape(config: &mut Config) {
    match std::env::var("SECKILL_TEST_REDIS").as_deref() {
        Ok("tls") => {
            let server = super::tls_redis().await;
            config.redis_url = Secret::new(server.tcp_url());
            let [root, client, key] = server.certificate_files().expect("it has TLS");
            (config.redis.root_file, config.redis.client_file) = (root, client);
            config.redis.client_key_file = key;
        }
        Ok("sentinel") => config.redis_url = Secret::new(super::sentinels().await.url()),
        Ok("cluster") => config.redis_url = Secret::new(super::cluster().await.url()),
        _ => {}
    }
}

/// Sets the ledger of the engine that `SECKILL_TEST_MYSQL` names: `semisync`, `group`, `galera`, `vitess` or
/// `vitess-shards`.
async fn on_wanted_engine(config: &mut Config, database: &str) {
    let engine = match std::env::var("SECKILL_TEST_MYSQL").as_deref() {
        Ok("semisync") => Replication::SemiSync,
        Ok("group") => Replication::Group,
        Ok("galera") => Replication::Galera,
        Ok("vitess") => {
            let vitess = super::vitess().await;
            ledger_copy::make_keyspace(vitess, database).await;
            config.database_url = Secret::new(vitess.url_of(database));
            return;
        }
        Ok("vitess-shards") => {
            let cluster = super::sharded_vitess().await;
            cluster.empty().await;
            config.database_url = Secret::new(cluster.url.clone());
            config.mysql.shared_queues = 2;
            return;
        }
        _ => return,
    };
    config.database_url = Secret::new(super::replicated_url(engine, database).await);
}

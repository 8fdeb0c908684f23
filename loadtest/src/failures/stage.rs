//! What the experiments share: items, buyers who press once, and a look into the ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use dev_servers::{RedisOptions, RedisServer};
use hyper::header::HeaderValue;
use sqlx::Row;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::drive::call::Call;
use crate::drive::connection::Exchange;
use crate::drive::{Instance, answer};
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::launcher::Service;
use crate::options::Switch;
use crate::servers::database;
use crate::service::{self, Admin};
use crate::testbed::Testbed;
use crate::tokens::Mint;
use ledger_audit::{Answer, Outcome};

/// Ids of the experiments' buyers begin here.
pub const FIRST_BUYER: i64 = 1_500_000_001;
/// Buyers that exist.
pub const BUYERS: u32 = 64;
/// A purchase that cannot be served now is tried again until then.
const PRESS_MAX: Duration = Duration::from_secs(25);
const PRESS_AGAIN: Duration = Duration::from_millis(100);
const ANSWER_MAX: Duration = Duration::from_secs(12);

/// The line of a Redis that has everything in memory alone.
pub const NOT_ON_DISK: &str = "appendonly no";
/// Cuts a replica of Redis off: nothing listens at port 1, and it keeps answering with what it has.
pub const CUT_OFF: [&str; 3] = ["REPLICAOF", "127.0.0.1", "1"];

/// Where experiments run.
pub struct Stage<'a> {
    pub testbed: &'a Testbed,
    /// Two on the shop's servers.
    pub instances: Vec<Instance>,
    tokens: Vec<HeaderValue>,
    admin: HeaderValue,
}

/// The sale of an item, by the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoldUnits {
    pub units: i64,
    pub available: i64,
}

/// A purchase to press.
#[derive(Clone)]
pub struct Press {
    pub instance: Instance,
    pub strategy: &'static str,
    pub item: i64,
    /// From 0.
    pub buyer: usize,
}

impl<'a> Stage<'a> {
    /// Mints everybody's token.
    pub async fn set(testbed: &'a Testbed, instances: Vec<Instance>) -> Result<Self, CannotJudge> {
        let mint = Mint::new(testbed.program.clone(), &testbed.environment);
        let tokens = mint.buyers(FIRST_BUYER, BUYERS).await?;
        let admin = mint.admin().await?;
        Ok(Self { testbed, instances, tokens, admin })
    }

    /// Creates an item with `stock` units.
    pub async fn item(
        &self,
        instance: &Instance,
        stock: i64,
        arbiter: Switch,
    ) -> Result<i64, CannotJudge> {
        let admin = Admin::new(vec![instance.clone()], self.admin.clone());
        admin.create_lab_item("a failure experiment", stock, arbiter).await
    }

    /// Starts an instance with other settings; its expiry job does not run.
    pub async fn service(
        &self,
        name: &str,
        settings: &[(&str, &str)],
    ) -> Result<Service, CannotJudge> {
        let quiet = [("SECKILL_JOB_EXPIRE_PERIOD_MS", "3600000")];
        let settings = quiet.iter().chain(settings);
        let settings: Vec<(String, String)> =
            settings.map(|(name, value)| ((*name).into(), (*value).into())).collect();
        self.testbed.launcher.start(name, &settings).await
    }

    /// Presses once; asks again, with the same key, as long as the answer is "try again".
    pub async fn press(&self, press: &Press) -> String {
        pressed(press.clone(), self.tokens[press.buyer].clone()).await
    }

    /// Presses on a task of its own, for a purchase that will hang.
    pub fn press_in_background(&self, press: &Press) -> tokio::task::JoinHandle<String> {
        tokio::spawn(pressed(press.clone(), self.tokens[press.buyer].clone()))
    }

    /// Many buyers at once; how often each code was answered.
    pub async fn rush(
        &self,
        press: &Press,
        buyers: std::ops::Range<usize>,
    ) -> BTreeMap<String, usize> {
        let mut presses = JoinSet::new();
        for buyer in buyers {
            let token = self.tokens[buyer].clone();
            presses.spawn(pressed(Press { buyer, ..press.clone() }, token));
        }
        let mut codes = BTreeMap::new();
        while let Some(code) = presses.join_next().await {
            *codes.entry(code.unwrap_or_default()).or_default() += 1;
        }
        codes
    }

    /// Units of live orders, and what the stock row says.
    pub async fn sold(&self, item: i64) -> Result<SoldUnits, CannotJudge> {
        let mut connection = database(&self.testbed.environment).await?;
        let row = sqlx::query(
            "SELECT CAST(available AS SIGNED) AS available, \
             (SELECT CAST(COALESCE(SUM(quantity), 0) AS SIGNED) FROM orders \
              WHERE item_id = ? AND status IN ('pending', 'paid')) AS units \
             FROM stock WHERE item_id = ?",
        )
        .bind(item)
        .bind(item)
        .fetch_one(&mut connection)
        .await
        .or_cannot_judge("the ledger cannot be read")?;
        let read = |name| row.try_get(name).or_cannot_judge("the ledger cannot be read");
        Ok(SoldUnits { units: read("units")?, available: read("available")? })
    }
}

/// Starts a Redis that may be killed, with a further line of configuration. It ends when it is dropped,
/// and its data are removed.
pub async fn private_redis(line: &str) -> Result<RedisServer, CannotJudge> {
    let options = RedisOptions { extra_lines: vec![line.to_owned()], ..RedisOptions::temporary() };
    RedisServer::start(options).await.or_cannot_judge("a private Redis")
}

async fn pressed(press: Press, token: HeaderValue) -> String {
    let key = Uuid::now_v7().simple().to_string();
    let until = Instant::now() + PRESS_MAX;
    loop {
        let meaning = try_press(&press, &token, &key).await;
        let settled = meaning
            .as_ref()
            .is_some_and(|meaning| matches!(meaning.outcome, Outcome::Accepted | Outcome::Refused));
        if settled || Instant::now() >= until {
            return meaning.map_or_else(|| "not_connected".to_owned(), |meaning| meaning.code);
        }
        sleep(PRESS_AGAIN).await;
    }
}

async fn try_press(press: &Press, token: &HeaderValue, key: &str) -> Option<Answer> {
    let path = service::purchase_path(press.strategy, press.item).ok()?;
    let token = Some(token);
    let call = Call { token, key: Some(key), ..Call::new("POST", &path) };
    let exchange = press.instance.call(call, ANSWER_MAX).await;
    (!matches!(exchange, Exchange::NotSent)).then(|| answer::read(&exchange))
}

//! The faults of the soak: each has a begin and an end, so that two of them can overlap.

use crate::prelude::*;
use crate::rows::mysql::{execute, kill_others};
use crate::rows::redis::cut_leases;
use crate::testbed::redis_at;

/// What a fault breaks. Two faults of one trial break different parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Service,
    Redis,
    RedisLink,
    Mysql,
    MysqlLink,
    /// The ledger's rows: only the planted mistake.
    Rows,
}

macro_rules! kinds {
    ($($kind:ident: $name:literal, $part:ident;)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($kind),* }

        impl Kind {
            /// Every kind.
            const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name in a plan.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }

            /// The part that it breaks.
            pub fn part(self) -> Part {
                match self { $(Self::$kind => Part::$part),* }
            }

            /// The kinds of which plans are made. The planted one is in none.
            pub fn of_plans() -> Vec<Self> {
                Self::ALL.iter().copied().filter(|kind| kind.part() != Part::Rows).collect()
            }

            /// The kind of this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.name() == name)
            }
        }
    };
}

kinds! {
    ServiceKilled: "service-killed", Service;
    ServiceFrozen: "service-frozen", Service;
    RedisKilled: "redis-killed", Redis;
    RedisFrozen: "redis-frozen", Redis;
    ScriptsFlushed: "redis-scripts-flushed", Redis;
    LeasesCut: "redis-leases-cut", Redis;
    RedisRefused: "redis-link-refused", RedisLink;
    RedisSlow: "redis-link-slow", RedisLink;
    RedisResets: "redis-link-resets", RedisLink;
    MysqlKilled: "mysql-killed", Mysql;
    MysqlFrozen: "mysql-frozen", Mysql;
    ReadOnly: "mysql-read-only", Mysql;
    RowsHeld: "mysql-rows-held", Mysql;
    ConnectionsKilled: "mysql-connections-killed", Mysql;
    MysqlRefused: "mysql-link-refused", MysqlLink;
    MysqlSlow: "mysql-link-slow", MysqlLink;
    MysqlResets: "mysql-link-resets", MysqlLink;
    CommitsUnanswered: "mysql-commits-unanswered", MysqlLink;
    CommitsLost: "mysql-commits-lost", MysqlLink;
    OrderDeleted: "planted-order-deleted", Rows;
}

/// How much later everything comes over a slow link.
const LATE: Duration = Duration::from_millis(150);

/// The links of a trial, and what its faults hold.
pub struct Broken {
    pub to_mysql: FaultyLink,
    pub to_redis: FaultyLink,
    /// The instance that is killed or frozen.
    pub victim: usize,
    /// A transaction that holds the stock rows.
    holding: Option<MySqlConnection>,
    /// Bites of a link before its fault.
    bites: u64,
}

impl Broken {
    /// Whole links to the servers of the testbed.
    pub async fn start(testbed: &Testbed, victim: usize) -> Run<Self> {
        let to_mysql = FaultyLink::to(testbed.mysql.port()).await.said()?;
        let to_redis = FaultyLink::to(testbed.redis.port()).await.said()?;
        Ok(Self { to_mysql, to_redis, victim, holding: None, bites: 0 })
    }

    fn link(&self, part: Part) -> &FaultyLink {
        if part == Part::RedisLink { &self.to_redis } else { &self.to_mysql }
    }
}

impl Kind {
    /// Begins it; whether it took effect is known at its end.
    pub async fn begin(self, testbed: &Testbed, trial: &mut Trial, broken: &mut Broken) -> Run<()> {
        match self {
            Self::ServiceKilled => trial.services[broken.victim].kill().await.map(drop)?,
            Self::ServiceFrozen => trial.services[broken.victim].signal("STOP").await?,
            Self::RedisKilled => testbed.redis.kill().await,
            Self::RedisFrozen => stopped(testbed.redis.pause())?,
            Self::ScriptsFlushed => flush_scripts(testbed).await?,
            Self::LeasesCut => cut_leases(&mut redis_at(&testbed.redis).await?).await.map(drop)?,
            Self::MysqlKilled => testbed.mysql.kill().await,
            Self::MysqlFrozen => stopped(testbed.mysql.pause())?,
            Self::ReadOnly => {
                execute(&mut testbed.operator().await?, "SET GLOBAL read_only = 1").await?;
            }
            Self::RowsHeld => broken.holding = Some(hold_rows(testbed, trial).await?),
            Self::ConnectionsKilled => {
                kill_others(&mut testbed.operator().await?).await?;
            }
            Self::OrderDeleted => delete_order(testbed, trial).await?,
            link => {
                broken.bites = broken.link(link.part()).bites();
                link.of_link().begin(broken.link(link.part()));
            }
        }
        Ok(())
    }

    /// Ends it; `true` when it took effect.
    pub async fn end(
        self,
        testbed: &mut Testbed,
        trial: &mut Trial,
        broken: &mut Broken,
    ) -> Run<bool> {
        match self {
            Self::ServiceKilled => trial.services[broken.victim].restart().await?,
            Self::ServiceFrozen => trial.services[broken.victim].signal("CONT").await?,
            Self::RedisKilled => testbed.redis.restart().await.said()?,
            Self::RedisFrozen => return Ok(testbed.redis.resume()),
            Self::ScriptsFlushed => flush_scripts(testbed).await?,
            Self::LeasesCut => cut_leases(&mut redis_at(&testbed.redis).await?).await.map(drop)?,
            Self::MysqlKilled => testbed.mysql.restart().await.said()?,
            Self::MysqlFrozen => return Ok(testbed.mysql.resume()),
            Self::ReadOnly => {
                execute(&mut testbed.operator().await?, "SET GLOBAL read_only = 0").await?;
            }
            Self::RowsHeld => {
                let Some(holding) = broken.holding.take() else { return Ok(false) };
                // Its transaction ends with it.
                let _ = holding.close().await;
            }
            Self::ConnectionsKilled => {
                kill_others(&mut testbed.operator().await?).await?;
            }
            Self::OrderDeleted => {}
            link => {
                let wire = broken.link(link.part());
                wire.mend();
                return Ok(wire.bites() > broken.bites || link.of_link() == Link::Late(LATE));
            }
        }
        Ok(true)
    }

    fn of_link(self) -> Link {
        match self {
            Self::RedisRefused | Self::MysqlRefused => Link::Refuses,
            Self::RedisSlow | Self::MysqlSlow => Link::Late(LATE),
            Self::RedisResets | Self::MysqlResets => Link::Resets,
            Self::CommitsUnanswered => Link::LosesCommitAnswers,
            Self::CommitsLost => Link::LosesCommits,
            _ => Link::Works,
        }
    }
}

fn stopped(was_paused: bool) -> Run<()> {
    if was_paused { Ok(()) } else { Err("the process could not be stopped".to_owned()) }
}

async fn flush_scripts(testbed: &Testbed) -> Run<()> {
    let mut redis = redis_at(&testbed.redis).await?;
    let flushed = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await;
    flushed.map_err(|error| format!("SCRIPT FLUSH: {error}"))
}

/// Opens a transaction that holds the stock rows of all items of the trial.
async fn hold_rows(testbed: &Testbed, trial: &Trial) -> Run<MySqlConnection> {
    let mut side = testbed.operator().await?;
    execute(&mut side, "BEGIN").await?;
    for item in trial.item_ids() {
        let held = sqlx::query("SELECT available FROM stock WHERE item_id = ? FOR UPDATE");
        let held = side.execute(held.bind(item)).await;
        held.map_err(|error| format!("holding a row: {error}"))?;
    }
    Ok(side)
}

/// The planted mistake: the ledger loses an order that was acknowledged.
async fn delete_order(testbed: &Testbed, trial: &Trial) -> Run<()> {
    let item = trial.item_ids().first().copied().unwrap_or_default();
    let mut operator = testbed.operator().await?;
    execute(&mut operator, &format!("DELETE FROM orders WHERE item_id = {item} LIMIT 1")).await
}

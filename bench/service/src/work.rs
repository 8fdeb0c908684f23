//! What the databases have done so far, by their own counters.

use redis::InfoDict;
use serde::Serialize;
use sqlx::{Connection, Row};

use loadtest::environment::Environment;
use loadtest::failure::{CannotJudge, OrCannotJudge};
use loadtest::servers;

/// Counters; after [`since`](Self::since), per order.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Counters {
    /// COMMIT statements.
    pub commits: f64,
    /// SELECT statements.
    pub reads: f64,
    /// Times that InnoDB flushed a file to the disk.
    pub syncs: f64,
    /// Commands that Redis carried out, those inside scripts not counted.
    pub redis_commands: f64,
}

impl Counters {
    /// Reads them from both servers.
    pub async fn read(environment: &Environment) -> Result<Self, CannotJudge> {
        let mut connection = servers::database(environment).await?;
        let rows = sqlx::query(
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_commit', 'Com_select', \
             'Innodb_data_fsyncs')",
        )
        .fetch_all(&mut connection)
        .await
        .or_cannot_judge("the database's status")?;
        // Only closing is left; what was read is read.
        let _ = connection.close().await;
        let mut counters =
            Self { redis_commands: redis_commands(environment).await?, ..Self::default() };
        for row in rows {
            let name: String = row.get(0);
            let value: String = row.get(1);
            let value = value.parse().unwrap_or(0.0);
            match name.as_str() {
                "Com_commit" => counters.commits = value,
                "Com_select" => counters.reads = value,
                _ => counters.syncs = value,
            }
        }
        Ok(counters)
    }

    /// The difference to an earlier reading, per order.
    pub fn since(&self, before: &Self, orders: u64) -> Self {
        let orders = orders.max(1) as f64;
        Self {
            commits: (self.commits - before.commits) / orders,
            reads: (self.reads - before.reads) / orders,
            syncs: (self.syncs - before.syncs) / orders,
            redis_commands: (self.redis_commands - before.redis_commands) / orders,
        }
    }
}

async fn redis_commands(environment: &Environment) -> Result<f64, CannotJudge> {
    let mut connection = servers::redis(environment).await?;
    let info = redis::cmd("INFO").arg("stats").query_async::<InfoDict>(&mut connection).await;
    let info = info.or_cannot_judge("Redis's status")?;
    Ok(info.get("total_commands_processed").unwrap_or(0.0))
}

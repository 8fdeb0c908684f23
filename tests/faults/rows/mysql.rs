//! The database: killed, frozen, read-only, locked, out of connections, cut off at COMMIT.

use sqlx::Row;

use super::redis::process_state;
use crate::prelude::*;
use crate::trial::{RECOVERY_MAX, when_it_stops};

/// A row is held longer than the services wait for it, which is one second then.
const HELD: Duration = Duration::from_millis(2_200);
/// Rows that make a side transaction the heavier one, so that the other is rolled back.
const BALLAST: u32 = 200;
/// Connections that the server grants while there are too few.
const CONNECTIONS_MAX: u32 = 10;
/// Takes the stock row of an item.
pub(super) const LOCK_STOCK: &str = "SELECT available FROM stock WHERE item_id = ? FOR UPDATE";

pub async fn killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    run_trial(testbed, plan, async |testbed, trial| {
        let after = trial.wait_a_moment(MOMENT_MS).await;
        let pid = testbed.mysql.pid();
        testbed.mysql.kill().await;
        let gone = process_state(pid) == '?';
        trial.fault_ended();
        testbed.mysql.restart().await.said()?;
        proven(gone, format!("process {pid} was gone after {after} ms"))
    })
    .await
}

pub async fn read_only(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    run_trial(testbed, plan, async |testbed, trial| {
        let mut operator = testbed.operator().await?;
        execute(&mut operator, "SET GLOBAL read_only = 1").await?;
        // What is under way when it comes is carried out, which takes a while on a busy machine.
        let then = when_it_stops(|| trial.sold()).await;
        sleep(FAULT).await;
        let sold = trial.sold() - then;
        execute(&mut operator, "SET GLOBAL read_only = 0").await?;
        proven(sold == 0, format!("{sold} purchases were sold meanwhile"))
    })
    .await
}

pub async fn deadlocks(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let strategies = &["mysql-atomic", "mysql-batch", "mysql-version", "lock-redis", "redis-lua"];
    let plan = Plan::new(seed, Wanted::These(strategies), &testbed.setup());
    run_trial(testbed, plan, async |testbed, trial| {
        let mut side = testbed.operator().await?;
        execute(&mut side, "CREATE TABLE IF NOT EXISTS fault_ballast (id INT PRIMARY KEY, n INT)")
            .await?;
        for id in 0..BALLAST {
            execute(&mut side, &format!("INSERT IGNORE INTO fault_ballast VALUES ({id}, 0)"))
                .await?;
        }
        let mut other = testbed.operator().await?;
        let before = counted(&mut other, "lock_deadlocks").await?;
        let (begin, items) = (Instant::now(), trial.item_ids());
        let mut circles = 0_usize;
        let mut deadlocks = 0;
        // On a busy machine it takes longer until two transactions meet.
        while begin.elapsed() < FAULT || deadlocks == 0 && begin.elapsed() < RECOVERY_MAX {
            let item = items[circles % items.len()];
            circles += 1;
            // First the stock row, which the service takes last, then rows that it takes earlier.
            let _ = opposite_order(&mut side, item).await;
            deadlocks = counted(&mut other, "lock_deadlocks").await? - before;
        }
        proven(deadlocks > 0, format!("{deadlocks} deadlocks over {circles} side transactions"))
    })
    .await
}

async fn opposite_order(side: &mut MySqlConnection, item: i64) -> sqlx::Result<()> {
    let mut transaction = side.begin().await?;
    transaction.execute("SET SESSION innodb_lock_wait_timeout = 1").await?;
    transaction.execute("UPDATE fault_ballast SET n = n + 1").await?;
    sqlx::query(LOCK_STOCK).bind(item).execute(&mut *transaction).await?;
    sleep(Duration::from_millis(15)).await;
    let lock = "SELECT bought FROM buyer_limits WHERE item_id = ? FOR UPDATE";
    let locked = sqlx::query(lock).bind(item).execute(&mut *transaction).await;
    transaction.rollback().await?;
    locked.map(drop)
}

pub async fn row_held(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let setup = testbed.setup().with("SECKILL_MYSQL_LOCK_WAIT_TIMEOUT_SECONDS", "1");
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        let mut side = testbed.operator().await?;
        let before = counted(&mut side, "lock_timeouts").await?;
        let mut transaction = side.begin().await.said()?;
        for item in trial.item_ids() {
            sqlx::query(LOCK_STOCK).bind(item).execute(&mut *transaction).await.said()?;
        }
        sleep(HELD).await;
        transaction.rollback().await.said()?;
        trial.fault_ended();
        let timeouts = counted(&mut side, "lock_timeouts").await? - before;
        proven(timeouts > 0, format!("{timeouts} lock waits ran out"))
    })
    .await
}

pub async fn no_connections(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    run_trial(testbed, plan, async |testbed, trial| {
        let mut operator = testbed.operator().await?;
        let granted = number(&mut operator, "SELECT @@global.max_connections").await?;
        execute(&mut operator, &format!("SET GLOBAL max_connections = {CONNECTIONS_MAX}")).await?;
        let killed = kill_others(&mut operator).await?;
        let mut hogs = Vec::new();
        let begin = Instant::now();
        let mut said = String::new();
        while begin.elapsed() < FAULT {
            match testbed.operator().await {
                Ok(hog) => hogs.push(hog),
                Err(why) => {
                    said = why;
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        let alive = trial.services[0].get("/healthz", None).await.is_ok_and(|r| r.status == 200);
        execute(&mut operator, &format!("SET GLOBAL max_connections = {granted}")).await?;
        let count = hogs.len();
        drop(hogs);
        let proof = format!("{killed} connections killed, {count} taken by others; then: {said}");
        proven(said.contains("1040") && alive, proof)
    })
    .await
}

/// Kills every connection but one's own; how many.
pub(crate) async fn kill_others(operator: &mut MySqlConnection) -> Run<usize> {
    let others = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist \
         WHERE user = 'seckill' AND id <> CONNECTION_ID()";
    let others: Vec<i64> = sqlx::query_scalar(others).fetch_all(&mut *operator).await.said()?;
    let mut killed = 0;
    for id in others {
        killed += usize::from(execute(operator, &format!("KILL {id}")).await.is_ok());
    }
    Ok(killed)
}

/// Sells over a link that ends connections at COMMIT.
pub async fn at_commit(testbed: &mut Testbed, seed: u64, link: Link) -> TrialResult {
    let wire = FaultyLink::to(testbed.mysql.port()).await.said()?;
    let setup = testbed.setup().with("DATABASE_URL", testbed.ledger_url_by(wire.port()));
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |_, trial: &mut Trial| {
        link.begin(&wire);
        sleep(FAULT).await;
        wire.mend();
        trial.fault_ended();
        let cuts = wire.bites();
        let settled = trial.metric("seckill_arbiter_commits_lost_total", "").await;
        let proof = format!("{cuts} connections ended at COMMIT; the arbiter settled {settled}");
        proven(cuts > 0 && settled > 0.0, proof)
    })
    .await
}

async fn counted(connection: &mut MySqlConnection, name: &str) -> Run<i64> {
    let statement = format!(
        "SELECT CAST(count AS SIGNED) FROM information_schema.innodb_metrics WHERE name = '{name}'"
    );
    number(connection, &statement).await
}

async fn number(connection: &mut MySqlConnection, statement: &str) -> Run<i64> {
    let row = sqlx::query(statement).fetch_one(connection).await;
    let row = row.map_err(|error| format!("{statement}: {error}"))?;
    row.try_get_unchecked(0).map_err(|error| format!("{statement}: {error}"))
}

pub(crate) async fn execute(connection: &mut MySqlConnection, statement: &str) -> Run<()> {
    let done = connection.execute(sqlx::raw_sql(statement)).await;
    done.map(drop).map_err(|error| format!("{statement}: {error}"))
}

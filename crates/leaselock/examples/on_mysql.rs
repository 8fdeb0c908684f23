//! Locks a row on MySQL or MariaDB, and refuses a late write by its fence.
//!
//! `cargo run -p leaselock --example on_mysql --features mysql -- mysql://user:password@127.0.0.1/test`
//! (or set `DATABASE_URL`). It makes the tables `locks` and `leaselock_example` if they are missing.

use std::env;
use std::error::Error;
use std::time::Duration;

use leaselock::mysql::{SCHEMA, table};
use leaselock::{AcquireOptions, LockName, Wait};
use sqlx::{Executor, MySqlPool};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).or_else(|| env::var("DATABASE_URL").ok());
    let pool = MySqlPool::connect(&url.ok_or("give the URL of a database")?).await?;
    let missing = SCHEMA.replace("CREATE TABLE locks", "CREATE TABLE IF NOT EXISTS locks");
    pool.execute(&*missing).await?;
    pool.execute(
        "CREATE TABLE IF NOT EXISTS leaselock_example \
         (id INT PRIMARY KEY, writer TEXT NOT NULL, fence BIGINT UNSIGNED NOT NULL)",
    )
    .await?;
    pool.execute("INSERT IGNORE INTO leaselock_example VALUES (1, 'nobody', 0)").await?;

    let mutex = table::mutex(pool.clone(), &TaskTracker::new());
    let name = LockName::new("example")?;
    let wait = Wait::Until(Instant::now() + Duration::from_secs(30));
    let options = AcquireOptions { lease: Duration::from_secs(10), wait };
    let guard = mutex.acquire(&name, options).await?;
    let fence = guard.fence().ok_or("this kind has fences")?;
    for (writer, fence) in [("the holder", fence.get()), ("a late one", fence.get() - 1)] {
        let written = sqlx::query(
            "UPDATE leaselock_example SET writer = ?, fence = ? WHERE id = 1 AND fence <= ?",
        )
        .bind(writer)
        .bind(fence)
        .bind(fence)
        .execute(&pool)
        .await?;
        println!("{writer} with fence {fence}: {} row written", written.rows_affected());
    }
    println!("{:?}", guard.release().await);
    Ok(())
}

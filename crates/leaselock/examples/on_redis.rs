//! Locks a name on Redis and counts under it: start it twice to see the two processes alternate.
//!
//! `cargo run -p leaselock --example on_redis -- redis://127.0.0.1:6379` (or set `REDIS_URL`)

use std::env;
use std::error::Error;
use std::time::Duration;

use leaselock::redis::subscriber::Subscriber;
use leaselock::redis::token;
use leaselock::{AcquireOptions, LockName, Wait};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).or_else(|| env::var("REDIS_URL").ok());
    let client = redis::Client::open(url.ok_or("give the URL of a Redis server")?)?;
    let connection = redis::aio::ConnectionManager::new(client.clone()).await?;
    let tasks = TaskTracker::new();
    // With a subscriber, a release notifies the next client; without one, clients poll.
    let subscriber = Subscriber::start(client, "example:", &tasks)?;
    let mutex = token::notified(connection, &subscriber, "example:", &tasks)?;

    let name = LockName::new("counter")?;
    for round in 1..=5 {
        let wait = Wait::Until(Instant::now() + Duration::from_secs(30));
        let options = AcquireOptions { lease: Duration::from_secs(10), wait };
        let guard = mutex.acquire(&name, options).await?;
        println!("round {round}: process {} holds, fence {:?}", std::process::id(), guard.fence());
        tokio::select! {
            () = sleep(Duration::from_millis(500)) => {}
            // Stop working at once: another client may hold the name soon.
            () = guard.lost().cancelled_owned() => println!("the lock was lost"),
        }
        println!("round {round}: {:?}", guard.release().await);
    }

    // Give back what is still held, then end.
    drop((mutex, subscriber));
    tasks.close();
    tasks.wait().await;
    Ok(())
}

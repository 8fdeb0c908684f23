//! W7: ten thousand waiters on one key cost the server no more than one, and leave nothing behind.

use std::time::Duration;

use leaselock::redis::subscriber::Subscriber;
use leaselock::{LeasedMutex, ReleaseOutcome, redis as redis_locks};
use redis_connection::SharedConnection;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use super::handing::warm_up;
use super::testbed::name;
use super::{LONG_LEASE, connect, waiting_for};
use crate::support::{eventually, own_redis};

const WAITERS: u64 = 10_000;

/// How many commands a grant may cost.
const COMMANDS_MAX: u64 = 3;

/// Longer than any machine takes for all of them.
const WAIT: Duration = Duration::from_secs(120);

async fn process(url: &str) -> LeasedMutex {
    let (tasks, client) = (TaskTracker::new(), redis::Client::open(url).expect("a Redis URL"));
    let subscriber = Subscriber::start(client, "", &tasks).expect("a prefix");
    redis_locks::token::notified(connect(url).await, &subscriber, "", &tasks).expect("a prefix")
}

/// How many connections the server has, without those that track long holds.
async fn connections(redis: &mut SharedConnection) -> usize {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.expect("a list");
    list.lines().filter(|line| !line.contains(" flags=t ")).count()
}

async fn until_connections(redis: &SharedConnection, wanted: usize) {
    eventually("as many connections as before", || {
        let mut redis = redis.clone();
        async move { (connections(&mut redis).await == wanted).then_some(()) }
    })
    .await;
}

/// How many commands clients have sent so far, with the messages that scripts publish, and without
/// what this test asks itself.
async fn commands(redis: &mut SharedConnection) -> u64 {
    const COUNTED: &[&str] =
        &["evalsha", "eval", "script|load", "publish", "subscribe", "ping", "client|setinfo"];
    let info: String =
        redis::cmd("INFO").arg("commandstats").query_async(redis).await.expect("counts");
    let calls = |line: &str| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse::<u64>().ok()?;
        COUNTED.contains(&command).then_some(calls)
    };
    info.lines().filter_map(calls).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w7_ten_thousand_waiters_cost_the_server_no_more_than_one() {
    let server = own_redis(1, &[]).await.remove(0);
    let url = server.tcp_url();
    let mut redis = connect(&url).await;
    let (crowd, other) = (process(&url).await, process(&url).await);
    warm_up(&crowd, &other).await;
    let before = connections(&mut redis).await;
    // With hand-over, without it, and with it again.
    for hands_over in [true, false, true] {
        let crowd = crowd.clone().with_hand_over(hands_over);
        let options = waiting_for(LONG_LEASE, WAIT);
        let holder = other.acquire(&name(), options).await.expect("granted");
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let crowd = crowd.clone();
            waiters.spawn(async move {
                let guard = crowd.acquire(&name(), options).await.expect("granted");
                assert!(!guard.is_lost());
                guard.release().await
            });
        }
        eventually("all to wait", || async {
            (crowd.stats().snapshot().waiting_now == WAITERS - 1).then_some(())
        })
        .await;
        // A connection that begins to track a hold is counted until it says what it is for.
        until_connections(&redis, before).await;
        let asked = commands(&mut redis).await;
        assert_eq!(holder.release().await, ReleaseOutcome::Released);
        while let Some(outcome) = waiters.join_next().await {
            assert_eq!(outcome.expect("no waiter panics"), ReleaseOutcome::Released);
        }
        let asked = commands(&mut redis).await - asked;
        assert!(asked <= COMMANDS_MAX * WAITERS, "hand-over {hands_over}: {asked} commands");
        until_connections(&redis, before).await;
        nothing_is_left(&crowd, &mut redis).await;
    }
}

async fn nothing_is_left(crowd: &LeasedMutex, redis: &mut SharedConnection) {
    let stats = crowd.stats().snapshot();
    assert_eq!((stats.waiting_now, stats.lost), (0, 0), "{stats:?}");
    assert_eq!(stats.acquired, stats.released, "{stats:?}");
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(redis).await.expect("KEYS");
    assert_eq!(keys, ["fence:{thing:1}"], "the counter of the fences and nothing else");
}

//! Redlock with servers that die, stop and forget.

use std::time::Duration;

use dev_servers::RedisServer;
use leaselock::{AcquireError, LeasedMutex, ReleaseOutcome, redis as redis_locks};
use redis::AsyncCommands;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::testbed::{lazily, name};
use super::{LONG_LEASE, PATIENCE, at_once, until_lost, waiting};

const PREFIX: &str = "own:";

/// Holds three time-outs of a silent server with room to spare.
const LEASE: Duration = Duration::from_secs(1);

/// Five servers of this test's own that keep nothing over a restart.
async fn forgetful() -> Vec<RedisServer> {
    crate::support::own_redis(5, &["appendonly no"]).await
}

fn process(servers: &[RedisServer]) -> LeasedMutex {
    let connections = servers.iter().map(|server| lazily(&server.url())).collect();
    let tasks = TaskTracker::new();
    redis_locks::redlock::mutex(connections, PREFIX, &tasks).expect("five servers")
}

fn key() -> String {
    format!("{PREFIX}redlock:lock:{}", name())
}

/// What each server keeps for the lock.
async fn values(servers: &[RedisServer]) -> Vec<Option<String>> {
    let mut values = Vec::new();
    for server in servers {
        values.push(lazily(&server.url()).get(key()).await.expect("GET"));
    }
    values
}

#[tokio::test]
async fn too_few_or_too_many_servers_are_refused() {
    let five = crate::support::independent_redis().await;
    for count in [0, 1, 2, 10] {
        let connections = (0..count).map(|_| lazily(&five[0].url())).collect();
        let made = redis_locks::redlock::mutex(connections, PREFIX, &TaskTracker::new());
        assert_eq!(made.err(), Some(redis_locks::redlock::InvalidRedlock::Servers(count)));
    }
}

/// A silent server and two dead ones do not stop it; a third dead one does, and ends what is held.
#[tokio::test]
async fn a_majority_of_five_is_enough_and_necessary() {
    let servers = forgetful().await;
    let process = process(&servers);
    let hold_and_release = async || {
        let guard = process.acquire(&name(), waiting(LEASE)).await.expect("granted");
        assert_eq!(guard.fence(), None, "there is nothing to mint one from");
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
    };
    hold_and_release().await;
    assert!(servers[0].pause());
    hold_and_release().await;
    assert!(servers[0].resume());

    servers[0].kill().await;
    servers[1].kill().await;
    hold_and_release().await;
    let guard = process.acquire(&name(), waiting(LEASE)).await.expect("granted");
    sleep(LEASE * 2).await;
    assert!(!guard.is_lost(), "a majority renews");
    servers[2].kill().await;
    until_lost(&guard).await;
    assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost);
    let refused = process.acquire(&name(), waiting(LEASE)).await;
    assert!(matches!(refused, Err(AcquireError::Unavailable(_))), "{refused:?}");
}

/// Two winners of one majority each, since the server in both has forgotten the first.
#[tokio::test]
async fn a_server_that_forgets_makes_two_holders() {
    let mut servers = forgetful().await;
    servers[3].kill().await;
    servers[4].kill().await;
    let first = process(&servers).acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    servers[3].restart().await.expect("started");
    servers[4].restart().await.expect("started");
    let refused = process(&servers).acquire(&name(), at_once(LONG_LEASE)).await;
    assert!(matches!(refused, Err(AcquireError::Busy)), "three of five still know it: {refused:?}");
    servers[2].kill().await;
    servers[2].restart().await.expect("started");
    let second = process(&servers).acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let holders = [&first, &second].iter().filter(|guard| !guard.is_lost()).count();
    assert_eq!(holders, 2, "both believe that they hold it");
    assert_eq!(first.fence().max(second.fence()), None, "and no fence tells them apart");
}

/// Who does not get the majority leaves nothing on the others.
#[tokio::test]
async fn a_losing_try_undoes_itself_on_every_server() {
    let servers = forgetful().await;
    for server in &servers[..3] {
        let () = lazily(&server.url()).set_ex(key(), "somebody:0", 60).await.expect("SET");
    }
    let process = process(&servers);
    for _ in 0..5 {
        let refused = process.acquire(&name(), at_once(LONG_LEASE)).await;
        assert!(matches!(refused, Err(AcquireError::Busy)), "{refused:?}");
    }
    let since = Instant::now();
    let somebody = Some("somebody:0".to_owned());
    loop {
        let values = values(&servers).await;
        assert!(values[..3].iter().all(|value| *value == somebody), "{values:?}");
        if values[3..].iter().all(Option::is_none) {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "left behind: {values:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// M7: a renewal neither makes a key that is gone nor touches one that is somebody else's.
#[tokio::test]
async fn a_renewal_never_creates_or_deletes() {
    let servers = forgetful().await;
    let guard = process(&servers).acquire(&name(), waiting(LEASE)).await.expect("granted");
    let since = Instant::now();
    // The last two may still be on their way.
    while !values(&servers).await.iter().all(Option::is_some) {
        assert!(since.elapsed() < PATIENCE, "not on all servers");
    }
    for server in &servers[..2] {
        let () = lazily(&server.url()).del(key()).await.expect("DEL");
    }
    sleep(LEASE).await;
    assert!(!guard.is_lost(), "three of five are enough");
    let kept = values(&servers).await;
    assert_eq!(kept[..2], [None, None], "a renewal re-creates");
    assert!(kept[2..].iter().all(Option::is_some), "a renewal deletes: {kept:?}");
    let () = lazily(&servers[2].url()).set(key(), "somebody:0").await.expect("SET");
    until_lost(&guard).await;
    assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost);
    assert_eq!(values(&servers).await[2].as_deref(), Some("somebody:0"));
}

/// A command that arrives late is one of an earlier try: it neither covers nor undoes a later one.
#[tokio::test]
async fn a_late_command_of_an_earlier_try_changes_nothing() {
    let five = crate::support::independent_redis().await;
    let mut redis = lazily(&five[0].url());
    let acquire = redis::Script::new(include_str!("../../src/redis/redlock_acquire.lua"));
    let undo = redis::Script::new(include_str!("../../src/redis/value_release.lua"));
    let key = format!("{}:lock", crate::support::unique("late"));
    let mut ask = async |number: u32| -> bool {
        let mut call = acquire.key(&key);
        call.arg("abc").arg(number).arg(60_000).invoke_async(&mut redis).await.expect("run")
    };
    assert!(ask(1).await);
    assert!(ask(2).await, "the same owner tries again");
    assert!(!ask(1).await, "a late one covers");
    let mut redis = lazily(&five[0].url());
    let undone: bool = undo.key(&key).arg("abc:1").invoke_async(&mut redis).await.expect("run");
    assert!(!undone);
    let kept: Option<String> = redis.get(&key).await.expect("GET");
    assert_eq!(kept.as_deref(), Some("abc:2"));
}

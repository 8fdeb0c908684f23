//! M11: a Redis master is killed before the replica that takes over has heard of the lock.

use dev_servers::RedisServer;
use leaselock::{Guard, LeasedMutex, redis as redis_locks};
use redis::AsyncCommands;
use redis_connection::SharedConnection;
use tokio_util::task::TaskTracker;

use super::fenced_number::Number;
use super::testbed::{Testbed, lazily, name};
use super::{LONG_LEASE, fence_of, waiting};
use crate::support::{eventually, link_to, own_redis, rounds};

/// Waits until `replicas` replicas have acknowledged the last write.
async fn acknowledged(master: &SharedConnection, replicas: u32) {
    eventually("the replicas to acknowledge", || async {
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(100);
        let have_it: u32 = wait.query_async(&mut master.clone()).await.ok()?;
        (have_it >= replicas).then_some(())
    })
    .await;
}

fn process(server: &RedisServer) -> LeasedMutex {
    redis_locks::token::mutex(lazily(&server.url()), "own:", &TaskTracker::new()).expect("a prefix")
}

/// One failover. The replica that takes over is cut off when the lock is acquired; `acknowledging`
/// others have it. Answers both holders.
async fn fail_over(acknowledging: u32) -> (Guard, Guard, Vec<RedisServer>) {
    let replicas = usize::try_from(acknowledging).expect("a few") + 1;
    let servers = own_redis(1 + replicas, &[]).await;
    let (master, replicas) = servers.split_first().expect("a master");
    let (heir, others) = replicas.split_first().expect("a replica");
    let link = link_to(&master.tcp_url()).await;
    heir.follow(master, link.port()).await.expect("it follows");
    for other in others {
        other.follow(master, master.port()).await.expect("it follows");
    }
    let mut writer = lazily(&master.url());
    let () = writer.set("before", "the cut").await.expect("SET");
    acknowledged(&writer, acknowledging + 1).await;

    link.cut();
    let first = process(master).acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    if acknowledging > 0 {
        let () = writer.set("after", "the lock").await.expect("SET");
        acknowledged(&writer, acknowledging).await;
    }
    master.kill().await;
    let mut promoted = lazily(&heir.url());
    let before: Option<String> = promoted.get("before").await.expect("GET");
    assert_eq!(before.as_deref(), Some("the cut"), "it is a replica of that master");
    let () = redis::cmd("REPLICAOF")
        .arg("NO")
        .arg("ONE")
        .query_async(&mut promoted)
        .await
        .expect("promoted");
    let second = process(heir).acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    (first, second, servers)
}

/// Two holders each time, also when another replica had acknowledged the lock, and the store that
/// checks fences keeps the later one's value each time.
#[tokio::test]
async fn m11_a_failover_makes_two_holders_and_the_fence_keeps_the_store_right() {
    let testbed = Testbed::new();
    Number::make(&testbed).await;
    let mut number = Number::open(&testbed).await;
    for round in 0..rounds(1) * 2 {
        let (first, second, _servers) = fail_over(round % 2).await;
        assert!(!first.is_lost() && !second.is_lost(), "round {round}: two holders");
        assert!(fence_of(&second) > fence_of(&first), "{second:?} after {first:?}");
        let [earlier, later] = [&first, &second].map(|guard| fence_of(guard).get());
        assert!(number.read(later).await.is_some() && number.write(2, later).await);
        assert!(!number.write(1, earlier).await, "round {round}");
        assert_eq!(number.read(later).await, Some(2), "round {round}");
    }
}

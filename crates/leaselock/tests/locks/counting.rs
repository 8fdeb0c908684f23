//! O1: every counter of a lock moves once per event, and no other one moves with it.

use std::collections::BTreeMap;
use std::time::Duration;

use faulty_link::{Fault, FaultyLink};
use leaselock::{AcquireError, LeasedMutex, LockName, ReleaseOutcome, StatsSnapshot};
use redis::AsyncCommands;

use super::handing::warm_up;
use super::testbed::{Testbed, listed, name, refused};
use super::{LONG_LEASE, at_once, connect, until, until_lost, waiting, waiting_for};
use crate::support::{eventually, link_to, redis_url};

/// The counters that moved, and how far.
type Moves = BTreeMap<&'static str, u64>;

/// Looks at one lock's counters from event to event.
struct Watched {
    process: LeasedMutex,
    start: StatsSnapshot,
    last: StatsSnapshot,
    /// What the events should have moved so far.
    all: Moves,
}

impl Watched {
    fn new(process: LeasedMutex) -> Self {
        let start = process.stats().snapshot();
        Self { process, start, last: start, all: Moves::new() }
    }

    /// What moved since the last look.
    fn moves(&mut self) -> Moves {
        let now = self.process.stats().snapshot();
        let moves = moves(&self.last, &now);
        self.last = now;
        moves
    }

    /// Waits until the event has moved these counters by one each, and nothing else.
    async fn moved(&mut self, event: &str, counters: &[&'static str]) {
        let wanted: Moves = counters.iter().map(|counter| (*counter, 1)).collect();
        let (last, process) = (self.last, self.process.clone());
        let now = || moves(&last, &process.stats().snapshot());
        let all_there = || {
            let now = now();
            counters.iter().all(|counter| now.contains_key(counter))
        };
        until(event, all_there).await;
        assert_eq!(self.moves(), wanted, "{event}");
        self.expect(&wanted);
    }

    fn expect(&mut self, moves: &Moves) {
        for (counter, by) in moves {
            *self.all.entry(counter).or_default() += by;
        }
    }
}

/// `waiting_now` also falls, so it is looked at by itself.
fn moves(before: &StatsSnapshot, after: &StatsSnapshot) -> Moves {
    let pairs = before.counters().zip(after.counters());
    let pairs = pairs.filter(|((counter, _), _)| *counter != "waiting_now");
    let moved = pairs.map(|((counter, before), (_, after))| (counter, after - before));
    moved.filter(|(_, by)| *by > 0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o1_each_event_moves_its_counters_once() {
    let testbed = Testbed::new();
    let token = listed("redis", "token");
    let proxy = link_to(&redis_url().await).await;
    let process = testbed.process_behind(token, proxy.url()).await;
    let other = testbed.process(token).await;
    warm_up(&process, &other).await;
    let mut watched = Watched::new(process.clone());
    let other_holds = async || {
        let guard = other.acquire(&name(), waiting(LONG_LEASE)).await;
        guard.expect("granted")
    };
    let acquired = async || {
        let guard = process.acquire(&name(), waiting(LONG_LEASE)).await;
        guard.expect("granted")
    };

    let holder = other_holds().await;
    let options = waiting_for(LONG_LEASE, Duration::from_millis(30));
    let late = process.acquire(&name(), options).await;
    assert!(matches!(late, Err(AcquireError::TimedOut)), "{late:?}");
    watched.moved("timed out", &["contended", "timed_out"]).await;
    // Until it has left the queue, a release may hand the lock on to it.
    let redis = connect(&redis_url().await).await;
    let queue = format!("{}queue:{}", testbed.prefix, name());
    eventually("the queue to be empty", || async {
        let queued: bool = redis.clone().exists(&queue).await.expect("EXISTS");
        (!queued).then_some(())
    })
    .await;
    refused(&process).await;
    watched.moved("busy at another process", &["busy", "contended"]).await;
    assert_eq!(holder.release().await, ReleaseOutcome::Released);

    let guard = acquired().await;
    watched.moved("acquired", &["acquired"]).await;
    let asked = proxy.counted();
    refused(&process).await;
    assert_eq!(proxy.counted(), asked, "the server was asked");
    watched.moved("busy in this process", &["busy", "contended"]).await;
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    watched.moved("released", &["released"]).await;
    drop(acquired().await);
    watched.moved("dropped", &["acquired", "released", "released_by_drop"]).await;

    let guard = acquired().await;
    watched.moved("acquired", &["acquired"]).await;
    // The one behind the holder asks the server, for itself and for the one behind it.
    let mut in_line = Vec::new();
    for behind in 1..=2 {
        let waiter = process.clone();
        let options = waiting(LONG_LEASE);
        in_line.push(tokio::spawn(async move { waiter.acquire(&name(), options).await }));
        until("it stands in line", || process.stats().snapshot().waiting_now == behind).await;
        watched.moved("in line", &["contended"]).await;
    }
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    let mut next = async || in_line.remove(0).await.expect("no panic").expect("granted");
    let guard = next().await;
    watched.moved("the next one asked", &["acquired", "released"]).await;
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    let guard = next().await;
    watched.moved("handed over", &["acquired", "handed_over", "released"]).await;
    assert_eq!(process.stats().snapshot().waiting_now, 0);
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    watched.moved("released", &["released"]).await;

    let holder = other_holds().await;
    let (next, ()) = tokio::join!(acquired(), async {
        watched.moved("refused", &["contended"]).await;
        assert_eq!(holder.release().await, ReleaseOutcome::Released);
    });
    watched.moved("handed over by another", &["acquired", "handed_over_by_others"]).await;
    assert_eq!(next.release().await, ReleaseOutcome::Released);
    watched.moved("released", &["released"]).await;

    renewals(&mut watched, &proxy).await;
    a_loss(&mut watched, &testbed).await;

    process.stats().count_fenced();
    watched.moved("fenced", &["fenced"]).await;

    // Under another name: what was sent is delivered late, and given back only then.
    let stalled = LockName::new("stalled").expect("a name");
    proxy.set(Fault::Stall);
    let failed = process.acquire(&stalled, at_once(LONG_LEASE)).await;
    assert!(matches!(failed, Err(AcquireError::Unavailable(_))), "{failed:?}");
    watched.moved("unavailable", &["unavailable"]).await;
    proxy.mend();
    assert_eq!(acquired().await.release().await, ReleaseOutcome::Released);
    watched.moved("once more", &["acquired", "released"]).await;
    // What the refused ones left behind is given back, and is counted nowhere.
    let next = other.acquire(&stalled, waiting(LONG_LEASE)).await.expect("given back");
    assert_eq!(next.release().await, ReleaseOutcome::Released);

    let end = process.stats().snapshot();
    assert_eq!(moves(&watched.start, &end), watched.all, "something moved between the events");
    let held = watched.all["acquired"];
    assert_eq!(end.wait.count() - watched.start.wait.count(), held);
    assert_eq!(end.hold.count() - watched.start.hold.count(), held);
    assert_eq!(end.renewal_lag.count(), end.renewals);
}

/// How many renewals there are depends on the clock, but each is counted, and none twice.
async fn renewals(watched: &mut Watched, proxy: &FaultyLink) {
    let (process, sent) = (watched.process.clone(), proxy.counted());
    let options = waiting(Duration::from_secs(2));
    let guard = process.acquire(&name(), options).await.expect("granted");
    let renewed = process.stats().snapshot().renewals;
    until("it is renewed", || process.stats().snapshot().renewals >= renewed + 2).await;
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    let moves = watched.moves();
    let of = |counter| moves.get(counter).copied().unwrap_or_default();
    assert_eq!((of("acquired"), of("released"), of("lost")), (1, 1, 0), "{moves:?}");
    assert_eq!(of("renewals") + of("renew_failures"), of("renewal_batches"), "{moves:?}");
    // One acquire and one release; a first renewal finds its script missing and is sent twice.
    let renewals = proxy.counted() - sent - 2;
    assert!((renewals - 1..=renewals).contains(&of("renewal_batches")), "{moves:?}, {renewals}");
    watched.expect(&moves);
}

async fn a_loss(watched: &mut Watched, testbed: &Testbed) {
    let process = watched.process.clone();
    // The server tells of the loss long before the first renewal.
    let guard = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    watched.moved("acquired", &["acquired"]).await;
    let key = format!("{}lock:{}", testbed.prefix, name());
    let mut redis = connect(&redis_url().await).await;
    let () = redis::cmd("DEL").arg(key).query_async(&mut redis).await.expect("DEL");
    until_lost(&guard).await;
    watched.moved("lost", &["lost"]).await;
    assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost);
    watched.moved("already lost", &["already_lost"]).await;
}

//! A waiter that is stopped while a release grants it the lock: the message belongs to an earlier look
//! of the waiter, and must not count after a later look was refused.

use std::pin::pin;
use std::time::Duration;

use faulty_link::{Fault, FaultyLink};
use futures::future::BoxFuture;
use leaselock::redis::subscriber::Subscriber;
use leaselock::{
    Capabilities, Guard, KINDS, LeasedMutex, ReleaseOutcome, Waiting, redis as redis_locks,
};
use redis::AsyncCommands;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::handing::warm_up;
use super::testbed::{Testbed, can_be_held, label, listed, name};
use super::{LONG_LEASE, connect, until, waiting_for};
use crate::support::{link_to, redis_url};

/// Of the waiter, and so of what it is granted: long enough for a few looks of a busy machine.
const LEASE: Duration = Duration::from_millis(900);

/// How often the waiter may look after it was notified, while somebody else holds.
const LOOKS: u64 = 4;

fn notified(kind: &Capabilities) -> bool {
    kind.waiting == Waiting::Notified && kind.backend == "redis" && can_be_held(kind)
}

/// Three processes: one holds, one waits and is stopped, and one comes next.
struct Three {
    kind: &'static Capabilities,
    label: String,
    testbed: Testbed,
    holds: LeasedMutex,
    waits: LeasedMutex,
    comes: LeasedMutex,
    /// Between the waiter and the server that it asks.
    asked: FaultyLink,
    /// Between the waiter and its messages.
    notified: FaultyLink,
}

impl Three {
    async fn new(kind: &'static Capabilities) -> Self {
        let (testbed, url) = (Testbed::new(), redis_url().await);
        let (asked, notified) = (link_to(&url).await, link_to(&url).await);
        Self {
            holds: testbed.process(kind).await,
            waits: testbed.process_notified_at(kind, asked.url(), notified.url()).await,
            comes: testbed.process(kind).await,
            label: label(kind).to_owned(),
            kind,
            testbed,
            asked,
            notified,
        }
    }

    /// A reader that waits, for a writer that leaves and a writer that comes.
    async fn with_a_reader() -> Self {
        let three = Self::new(listed("redis", "read-write")).await;
        let (prefix, tasks) = (&three.testbed.prefix, TaskTracker::new());
        let client = redis::Client::open(three.notified.url()).expect("a Redis URL");
        let subscriber = Subscriber::start(client, prefix, &tasks).expect("a prefix");
        let connection = connect(three.asked.url()).await;
        let lock = redis_locks::read_write::read_write(&connection, &subscriber, prefix, &tasks);
        let label = format!("{}, a reader", three.label);
        Self { waits: lock.expect("a prefix").read, label, ..three }
    }

    /// The waiter is refused, is not polled from then on, is granted the lock by a release, and
    /// loses it by the end of its lease to the one that comes. Answers that one's guard.
    async fn granted_and_lost(
        &self,
        waits: &mut (impl Future<Output = Result<Guard, leaselock::AcquireError>> + Unpin),
        before_the_release: impl FnOnce(),
    ) -> Guard {
        let options = waiting_for(LONG_LEASE, LONG_LEASE);
        let held = self.holds.acquire(&name(), options).await.expect("granted");
        let contended = self.waits.stats().snapshot().contended;
        tokio::select! {
            biased;
            granted = &mut *waits => panic!("{}: {granted:?} beside the holder", self.label),
            () = until("it is refused", || self.waits.stats().snapshot().contended > contended) => {}
        }
        before_the_release();
        assert_eq!(held.release().await, ReleaseOutcome::Released, "{}", self.label);
        if !self.kind.expires {
            // As an operator does with a permit whose holder does not come back.
            let mut redis = connect(&redis_url().await).await;
            let holders = format!("{}{}:holders:{}", self.testbed.prefix, self.kind.kind, name());
            let deleted: u64 = redis.del(holders).await.expect("DEL");
            assert_eq!(deleted, 1, "{}: nobody was granted it", self.label);
        }
        self.comes.acquire(&name(), waiting_for(LONG_LEASE, LONG_LEASE)).await.expect("granted")
    }

    async fn a_look_more_than(&self, looks: u64) {
        until("it looks again", || self.asked.counted() > looks).await;
    }
}

/// Every kind whose waiters are notified, and the readers of the one that has readers; each fails alone.
async fn in_kinds(
    applies: impl Fn(&Capabilities) -> bool,
    test: impl Fn(Three) -> BoxFuture<'static, ()>,
) {
    let mut tests = JoinSet::new();
    for kind in KINDS.iter().filter(|kind| notified(kind) && applies(kind)) {
        tests.spawn(test(Three::new(kind).await));
    }
    assert!(tests.len() >= 6, "only {} kinds", tests.len());
    tests.spawn(test(Three::with_a_reader().await));
    let mut failed = 0;
    while let Some(ended) = tests.join_next().await {
        failed += u32::from(ended.is_err());
    }
    assert_eq!(failed, 0, "kinds that failed, see above");
}

/// The message comes after a look that was refused, and is older than that look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_a_grant_that_is_older_than_a_refused_look_makes_no_second_holder() {
    in_kinds(|_| true, |three| Box::pin(an_old_grant_comes_late(three))).await;
}

async fn an_old_grant_comes_late(three: Three) {
    let Three { label, waits: waiter, asked, notified, .. } = &three;
    listens(&three).await;
    let mut waits = pin!(waiter.acquire(&name(), waiting_for(LEASE, LONG_LEASE)));
    let next = three.granted_and_lost(&mut waits, || notified.set(Fault::Stall)).await;
    let looks = asked.counted();
    // It goes on, and looks first: somebody else has the lock.
    tokio::select! {
        biased;
        granted = &mut waits => panic!("{label}: {granted:?} beside {next:?}"),
        () = three.a_look_more_than(looks) => {}
    }
    notified.mend();
    let looks = asked.counted();
    tokio::select! {
        biased;
        granted = &mut waits => panic!("{label}: {granted:?} beside {next:?}"),
        () = three.a_look_more_than(looks + LOOKS) => {}
    }
    goes_on(&three, next, waits).await;
}

/// The message comes before the look, and is older than the lease for which it granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_a_grant_whose_lease_is_over_is_not_handed_out() {
    let expires = |kind: &Capabilities| kind.expires;
    in_kinds(expires, |three| Box::pin(a_grant_comes_when_its_lease_is_over(three))).await;
}

async fn a_grant_comes_when_its_lease_is_over(three: Three) {
    let Three { label, waits: waiter, asked, .. } = &three;
    listens(&three).await;
    let mut waits = pin!(waiter.acquire(&name(), waiting_for(LEASE, LONG_LEASE)));
    let next = three.granted_and_lost(&mut waits, || {}).await;
    let looks = asked.counted();
    tokio::select! {
        biased;
        granted = &mut waits => panic!("{label}: {granted:?} beside {next:?}"),
        () = three.a_look_more_than(looks + LOOKS) => {}
    }
    goes_on(&three, next, waits).await;
}

/// The waiter's subscriber is connected, and its scripts are known.
async fn listens(three: &Three) {
    // A reader that waits behind no one needs no notification; the writers do.
    warm_up(&three.holds, &three.waits).await;
}

/// The waiter gets the lock in the end, and with a higher fence.
async fn goes_on(
    three: &Three,
    next: Guard,
    waits: impl Future<Output = Result<Guard, leaselock::AcquireError>>,
) {
    assert!(!next.is_lost(), "{}", three.label);
    let fence = next.fence();
    assert_eq!(next.release().await, ReleaseOutcome::Released, "{}", three.label);
    let last = timeout(LONG_LEASE, waits).await.expect("in time").expect("granted");
    assert!(last.fence().is_none() || last.fence() > fence, "{}", three.label);
    assert!(!last.is_lost(), "{}", three.label);
    assert_eq!(last.release().await, ReleaseOutcome::Released, "{}", three.label);
}

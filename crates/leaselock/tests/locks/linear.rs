//! Locks under faults, judged by a linearizability checker: see [`histories`](super::histories).
//!
//! Each kind with fences keeps a number that callers read and write under it, although holders are
//! stopped for longer than their leases; two kinds on Redis do so while Redis is killed, stopped and
//! robbed of its keys. Histories with the faults of textbook locks are refused.
//! `SECKILL_TEST_ROUNDS=20` takes longer histories.

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use dev_servers::RedisServer;
use leaselock::{
    AcquireError, AcquireOptions, Capabilities, Fencing, Guard, LeasedMutex, ReleaseOutcome, Wait,
};
use linearizability::Recorder;
use rand::RngExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::dying::dying;
use super::fenced_number::Number;
use super::histories::{Added, CountSpec, LockOp, LockSpec};
use super::support::{own_redis, random, rounds};
use super::testbed::{Testbed, lazily, listed, name};
use super::{PATIENCE, SHORT_LEASE};

/// Processes that contend for the name.
const PROCESSES: u32 = 3;
/// Additions of each process, in the short run.
const ADDITIONS: u32 = 4;
/// A holder that is stopped is stopped for this time: longer than its lease.
const STOP: Duration = Duration::from_millis(360);

/// The histories of one run.
#[derive(Clone, Default)]
pub struct Histories {
    pub locks: Recorder<LockOp>,
    pub numbers: Recorder<Added>,
    /// The holds with the times at which their grants were called and their ends were answered.
    holds: Arc<StdMutex<Vec<(u32, Instant, Instant)>>>,
}

impl Histories {
    /// Adds that the holds of this time may have ended by a fault, from its begin on.
    pub fn ended_by_fault(&self, begin: Instant, end: Instant) {
        for (hold, from, to) in self.holds.lock().expect("no panic").iter() {
            if *from <= end && begin <= *to {
                self.locks.add(LockOp::Ended { hold: *hold }, begin.max(*from), *to);
            }
        }
    }

    pub fn check(&self, label: &str) {
        assert!(self.numbers.count(|_| true) > 0, "{label}: nothing was added");
        assert!(self.locks.is_linearizable::<LockSpec>(), "{label}: {:#?}", self.locks);
        assert!(self.numbers.is_linearizable::<CountSpec>(), "{label}: {:#?}", self.numbers);
    }
}

/// One process: acquires, reads, perhaps stands still, writes, releases.
pub struct Process {
    pub lock: LeasedMutex,
    pub number: Number,
    pub histories: Histories,
    pub lease: Duration,
}

impl Process {
    /// Acquires; `None` when the backend does not answer.
    pub async fn granted(&self) -> Option<(Guard, u32, Instant)> {
        let (called, lease) = (Instant::now(), self.lease);
        let wait = Wait::Until(called + PATIENCE);
        match self.lock.acquire(&name(), AcquireOptions { lease, wait }).await {
            Ok(guard) => {
                let hold = rand::random();
                let fence = guard.fence().map_or(0, |fence| fence.get());
                self.histories.locks.done(LockOp::Granted { hold, fence }, called);
                Some((guard, hold, called))
            }
            Err(AcquireError::Unavailable(_) | AcquireError::TimedOut) => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn release(&self, guard: Guard, hold: u32, granted: Instant) {
        let (called, deadline) = (Instant::now(), guard.deadline());
        let operation = match guard.release().await {
            ReleaseOutcome::Released => LockOp::Released { hold },
            _ => LockOp::WasLost { hold },
        };
        self.histories.locks.done(operation, called);
        let now = Instant::now();
        if deadline < now {
            self.histories.locks.add(LockOp::Ended { hold }, deadline, now);
        }
        self.histories.holds.lock().expect("no panic").push((hold, granted, now));
    }

    /// Adds one to the number under the lock, and stands still before the write if it should.
    pub async fn add(&mut self, stops: bool) {
        let Some((guard, hold, granted)) = self.granted().await else {
            return sleep(Duration::from_millis(20)).await;
        };
        let (called, fence) = (Instant::now(), guard.fence().map_or(0, |fence| fence.get()));
        if let Some(read) = self.number.read(fence).await {
            if stops {
                std::thread::sleep(STOP);
            }
            if self.number.write(read + 1, fence).await {
                self.histories.numbers.done(Added { read }, called);
            }
        }
        self.release(guard, hold, granted).await;
    }
}

pub async fn stopped_holders_leave_history_and_number_linearizable(kind: &'static Capabilities) {
    if kind.fencing == Fencing::None {
        return;
    }
    let testbed = Testbed::new();
    Number::make(&testbed).await;
    let (histories, mut processes) = (Histories::default(), JoinSet::new());
    for number in 0..PROCESSES {
        let (testbed, histories) = (testbed.clone(), histories.clone());
        processes.spawn(dying(async move {
            let lock = testbed.process(kind).await;
            let number_of = Number::open(&testbed).await;
            let mut process = Process { lock, number: number_of, histories, lease: SHORT_LEASE };
            for round in 0..ADDITIONS * rounds(1).min(20) {
                process.add((round + number) % 3 == 0).await;
            }
        }));
    }
    processes.join_all().await;
    histories.check(kind.kind);
}

/// Redis is stopped, loses the keys of all locks, and is killed, while processes contend.
async fn redis_under_faults(kind: &str) {
    let kind = listed("redis", kind);
    let (testbed, mut random) = (Testbed::new(), random());
    Number::make(&testbed).await;
    let mut server = own_redis(1, &[]).await.remove(0);
    let (histories, mut processes) = (Histories::default(), JoinSet::new());
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    for _ in 0..PROCESSES {
        let (testbed, histories, over) = (testbed.clone(), histories.clone(), over.clone());
        let url = server.tcp_url();
        processes.spawn(dying(async move {
            let lock = testbed.process_behind(kind, &url).await;
            let number = Number::open(&testbed).await;
            let mut process = Process { lock, number, histories, lease: SHORT_LEASE };
            while !over.load(std::sync::atomic::Ordering::SeqCst) {
                process.add(false).await;
                sleep(Duration::from_millis(10)).await;
            }
        }));
    }
    let mut faults = Vec::new();
    for round in 0..3 * rounds(1).min(20) {
        let pause = Duration::from_millis(random.random_range(100..300));
        sleep(pause).await;
        let begin = Instant::now();
        match round % 3 {
            0 => {
                assert!(server.pause());
                sleep(STOP).await;
                assert!(server.resume());
                continue;
            }
            1 => cut_leases(&server).await,
            _ => {
                server.kill().await;
                server.restart().await.expect("started again");
            }
        }
        faults.push((begin, Instant::now()));
    }
    over.store(true, std::sync::atomic::Ordering::SeqCst);
    processes.join_all().await;
    faults.into_iter().for_each(|(begin, end)| histories.ended_by_fault(begin, end));
    histories.check(kind.kind);
}

/// Ends every lease, as when the server's clock jumps.
async fn cut_leases(server: &RedisServer) {
    let mut redis = lazily(&server.url());
    let keys: Vec<String> =
        redis::cmd("KEYS").arg("*lock*").query_async(&mut redis).await.expect("KEYS");
    for key in keys {
        let mut expire = redis::cmd("PEXPIRE");
        let _: i64 = expire.arg(key).arg(1).query_async(&mut redis).await.expect("PEXPIRE");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_stays_linearizable_while_redis_is_stopped_robbed_and_killed() {
    redis_under_faults("token").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fair_stays_linearizable_while_redis_is_stopped_robbed_and_killed() {
    redis_under_faults("fair").await;
}

/// The faults of the textbook locks, as `faults` and `clocks` show them on real servers, are seen in a history.
#[test]
fn faults_of_textbook_locks_are_caught() {
    use LockOp::{Ended, Granted, Refused, Released};
    let first = Granted { hold: 1, fence: 0 };
    let second = Granted { hold: 2, fence: 0 };
    let cases = [
        ("setnx: the dead holder blocks the name", vec![first, Ended { hold: 1 }], Refused),
        ("getset: two holders", vec![first], second),
        (
            "a release without a comparison",
            vec![first, Ended { hold: 1 }, second],
            Released { hold: 1 },
        ),
    ];
    for (label, before, fault) in cases {
        let history = Recorder::default();
        let mut at = Instant::now();
        let mut next = |operation| {
            history.add(operation, at, at + Duration::from_millis(1));
            at += Duration::from_millis(2);
        };
        before.into_iter().for_each(&mut next);
        assert!(history.is_linearizable::<LockSpec>(), "{label}");
        next(fault);
        assert!(!history.is_linearizable::<LockSpec>(), "{label}");
    }
}

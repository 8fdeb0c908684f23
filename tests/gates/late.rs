//! A holder whose lock ends between its look at the stock and its write. The fence keeps it out when
//! somebody else has written since; when nobody has, it has to look at its hold by itself.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use seckill::config::RuntimeCount;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection, Executor};

use crate::support::prelude::*;

/// The lease of a holder that is to stand still for longer.
const LEASE: Duration = Duration::from_millis(1_500);
/// The lease of a holder that has to live until the test ends its hold. A renewal, after a third of it, tells the loss
/// while the look at the stock still waits: at most six seconds.
const LONG_LEASE: Duration = Duration::from_secs(6);

/// One hold for each request, and one for the work of many.
const BOTH: [&str; 2] = ["lock-redis?scope=market", "lock-redis"];

/// A shop whose locks have this lease, and an item whose first unit is sold by the strategy.
async fn open(lease: Duration, strategy: &str) -> (Shop, Instance, i64) {
    let (shop, instance, item) = Shop::selling_with(json!({}), |config| {
        patient(config);
        config.lock.lease_ms = u64::try_from(lease.as_millis()).expect("a short lease");
        // Requests run on the test's own runtime, which the test can stop.
        config.http.runtimes = RuntimeCount::Number(0);
        // The item is not read again while the table is locked.
        config.purchase.item_age_ms_max = 60_000;
    })
    .await;
    // On a busy machine a short lease may end before the write. Then nothing was written.
    instance.buyer(1).until_sold(strategy, item).await;
    (shop, instance, item)
}

/// A session on a thread of its own that has locked the table of the stock, so that it goes on while
/// this process's runtime stands still.
struct TableLock {
    end: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl TableLock {
    async fn new(shop: &Shop) -> Self {
        let url = shop.config.database_url.reveal().to_owned();
        let ((end, ended), (locked, is_locked)) =
            (mpsc::channel(), tokio::sync::oneshot::channel());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let mut session = MySqlConnection::connect(&url).await.expect("a session");
                session.execute("LOCK TABLES stock WRITE").await.expect("locked");
                locked.send(()).expect("the test waits");
                ended.recv().expect("told to end");
                session.execute("UNLOCK TABLES").await.expect("unlocked");
                session.close().await.expect("closed");
            });
        });
        is_locked.await.expect("locked");
        Self { end, thread }
    }

    /// Unlocks the table. Until this returns, nothing else of this thread's runtime runs.
    fn end(self) {
        self.end.send(()).expect("the thread waits");
        self.thread.join().expect("no panic");
    }
}

/// Waits until as many looks at the stock as are under way wait for the table: under their locks.
async fn looks_wait(shop: &Shop, count: i64) {
    let query = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() \
                 AND info LIKE 'SELECT available, version, changed_at%FROM stock%' \
                 AND state LIKE 'Waiting for table%'";
    shop.until_count(query, count).await;
}

/// The evidence that something was written, if there is any; one order was made before.
async fn written(instance: &Instance, item: i64, answer: &Answer, name: &str) -> Option<String> {
    let audit = instance.audit(item).await;
    let nothing = answer.brief() == (503, "contended") && audit["orders"] == 1;
    (!nothing || audit["clean"] != true).then(|| format!("{name}: {}, {audit}", answer.text))
}

/// The lock is deleted, and the renewal tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_was_notified_of_its_loss_writes_nothing() {
    let mut faults = Vec::new();
    for strategy in BOTH {
        let (shop, instance, item) = open(LONG_LEASE, strategy).await;
        let table = TableLock::new(&shop).await;
        let press = instance.buyer(2).buying(strategy, item);
        looks_wait(&shop, 1).await;
        let prefix = &shop.config.redis.prefix;
        let held = [format!("{prefix}lock-of:{{market}}"), format!("{prefix}lock:{{item:{item}}}")];
        let mut deleted = 0;
        for key in &held {
            deleted += shop.redis::<u64>(&["DEL", key]).await;
        }
        assert_eq!(deleted, 1, "{strategy}");
        let lost = "seckill_lock{kind=\"token\",backend=\"redis\",event=\"lost\"} 1";
        instance.stranger().until("/metrics", |seen| seen.text.contains(lost)).await;
        table.end();
        let answer = press.await.expect("no panic");
        faults.extend(written(&instance, item, &answer, strategy).await);
    }
    assert_eq!(faults, [""; 0]);
}

/// The process stands still for longer than the lease, so that nothing could tell it: it has to look
/// at the clock.
#[tokio::test]
async fn a_holder_that_stood_still_beyond_its_lease_writes_nothing() {
    let mut faults = Vec::new();
    for strategy in BOTH {
        let (shop, instance, item) = open(LEASE, strategy).await;
        let table = TableLock::new(&shop).await;
        let press = instance.buyer(2).buying(strategy, item);
        looks_wait(&shop, 1).await;
        // On the only thread of the runtime: the look is answered meanwhile, and no renewal is sent.
        table.end();
        thread::sleep(LEASE + LEASE / 3);
        let answer = press.await.expect("no panic");
        faults.extend(written(&instance, item, &answer, strategy).await);
    }
    assert_eq!(faults, [""; 0]);
}

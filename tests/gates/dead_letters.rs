//! `seckill dead-letter`: an operator lists, retries and drops queued orders that could not be decided.

use gates::redis_store::queue::{Push, Reader, Resolution};
use gates::redis_store::{Counters, Queue, RedisClient};
use gates::redis_stream;
use ledger::write::{Arbiter, StockWrite};
use serde_json::{Value, json};
use shop_domain::{ItemId, Outcome, Purchase, UserId};
use shop_metrics::Metrics;

use crate::process::program::program;
use crate::support::{self, Shop, until_running};

/// An item of ten units with one queued order of two, which is a dead letter; no service runs.
struct DeadLetterTestbed {
    shop: Shop,
    item: ItemId,
    purchase: Purchase,
    counters: Counters,
    reader: Reader,
}

impl DeadLetterTestbed {
    async fn new() -> Self {
        let (shop, instance) = Shop::open().await;
        let item = instance.make_item(json!({ "per_buyer_limit": 2 })).await;
        let item = ItemId::new(item).expect("positive");
        instance.stop().await;
        let redis = RedisClient::new(&shop.config).expect("the URL is fine");
        let counters = Counters::new(redis.clone(), shop.pool.clone(), Metrics::new());
        let name = redis_stream::NAME;
        let (queue, _) = Queue::new(redis, shop.pool.clone(), counters.clone(), name, 10);
        let purchase = purchase(&shop, item).await;
        assert_eq!(queue.push(&purchase, None, None).await.expect("pushed"), Push::Queued);
        let testbed = Self { shop, item, purchase, counters, reader: Reader::new(queue) };
        testbed.move_to_dead_letters().await;
        testbed
    }

    /// Moves the entry, as the consumer does when it cannot decide an order.
    async fn move_to_dead_letters(&self) {
        let entries = self.reader.read(self.item, 10).await.expect("read");
        assert_eq!(entries.len(), 1, "{entries:?}");
        let moved = self.reader.move_to_dead_letters(self.item, &entries[0], "for a test").await;
        assert!(moved.expect("moved"));
    }

    /// The entries that the command lists.
    async fn listed(&self) -> Vec<String> {
        let (code, text) = self.run(&["dead-letter"]).await;
        assert_eq!(code, Some(0), "{text}");
        let lines = text.lines().filter(|line| line.contains("for a test"));
        lines
            .filter_map(|line| line.split("entry ").nth(1)?.split(':').next())
            .map(str::to_owned)
            .collect()
    }

    async fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = program(&self.shop, arguments).output().await.expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn left(&self) -> (i64, i64) {
        let seen = self.counters.peek_with_queue(self.item).await.expect("read").expect("loaded");
        (seen.counter.available, seen.queued)
    }

    async fn status(&self) -> Option<String> {
        sqlx::query_scalar("SELECT status FROM orders WHERE id = ?")
            .bind(self.purchase.order_id.to_string())
            .fetch_optional(&self.shop.pool)
            .await
            .expect("read")
    }
}

async fn purchase(shop: &Shop, item: ItemId) -> Purchase {
    let purchase = support::purchase(shop, item, 2, (redis_stream::NAME, "k")).await;
    Purchase { buyer: UserId::new(3).expect("positive"), ..purchase }
}

#[tokio::test]
async fn a_dead_letter_is_listed_and_retried() {
    let testbed = DeadLetterTestbed::new().await;
    assert_eq!(testbed.left().await, (8, 2));
    let listed = testbed.listed().await;
    let [entry] = &*listed else { panic!("{listed:?}") };
    let item = testbed.item.to_string();
    let operator = testbed.shop.make_operator().await;
    let retry = ["dead-letter", "--item", &item, "--retry", entry, "--operator", &operator];
    assert_eq!(testbed.run(&retry).await.0, Some(0));
    assert_eq!(testbed.run(&retry).await.0, Some(1), "it is there no more");
    assert!(testbed.listed().await.is_empty());
    // It waits for a consumer again, with its units.
    testbed.move_to_dead_letters().await;
    assert_eq!((testbed.left().await, testbed.status().await), ((8, 2), None));
}

/// Another operator retries it after this one has found it: the log says which of the two did nothing.
#[tokio::test]
async fn a_retry_that_came_second_is_logged_as_such() {
    let testbed = DeadLetterTestbed::new().await;
    let listed = testbed.listed().await;
    let [entry] = &*listed else { panic!("{listed:?}") };
    let item = testbed.item.to_string();
    let operator = testbed.shop.make_operator().await;
    let pool = &testbed.shop.pool;
    let mut holder = pool.acquire().await.expect("a connection");
    sqlx::raw_sql("LOCK TABLES admin_actions WRITE").execute(&mut *holder).await.expect("locked");
    let retry = ["dead-letter", "--item", &item, "--retry", entry, "--operator", &operator];
    let by_another = async {
        until_running(pool, "INSERT INTO admin_actions%", 1).await;
        let queue = testbed.reader.queue();
        let resolved = queue.resolve_dead_letter(testbed.item, entry, Resolution::Retry).await;
        assert!(resolved.expect("asked"), "it was there");
        sqlx::raw_sql("UNLOCK TABLES").execute(&mut *holder).await.expect("unlocked");
    };
    let ((code, text), ()) = tokio::join!(testbed.run(&retry), by_another);
    assert_eq!(code, Some(1), "{text}");
    let details: Vec<String> =
        sqlx::query_scalar("SELECT detail FROM admin_actions WHERE action = 'parked_retried'")
            .fetch_all(pool)
            .await
            .expect("read");
    let is_correction = |detail: &&String| {
        let detail: Value = serde_json::from_str(detail).expect("JSON");
        detail["was_there"] == false
    };
    assert_eq!(details.iter().filter(is_correction).count(), 1, "{details:?}");
}

#[tokio::test]
async fn a_dropped_dead_letter_is_rejected_and_its_units_come_back_once() {
    let testbed = DeadLetterTestbed::new().await;
    let listed = testbed.listed().await;
    let [entry] = &*listed else { panic!("{listed:?}") };
    let item = testbed.item.to_string();
    let operator = testbed.shop.make_operator().await;
    let mut drop = vec!["dead-letter", "--item", &item, "--drop", entry, "--operator", &operator];
    assert_eq!(testbed.run(&drop).await.0, Some(2), "without a reason");
    drop.extend(["--reason", "the price was wrong"]);
    let (code, text) = testbed.run(&drop).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(testbed.run(&drop).await.0, Some(1), "it is there no more");
    assert_eq!(
        (testbed.left().await, testbed.status().await.as_deref()),
        ((10, 0), Some("rejected"))
    );
    assert!(testbed.listed().await.is_empty());
    let (user, detail): (i64, String) =
        sqlx::query_as("SELECT user_id, detail FROM admin_actions WHERE action = 'parked_dropped'")
            .fetch_one(&testbed.shop.pool)
            .await
            .expect("one line in the log");
    assert_eq!(user.to_string(), operator);
    assert!(detail.contains("the price was wrong"), "{detail}");
}

/// A consumer wrote the order, and ended, when another one had asked the ledger for it and gave it up.
#[tokio::test]
async fn a_dead_letter_of_a_sold_order_is_finished() {
    for resolution in ["", "--retry", "--drop"] {
        let testbed = DeadLetterTestbed::new().await;
        let listed = testbed.listed().await;
        let [entry] = &*listed else { panic!("{listed:?}") };
        let arbiter = Arbiter::new(testbed.shop.pool.clone(), Metrics::new());
        let sold = arbiter.sell(&testbed.purchase, StockWrite::Guarded, None).await;
        assert!(matches!(sold, Outcome::Sold(_)), "{sold:?}");
        let item = testbed.item.to_string();
        let operator = testbed.shop.make_operator().await;
        let mut arguments = vec!["dead-letter"];
        if !resolution.is_empty() {
            arguments.extend(["--item", &item, resolution, entry, "--operator", &operator]);
        }
        if resolution == "--drop" {
            arguments.extend(["--reason", "the price was wrong"]);
        }
        let (code, text) = testbed.run(&arguments).await;
        assert_eq!(code, Some(0), "{resolution}: {text}");
        assert!(text.contains("sold, now pending"), "{resolution}: {text}");
        assert_eq!(testbed.left().await, (8, 0), "{resolution}: the units are taken once");
        let letters = testbed.reader.queue().dead_letters(testbed.item).await.expect("read");
        assert_eq!(letters, [], "{resolution}");
        let entries = testbed.reader.read(testbed.item, 10).await.expect("read");
        assert_eq!(entries, [], "{resolution}: it is queued again");
        assert_eq!(testbed.status().await.as_deref(), Some("pending"), "{resolution}");
        let count = "SELECT COUNT(*) FROM admin_actions WHERE action LIKE 'parked%'";
        assert_eq!(testbed.shop.number(count).await, 0, "{resolution}: no operator has decided it");
    }
}

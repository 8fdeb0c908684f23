//! `seckill dead-letter`: an operator lists, retries and drops queued orders that could not be decided.

use gates::redis_store::queue::{Push, Reader, Resolution};
use gates::redis_store::{Counters, Queue};
use gates::redis_stream;
use ledger::write::{Arbiter, StockWrite};

use crate::support;
use crate::support::prelude::*;

/// How an operator drops a dead letter.
const DROP: [&str; 3] = ["--drop", "--reason", "the price was wrong"];

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
        let (shop, instance, item) = Shop::selling(json!({ "per_buyer_limit": 2 })).await;
        let item = ItemId::new(item).expect("positive");
        instance.stop().await;
        let counters = shop.counters();
        let pool = shop.pool.clone();
        let name = redis_stream::NAME;
        let (queue, _) = Queue::new(shop.redis_client(), pool, counters.clone(), name, 10);
        let purchase = support::purchase(&shop, item, 2, (name, "k")).await;
        let purchase = Purchase { buyer: UserId::new(3).expect("positive"), ..purchase };
        assert_eq!(
            queue.push(&purchase, None, in_a_minute()).await.expect("pushed"),
            Push::Queued { is_replicated: true }
        );
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
        let (code, text) = self.run(&[]).await;
        assert_eq!(code, 0, "{text}");
        let lines = text.lines().filter(|line| line.contains("for a test"));
        lines
            .filter_map(|line| line.split("entry ").nth(1)?.split(':').next())
            .map(str::to_owned)
            .collect()
    }

    /// The only entry that the command lists.
    async fn entry(&self) -> String {
        let listed = self.listed().await;
        let [entry] = &*listed else { panic!("{listed:?}") };
        entry.clone()
    }

    async fn run(&self, arguments: &[&str]) -> (i32, String) {
        run(&self.shop, &[&["dead-letter"][..], arguments].concat()).await
    }

    /// Has an operator decide the entry in this way.
    async fn decide(&self, entry: &str, operator: &str, way: &[&str]) -> (i32, String) {
        let item = self.item.to_string();
        let of_entry = ["--item", &item, "--operator", operator, way[0], entry];
        self.run(&[&of_entry[..], &way[1..]].concat()).await
    }

    async fn left(&self) -> (i64, i64) {
        let seen = self.counters.peek_with_queue(self.item).await.expect("read").expect("loaded");
        (seen.counter.available, seen.queued)
    }

    async fn status(&self) -> Option<String> {
        let statement = sqlx::query_scalar("SELECT status FROM orders WHERE id = ?");
        let mut found =
            self.shop.read_all(statement.bind(self.purchase.order_id.to_string())).await;
        found.pop()
    }
}

#[tokio::test]
async fn a_dead_letter_is_listed_and_retried() {
    let testbed = DeadLetterTestbed::new().await;
    assert_eq!(testbed.left().await, (8, 2));
    let entry = testbed.entry().await;
    let operator = testbed.shop.make_operator().await;
    assert_eq!(testbed.decide(&entry, &operator, &["--retry"]).await.0, 0);
    assert_eq!(testbed.decide(&entry, &operator, &["--retry"]).await.0, 1, "it is there no more");
    assert!(testbed.listed().await.is_empty());
    // It waits for a consumer again, with its units.
    testbed.move_to_dead_letters().await;
    assert_eq!((testbed.left().await, testbed.status().await), ((8, 2), None));
}

/// Another operator retries it after this one has found it: the log says which of the two did nothing.
#[tokio::test]
async fn a_retry_that_came_second_is_logged_as_such() {
    let testbed = DeadLetterTestbed::new().await;
    let entry = testbed.entry().await;
    let operator = testbed.shop.make_operator().await;
    let pool = &testbed.shop.pool;
    let mut holder = pool.acquire().await.expect("a connection");
    sqlx::raw_sql("LOCK TABLES admin_actions WRITE").execute(&mut *holder).await.expect("locked");
    let by_another = async {
        until_running(pool, "INSERT INTO admin_actions%", 1).await;
        let queue = testbed.reader.queue();
        let resolved = queue.resolve_dead_letter(testbed.item, &entry, Resolution::Retry).await;
        assert!(resolved.expect("asked"), "it was there");
        sqlx::raw_sql("UNLOCK TABLES").execute(&mut *holder).await.expect("unlocked");
    };
    let retried = testbed.decide(&entry, &operator, &["--retry"]);
    let ((code, text), ()) = tokio::join!(retried, by_another);
    assert_eq!(code, 1, "{text}");
    let details = "SELECT detail FROM admin_actions WHERE action = 'parked_retried'";
    let details: Vec<String> = testbed.shop.read_all(sqlx::query_scalar(details)).await;
    let is_correction = |detail: &&String| {
        let detail: Value = serde_json::from_str(detail).expect("JSON");
        detail["was_there"] == false
    };
    assert_eq!(details.iter().filter(is_correction).count(), 1, "{details:?}");
}

#[tokio::test]
async fn a_dropped_dead_letter_is_rejected_and_its_units_come_back_once() {
    let testbed = DeadLetterTestbed::new().await;
    let entry = testbed.entry().await;
    let operator = testbed.shop.make_operator().await;
    assert_eq!(testbed.decide(&entry, &operator, &["--drop"]).await.0, 2, "without a reason");
    let (code, text) = testbed.decide(&entry, &operator, &DROP).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(testbed.decide(&entry, &operator, &DROP).await.0, 1, "it is there no more");
    assert_eq!(testbed.left().await, (10, 0));
    assert_eq!(testbed.status().await.as_deref(), Some("rejected"));
    assert!(testbed.listed().await.is_empty());
    let log = "SELECT user_id, detail FROM admin_actions WHERE action = 'parked_dropped'";
    let logged = sqlx::query_as(log).fetch_one(&testbed.shop.pool).await;
    let (user, detail): (i64, String) = logged.expect("one line in the log");
    assert_eq!(user.to_string(), operator);
    assert!(detail.contains("the price was wrong"), "{detail}");
}

/// A newer version has queued an order with a field that this one does not know. Without its text nobody could give its
/// units back.
#[tokio::test]
async fn an_entry_that_holds_units_is_not_dropped_unread() {
    let testbed = DeadLetterTestbed::new().await;
    let shop = &testbed.shop;
    let operator = shop.make_operator().await;
    let key = |part: &str| format!("{}{{item:{}}}:{part}", shop.config.redis.prefix, testbed.item);
    let text = r#"{"order":"of a newer version"}"#;
    let add = ["XADD", &key("parked"), "*", "order", text, "why", "not an order"];
    let entry: String = shop.redis(&add).await;
    let _: u64 = shop.redis(&["HSET", &key("queued"), "o:1", text]).await;
    let (code, told) = testbed.decide(&entry, &operator, &DROP).await;
    assert_eq!(code, 1, "{told}");
    let letters = testbed.reader.queue().dead_letters(testbed.item).await.expect("read");
    assert!(letters.iter().any(|letter| letter.id == entry), "{letters:?}");
    let _: u64 = shop.redis(&["HDEL", &key("queued"), "o:1"]).await;
    let (code, told) = testbed.decide(&entry, &operator, &DROP).await;
    assert_eq!(code, 0, "it holds no units: {told}");
    assert_eq!(testbed.left().await, (8, 2), "those of the other order stay");
}

/// A consumer wrote the order, and ended, when another one had asked the ledger for it and gave it up.
#[tokio::test]
async fn a_dead_letter_of_a_sold_order_is_finished() {
    let none: &[&str] = &[];
    for resolution in [none, &["--retry"], &DROP] {
        let testbed = DeadLetterTestbed::new().await;
        let entry = testbed.entry().await;
        let arbiter = Arbiter::new(testbed.shop.pool.clone(), Metrics::new());
        let sold = arbiter.sell(&testbed.purchase, StockWrite::Guarded, None).await;
        assert!(matches!(sold, Outcome::Sold(_)), "{sold:?}");
        let operator = testbed.shop.make_operator().await;
        let (code, text) = if resolution.is_empty() {
            testbed.run(&[]).await
        } else {
            testbed.decide(&entry, &operator, resolution).await
        };
        assert_eq!(code, 0, "{resolution:?}: {text}");
        assert!(text.contains("sold, now pending"), "{resolution:?}: {text}");
        assert_eq!(testbed.left().await, (8, 0), "{resolution:?}: the units are taken once");
        let letters = testbed.reader.queue().dead_letters(testbed.item).await.expect("read");
        assert_eq!(letters, [], "{resolution:?}");
        let entries = testbed.reader.read(testbed.item, 10).await.expect("read");
        assert_eq!(entries, [], "{resolution:?}: it is queued again");
        assert_eq!(testbed.status().await.as_deref(), Some("pending"), "{resolution:?}");
        let count = "SELECT COUNT(*) FROM admin_actions WHERE action LIKE 'parked%'";
        let decided = testbed.shop.number(count).await;
        assert_eq!(decided, 0, "{resolution:?}: no operator has decided it");
    }
}

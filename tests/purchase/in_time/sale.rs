//! A small sale on two instances, whose every answer is written down with its times.

use std::time::Instant;

use hyper::header::HeaderValue;
use ledger_audit::{Answer, Evidence, History, InTime, Judgement, Ledger, Reader, judge};
use loadtest::drive::call::Call;
use loadtest::drive::observer::Observer;
use loadtest::drive::{self, answer, micros_since};

use crate::support::prelude::*;

/// How old "sold out" may be: twice the default of `purchase.sold_out_ms`.
pub const AGE: Duration = Duration::from_millis(500);

/// Units are sold one by one.
const STRATEGY: &str = "mysql-atomic";
/// An answer that takes longer is none.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// How long queued orders may take to settle.
const SETTLE_MAX: Duration = Duration::from_secs(20);

/// A sale and its record.
pub struct Sale {
    pub shop: Shop,
    instances: Vec<Instance>,
    item: i64,
    base: Instant,
    /// One for each instance.
    observers: Vec<Observer>,
    answers: Vec<Answer>,
    before: Ledger,
}

impl Sale {
    /// Two instances of a shop, and an item. Only the first instance expires orders.
    pub async fn start(shop: Shop, changes: Value) -> Self {
        let first = shop.start().await;
        let second = shop.start_with(|config| config.job.expire_period_ms = 3_600_000).await;
        let instances = vec![first, second];
        let item = instances[0].make_item(changes).await;
        let base = Instant::now();
        let observer = |one| Observer::new(vec![address(one)], base, ANSWER_MAX);
        let observers = instances.iter().map(observer).collect();
        let before = reader(&shop).await.ledger(item).await.expect("the ledger");
        Self { shop, instances, item, base, observers, answers: Vec::new(), before }
    }

    /// Buys one unit on an instance; the key is the buyer's.
    pub async fn buy(&mut self, instance: usize, buyer: i64) -> Answer {
        let key = format!("k{buyer}");
        let path = purchase_path(STRATEGY, self.item);
        let token = self.token(buyer);
        let call = Call { token: Some(&token), key: Some(&key), ..Call::new("POST", &path) };
        let instance = address(&self.instances[instance]);
        let mut connection = None;
        // To connect is not to send.
        instance.connect(&mut connection).await;
        let sent = Instant::now();
        let read = answer::read(&instance.call_over(&mut connection, call, ANSWER_MAX).await);
        let now = Instant::now();
        let answer = Answer {
            request: u32::try_from(buyer).expect("small"),
            attempt: 0,
            last: true,
            buyer,
            key: Some(key),
            answered_at_us: micros_since(self.base, now),
            from_send_us: micros_since(sent, now),
            ..read
        };
        self.answers.push(answer.clone());
        answer
    }

    /// Looks at an order on an instance.
    pub async fn look(&mut self, instance: usize, buyer: i64, order: &str) {
        let token = self.token(buyer);
        self.observers[instance].order(&token, order).await;
    }

    /// Adds units on an instance.
    pub async fn restock(&mut self, instance: usize, units: i64) {
        let token = bearer(&self.instances[instance].token(1, Role::Admin));
        assert!(self.observers[instance].restock(&token, self.item, units).await, "restocked");
    }

    /// The status of an order in the ledger.
    pub async fn status(&self, order: &str) -> String {
        let read = sqlx::query_scalar("SELECT CAST(status AS CHAR) FROM orders WHERE id = ?");
        self.shop.read(read.bind(order)).await
    }

    /// Judges all that was recorded.
    pub async fn judge(&mut self) -> Judgement {
        let mut history = History::default();
        for observer in &mut self.observers {
            history.extend(std::mem::take(&mut observer.history));
        }
        let answers = std::mem::take(&mut self.answers);
        let after = reader(&self.shop).await.settled_ledger(self.item, &answers, SETTLE_MAX).await;
        let after = after.expect("the ledger");
        let evidence = Evidence {
            before: &self.before,
            in_time: Some(InTime { history: &history, sold_out_age: AGE }),
            ..Evidence::of(after.stock.expect("a stock row").total, &after, &answers)
        };
        judge(&evidence).expect("there is something to judge")
    }

    fn token(&self, buyer: i64) -> HeaderValue {
        bearer(&self.instances[0].token(buyer, Role::Buyer))
    }
}

/// The first faults of a rule, in words.
pub fn example(judgement: &Judgement, rule: &str) -> String {
    let finding = judgement.findings.iter().find(|finding| finding.invariant == rule);
    finding.expect("the rule").examples.join("\n")
}

async fn reader(shop: &Shop) -> Reader {
    Reader::connect(shop.config.database_url.reveal()).await.expect("a reader")
}

fn bearer(token: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("Bearer {token}")).expect("a token")
}

fn address(instance: &Instance) -> drive::Instance {
    drive::Instance::at(instance.addr)
}

//! What is said beside purchases while the writer of a pair is replaced: payments by a provider's messages, and
//! requests with the keys of earlier orders.

use std::sync::{Mutex, PoisonError};

use dev_servers::Replication;

use super::mysql_engines::{followed, look_at_writer, on, take_over};
use crate::prelude::*;

/// Buyers at once, beside those of the workload.
const AT_ONCE: i64 = 4;
/// The first of these buyers.
const STRANGERS: i64 = 6_000_000;
/// How long a purchase or a message is repeated until it is answered for good.
const ANSWERED_MAX: Duration = Duration::from_secs(60);
/// The pause before it is repeated.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Items of one unit that these buyers may buy in one trial.
const ITEMS_MAX: usize = 60;

/// Payments that were acknowledged: the payment's id and its order.
type Paid = Arc<Mutex<Vec<(String, String)>>>;

/// An instance, and buyers beside the workload whose orders are paid by a provider's messages.
pub(super) struct Till {
    service: Arc<Service>,
    buyers: JoinSet<Run<()>>,
    stop: Arc<AtomicBool>,
    paid: Paid,
}

impl Till {
    /// Starts them.
    pub(super) async fn open(testbed: &Testbed, trial: &Trial, setup: &Setup) -> Run<Self> {
        let secret = webhooks::new_secret();
        let setup = setup
            .clone()
            .with("SECKILL_PAYMENT_PROVIDER", "webhook")
            .with("SECKILL_PAYMENT_CHECKOUT_URL", "https://pay.example/?o={order}&c={amount_cents}")
            .with("SECKILL_PAYMENT_SECRET", secret.clone());
        let service = Arc::new(Service::start(&setup).await?);
        let more = json!({ "stock": 1_000_000, "per_buyer_limit": 1_000_000 });
        let item = make_item(testbed, &trial.services[0], &more).await?;
        let (stop, paid) = (Arc::new(AtomicBool::new(false)), Paid::default());
        let mut buyers = JoinSet::new();
        for number in 0..AT_ONCE {
            let (service, secret) = (Arc::clone(&service), secret.clone());
            let (stop, paid) = (Arc::clone(&stop), Arc::clone(&paid));
            let token = testbed.token(STRANGERS + number, Role::Buyer);
            buyers.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let order =
                        order_for_sure(&service, (item, "mysql-atomic"), &token, &key()).await?;
                    let payment = pay_for_sure(&service, &secret, &order).await?;
                    paid.lock().unwrap_or_else(PoisonError::into_inner).push((payment, order));
                }
                Ok(())
            });
        }
        Ok(Self { service, buyers, stop, paid })
    }

    /// Payments that were acknowledged so far.
    pub(super) fn paid(&self) -> usize {
        self.paid.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Ends them, and answers how many payments were acknowledged; all of them have to be in this ledger.
    pub(super) async fn close(mut self, url: &str) -> Run<usize> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.buyers.join_next().await {
            ended.said()??;
        }
        let paid = std::mem::take(&mut *self.paid.lock().unwrap_or_else(PoisonError::into_inner));
        match not_paid(url, &paid).await? {
            missing if missing.is_empty() => Ok(paid.len()),
            missing => {
                Err(format!("acknowledged payments that are not in the ledger: {missing:?}"))
            }
        }
    }
}

/// The writer is frozen, replaced and wakes up while a provider says that orders are paid.
pub async fn payments(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let (mut set, setup) = on(testbed, Replication::SemiSync).await?;
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        let till = Till::open(testbed, trial, &setup).await?;
        sleep(FAULT).await;
        let old = set.writer();
        let paused = set.member(old).pause();
        let before = till.paid();
        let took = take_over(&mut set, testbed, trial).await?;
        let took = followed(trial, paused && before > 0, took).await;
        // A service that did not hear of the new writer yet would believe the old one.
        let follows = until("the till to follow the new writer", ANSWERED_MAX, || async {
            let changes = till.service.metric("seckill_ledger_writer_changes_total", "").await;
            (changes > 0.0).then_some(())
        });
        follows.await?;
        set.member(old).resume();
        sleep(FAULT).await;
        let url = set.member(set.writer()).tcp_url_of(Testbed::DATABASE);
        let after = till.close(&url).await? - before;
        Ok(format!("{}; {before} payments before, {after} after", took?))
    })
    .await
}

/// Acknowledged payments that the ledger has not, or whose order is not paid.
async fn not_paid(url: &str, acknowledged: &[(String, String)]) -> Run<Vec<String>> {
    let mut ledger = MySqlConnection::connect(url).await.said()?;
    let mut missing = Vec::new();
    for (payment, order) in acknowledged {
        let read = "SELECT (SELECT status FROM payments WHERE id = ?), (SELECT status FROM orders WHERE id = ?)";
        let read = sqlx::query_as(read).bind(payment).bind(order).fetch_one(&mut ledger).await;
        let (of_payment, of_order): (Option<String>, Option<String>) = read.said()?;
        if (of_payment.as_deref(), of_order.as_deref()) != (Some("accepted"), Some("paid")) {
            missing.push(format!("{payment}: {of_payment:?}, order {of_order:?}"));
        }
    }
    Ok(missing)
}

/// The writer is demoted while sold-out items are asked for with the keys of their orders.
pub async fn keys(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let (mut set, setup) = on(testbed, Replication::SemiSync).await?;
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        let others = [Service::start(&setup).await?, Service::start(&setup).await?];
        let token = testbed.token(STRANGERS, Role::Buyer);
        let mut items = Vec::new();
        for _ in 0..ITEMS_MAX {
            items.push(make_item(testbed, &others[0], &json!({ "stock": 1 })).await?);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let asking = tokio::spawn(ask_for_orders(others, items, token, Arc::clone(&stop)));
        sleep(FAULT).await;
        set.switch_over().await.said()?;
        trial.fault_ended();
        look_at_writer(&mut set, testbed);
        let took = followed(trial, true, "switched over".to_owned()).await;
        sleep(FAULT).await;
        stop.store(true, Ordering::Relaxed);
        let asked = asking.await.said()??;
        proven(asked > 0, format!("{}; {asked} orders found by their keys", took?))
    })
    .await
}

/// Buys one item after the other, and asks for each order with its key at both instances.
async fn ask_for_orders(
    services: [Service; 2],
    items: Vec<i64>,
    token: String,
    stop: Arc<AtomicBool>,
) -> Run<usize> {
    let mut bought: Vec<(i64, String, String)> = Vec::new();
    let mut items = items.into_iter();
    let mut found = 0;
    while !stop.load(Ordering::Relaxed) {
        if let Some(item) = items.next() {
            let key = key();
            let order = order_for_sure(&services[0], (item, "mysql-atomic"), &token, &key).await?;
            bought.push((item, key, order));
        }
        // The last ones, so that those around the failover are asked for.
        for (item, key, order) in bought.iter().rev().take(4) {
            for service in &services {
                let again = order_for_sure(service, (*item, "mysql-atomic"), &token, key).await?;
                if again != *order {
                    return Err(format!("{order} was answered with {again}"));
                }
                found += 1;
            }
        }
    }
    Ok(found)
}

fn key() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Buys with one key until there is an order; an error when the request is refused for good.
async fn order_for_sure(
    service: &Service,
    (item, strategy): (i64, &str),
    token: &str,
    key: &str,
) -> Run<String> {
    let path = format!("/api/seckill/{strategy}/{item}");
    let headers = [("idempotency-key", key)];
    let body = until_answered(service, &path, Some(token), (&headers, Bytes::new())).await?;
    body["id"].as_str().map(str::to_owned).ok_or_else(|| format!("no order: {body}"))
}

/// Says that an order is paid until that is acknowledged; the payment's id.
async fn pay_for_sure(service: &Service, secret: &str, order: &str) -> Run<String> {
    let (id, payment) = (key(), key());
    let body = json!({
        "type": "payment.succeeded", "payment": payment, "order": order, "amount_cents": 250, "method": "card",
    });
    let body = body.to_string();
    let sent_at = OffsetDateTime::now_utc().unix_timestamp();
    let signature = webhooks::sign(secret, &id, sent_at, body.as_bytes());
    let sent_at = sent_at.to_string();
    let headers = [
        ("webhook-id", id.as_str()),
        ("webhook-timestamp", sent_at.as_str()),
        ("webhook-signature", signature.as_str()),
    ];
    let path = "/api/payments/messages";
    let said = until_answered(service, path, None, (&headers, Bytes::from(body))).await?;
    match said["result"].as_str() {
        Some("paid" | "unchanged") => Ok(payment),
        _ => Err(format!("the payment of {order} was answered with {said}")),
    }
}

/// Repeats a request until it is answered for good, and returns the body.
async fn until_answered(
    service: &Service,
    path: &str,
    token: Option<&str>,
    (headers, body): (&[(&str, &str)], Bytes),
) -> Run<Value> {
    let begin = Instant::now();
    loop {
        let answered = ask_with(service.addr, "POST", path, token, (headers, body.clone())).await;
        let said = match answered {
            Ok(reply) => {
                let said: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                match (reply.status, said["code"].as_str()) {
                    (200 | 201, _) => return Ok(said),
                    (500.., _) | (_, Some("request_in_progress" | "rate_limited")) => {
                        said.to_string()
                    }
                    _ => return Err(format!("{path}: {} {said}", reply.status)),
                }
            }
            Err(error) => error,
        };
        if begin.elapsed() > ANSWERED_MAX {
            return Err(format!("{path}: no final answer: {said}"));
        }
        sleep(AGAIN_AFTER).await;
    }
}

//! One caller: one connection, one purchase at a time, every attempt written down.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use tokio::time::sleep;

use super::answer;
use super::connection::{Connection, Exchange};
use super::{Drive, Instance, micros_since};
use ledger_audit::{Answer, Outcome};

/// A longer wish of the service is cut, so that a run stays bounded.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);
/// First pause before a retry; it doubles with each one.
const RETRY_PAUSE_FIRST_MS: u64 = 50;
const RETRY_PAUSE_DOUBLINGS_MAX: u16 = 5;
/// Pause between two tries for a connection while the service is away.
const RECONNECT_PAUSE_MS: Range<u64> = 150..350;
/// A kept-alive connection may be closed by the service at any moment; this often in a row it
/// is something else.
const STALE_CONNECTIONS_MAX: u32 = 3;

/// A caller and its record.
pub struct Caller {
    drive: Arc<Drive>,
    connection: Option<Connection>,
    instance: usize,
    /// Start of the traffic.
    started: Instant,
    /// Everything it was answered.
    pub answers: Vec<Answer>,
}

impl Caller {
    /// Caller number `number`; callers are spread over the instances in turn.
    pub fn new(drive: Arc<Drive>, number: usize) -> Self {
        let instance = number % drive.instances.len();
        let started = Instant::now();
        Self { drive, connection: None, instance, started, answers: Vec::new() }
    }

    /// Connects before the start, if the policy says so. A failure shows again, and counts, at the first
    /// purchase.
    pub async fn prepare(&mut self) {
        let drive = Arc::clone(&self.drive);
        if !drive.policy.connects_first {
            return;
        }
        let _slot = drive.connecting.acquire().await;
        self.connection = Connection::open(drive.instances[self.instance].address).await.ok();
    }

    /// Sets the moment from which answers are timed.
    pub fn start(&mut self, started: Instant) {
        self.started = started;
    }

    /// Makes these purchases of the plan with one request, which was due at `planned`, and sends those again that have no
    /// final answer.
    pub async fn purchase(&mut self, purchases: Range<usize>, planned: Instant) {
        let drive = Arc::clone(&self.drive);
        let mut open: Vec<usize> = purchases.collect();
        for attempt in 0.. {
            let render = |instance: &Instance| match &drive.batches {
                None => drive.render(open[0], instance),
                Some(batches) => batches.render(&drive, instance, &open),
            };
            let (exchange, sent) = self.attempt(render).await;
            let answers = match drive.batches {
                None => vec![answer::read(&exchange)],
                Some(_) => answer::read_lines(&exchange, open.len()),
            };
            let is_over = attempt >= drive.policy.retries_max || drive.is_over(self.started);
            let mut again = Vec::new();
            for (&index, answer) in open.iter().zip(answers) {
                let outcome = answer.outcome;
                let key = drive.plan.key(index);
                // Without a key a second try after an unknown outcome would be a second purchase.
                let may_repeat = answer.retryable && (key.is_some() || outcome != Outcome::Unknown);
                let last = is_over || !may_repeat || outcome == Outcome::Accepted;
                self.write_down(index, Answer { attempt, last, key, ..answer }, planned, sent);
                if last {
                    drive.finished(outcome);
                } else {
                    again.push(index);
                }
            }
            if again.is_empty() {
                return;
            }
            sleep(pause(&exchange, attempt)).await;
            open = again;
        }
    }

    /// Sends what `render` makes for an instance.
    async fn attempt(&mut self, render: impl Fn(&Instance) -> Vec<u8>) -> (Exchange, Instant) {
        for _ in 0..STALE_CONNECTIONS_MAX {
            if !self.connect().await {
                break;
            }
            let request = render(&self.drive.instances[self.instance]);
            let Some(connection) = self.connection.as_mut() else {
                break;
            };
            let sent = Instant::now();
            let exchange = connection.send(&request, self.drive.policy.timeout).await;
            if !matches!(exchange, Exchange::NotSent) {
                return (exchange, sent);
            }
        }
        (Exchange::NotSent, Instant::now())
    }

    /// Keeps the open connection or makes one, trying each instance in turn until the time is up.
    async fn connect(&mut self) -> bool {
        if self.connection.as_ref().is_some_and(Connection::is_open) {
            return true;
        }
        self.connection = None;
        let deadline = Instant::now() + self.drive.policy.wait;
        loop {
            for _ in 0..self.drive.instances.len() {
                let address = self.drive.instances[self.instance].address;
                if let Ok(connection) = Connection::open(address).await {
                    self.connection = Some(connection);
                    return true;
                }
                self.instance = (self.instance + 1) % self.drive.instances.len();
            }
            if Instant::now() >= deadline {
                return false;
            }
            let pause_ms = rand::rng().random_range(RECONNECT_PAUSE_MS);
            sleep(Duration::from_millis(pause_ms)).await;
        }
    }

    fn write_down(&mut self, index: usize, answer: Answer, planned: Instant, sent: Instant) {
        let now = Instant::now();
        let planned_purchase = self.drive.plan.requests[index];
        // Who a guest is in the ledger is for the service to say.
        let buyer = match &self.drive.batches {
            None => self.drive.first_buyer + i64::from(planned_purchase.buyer),
            Some(_) => answer.buyer,
        };
        if let Some(order) = answer.order_id.as_ref().filter(|_| self.drive.policy.readers > 0) {
            self.drive.accepted.push(planned_purchase.buyer, order.clone());
        }
        self.answers.push(Answer {
            request: u32::try_from(index).unwrap_or(u32::MAX),
            buyer,
            strategy: planned_purchase.strategy,
            answered_at_us: micros_since(self.started, now),
            from_plan_us: micros_since(planned, now),
            from_send_us: micros_since(sent, now),
            ..answer
        });
    }
}

/// What the service asked for, else a doubling pause; half of it at random, so that callers who
/// were refused together do not come back together.
fn pause(exchange: &Exchange, attempt: u16) -> Duration {
    let wish = match exchange {
        Exchange::Answered(reply) => reply.retry_after.map(|wish| wish.min(RETRY_AFTER_MAX)),
        _ => None,
    };
    let own = Duration::from_millis(RETRY_PAUSE_FIRST_MS << attempt.min(RETRY_PAUSE_DOUBLINGS_MAX));
    let jitter = rand::rng().random_range(0.5..1.0);
    wish.map_or_else(|| own.mul_f64(jitter), |wish| wish + own.mul_f64(jitter))
}

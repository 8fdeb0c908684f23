//! A crowd that buys, keeps asking, and writes down every answer.
//!
//! Each worker has a connection and purchases of its own. It makes new ones at an even pace, so
//! that some are in flight when the fault comes; repeats with the same key what was not answered
//! for good; and asks again for old ones in between, which must be answered as before.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Run;
use ledger_audit::{Answer, Outcome};
use loadtest::drive::answer;
use loadtest::drive::connection::{Connection, Exchange};

/// A client waits so long for an answer: longer than the service's deadline.
const PATIENCE: Duration = Duration::from_secs(6);
/// The pause before something is asked again that was not answered for good, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 5..25;
/// The status of an order that is in the queue and not yet in the ledger.
const QUEUED: u16 = 202;
/// How long the crowd may take at the end until every purchase is answered for good.
const FINISH_MAX: Duration = Duration::from_secs(45);

/// One item, sold by one strategy.
pub struct Good {
    /// The strategy, perhaps with a query.
    pub strategy: String,
    pub item: i64,
    pub stock: i64,
    /// Purchases that are made in all: more than the stock.
    pub buyers: usize,
    /// Whether it is a known-bad one, without an arbiter.
    pub control: bool,
    /// The tokens of its buyers, by purchase.
    pub tokens: Vec<(i64, String)>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    attempts: AtomicU64,
    slowest_ms: AtomicU64,
    /// Microseconds from the start to the first purchase that was sold after the mending; 0: none.
    sold_again_us: AtomicU64,
    sold: AtomicU64,
}

impl Good {
    pub fn new(
        strategy: &str,
        item: i64,
        stock: i64,
        control: bool,
        tokens: Vec<(i64, String)>,
    ) -> Self {
        let counts = Counts::default();
        let strategy = strategy.to_owned();
        Self { strategy, item, stock, buyers: tokens.len(), control, tokens, counts }
    }

    /// Requests that were sent.
    pub fn attempts(&self) -> u64 {
        self.counts.attempts.load(Ordering::Relaxed)
    }

    /// The slowest answer.
    pub fn slowest(&self) -> Duration {
        Duration::from_millis(self.counts.slowest_ms.load(Ordering::Relaxed))
    }

    /// Purchases that were accepted.
    pub fn sold(&self) -> u64 {
        self.counts.sold.load(Ordering::Relaxed)
    }

    fn path(&self) -> String {
        match self.strategy.split_once('?') {
            Some((name, query)) => format!("/api/seckill/{name}/{}?{query}", self.item),
            None => format!("/api/seckill/{}/{}", self.strategy, self.item),
        }
    }
}

/// What the crowd does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Buys at a pace, and at most three quarters of the stock.
    Sells,
    /// The same up to nearly all: the fault is over.
    Mended,
    /// Everybody buys, and asks until answered for good.
    Finishes,
}

/// How many buy, and how fast.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Workers of each item.
    pub workers: usize,
    /// New purchases of one item per second while the fault is awaited.
    pub per_second: f64,
}

/// The crowd of one trial.
pub struct Crowd {
    pub goods: Vec<Arc<Good>>,
    workers: JoinSet<(usize, Vec<Answer>)>,
    phase: watch::Sender<Phase>,
    clock: Arc<Clock>,
}

/// When the trial started and was mended.
struct Clock {
    started: Instant,
    mended: AtomicBool,
    mended_us: AtomicU64,
}

impl Clock {
    fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Crowd {
    /// Starts the workers of each good, spread over the instances.
    pub fn start(goods: Vec<Arc<Good>>, instances: &[SocketAddr], pace: Pace, seed: u64) -> Self {
        let (phase, clock) = (
            watch::channel(Phase::Sells).0,
            Clock {
                started: Instant::now(),
                mended: AtomicBool::new(false),
                mended_us: AtomicU64::new(0),
            },
        );
        let clock = Arc::new(clock);
        let mut tasks = JoinSet::new();
        for (index, good) in goods.iter().enumerate() {
            for number in 0..pace.workers {
                let worker = Worker {
                    good: Arc::clone(good),
                    number,
                    step: pace.workers,
                    per_second: pace.per_second,
                    instances: instances.to_vec(),
                    instance: number % instances.len(),
                    connection: None,
                    clock: Arc::clone(&clock),
                    dice: StdRng::seed_from_u64(seed ^ (index * 1_000 + number) as u64),
                    mine: Vec::new(),
                    open: Vec::new(),
                };
                let phase = phase.subscribe();
                tasks.spawn(async move { (index, worker.run(phase).await) });
            }
        }
        Self { goods, workers: tasks, phase, clock }
    }

    /// The fault is over: recovery counts from now.
    pub fn mended(&self) {
        self.clock.mended_us.store(self.clock.now_us(), Ordering::SeqCst);
        self.clock.mended.store(true, Ordering::SeqCst);
        self.phase.send_replace(Phase::Mended);
    }

    /// How long after the mending each good was sold again, once all were or `bound` has passed.
    pub async fn recovered(&self, bound: Duration) -> Vec<(String, Option<Duration>)> {
        let end = Instant::now() + bound;
        let again = |good: &Good| match good.counts.sold_again_us.load(Ordering::SeqCst) {
            0 => None,
            at => {
                let since = at.saturating_sub(self.clock.mended_us.load(Ordering::SeqCst));
                Some(Duration::from_micros(since))
            }
        };
        let safe = || self.goods.iter().filter(|good| !good.control);
        while safe().any(|good| again(good).is_none()) && Instant::now() < end {
            sleep(Duration::from_millis(10)).await;
        }
        safe().map(|good| (good.strategy.clone(), again(good))).collect()
    }

    /// Lets everybody finish, and answers the record of each good.
    pub async fn finish(mut self) -> Run<Vec<(Arc<Good>, Vec<Answer>)>> {
        self.phase.send_replace(Phase::Finishes);
        let mut records: Vec<Vec<Answer>> = self.goods.iter().map(|_| Vec::new()).collect();
        while let Some(ended) = self.workers.join_next().await {
            let (index, answers) = ended.map_err(|error| format!("a buyer broke: {error}"))?;
            records[index].extend(answers);
        }
        Ok(self.goods.into_iter().zip(records).collect())
    }
}

/// A purchase and what it was answered.
struct Pressed {
    request: usize,
    answers: Vec<Answer>,
    attempts: u16,
}

struct Worker {
    good: Arc<Good>,
    number: usize,
    /// Workers of this good: every so many purchases are this one's.
    step: usize,
    per_second: f64,
    instances: Vec<SocketAddr>,
    instance: usize,
    connection: Option<Connection>,
    clock: Arc<Clock>,
    dice: StdRng,
    mine: Vec<Pressed>,
    /// Places in `mine` of what was not answered for good.
    open: Vec<usize>,
}

impl Worker {
    async fn run(mut self, phase: watch::Receiver<Phase>) -> Vec<Answer> {
        let mut finish = None;
        let mut swept = 0;
        loop {
            let now = *phase.borrow();
            let late = finish.is_some_and(|end| Instant::now() >= end);
            if now == Phase::Finishes && finish.is_none() {
                finish = Some(Instant::now() + FINISH_MAX);
            }
            let next = self.number + self.mine.len() * self.step;
            if late {
                break;
            } else if let Some(place) = self.open.pop() {
                let pause = self.dice.random_range(PAUSE_MS);
                sleep(Duration::from_millis(pause)).await;
                self.press(place).await;
            } else if next < self.released(now) {
                let pressed = Pressed { request: next, answers: Vec::new(), attempts: 0 };
                self.mine.push(pressed);
                self.press(self.mine.len() - 1).await;
            } else if now == Phase::Finishes {
                // Whoever was told "sold out" asks once more: units may have come back since. So does who was
                // told "queued": if that was lost, only the same key tells.
                if swept == self.mine.len() {
                    break;
                }
                swept += 1;
                if !self.is_sold(swept - 1) {
                    self.press(swept - 1).await;
                }
            } else if self.mine.is_empty() {
                sleep(Duration::from_millis(2)).await;
            } else {
                let place = self.dice.random_range(0..self.mine.len());
                self.press(place).await;
            }
        }
        let mut record = Vec::new();
        for pressed in self.mine {
            let mut answers = pressed.answers;
            if let Some(last) = answers.last_mut() {
                last.last = true;
            }
            record.append(&mut answers);
        }
        record
    }

    /// How many purchases of the good may have been begun by now.
    fn released(&self, phase: Phase) -> usize {
        let stock = usize::try_from(self.good.stock).unwrap_or_default();
        let paced = (self.clock.started.elapsed().as_secs_f64() * self.per_second) as usize;
        match phase {
            Phase::Sells => paced.min(stock * 3 / 4),
            Phase::Mended => paced.max(stock * 3 / 4 + self.step).min(stock * 7 / 8),
            Phase::Finishes => self.good.buyers,
        }
    }

    fn is_sold(&self, place: usize) -> bool {
        let last = self.mine[place].answers.last();
        last.is_some_and(|last| last.outcome == Outcome::Accepted && last.status != QUEUED)
    }

    /// Sends one purchase once, writes the answer down if it is another one than before.
    async fn press(&mut self, place: usize) {
        let request = self.mine[place].request;
        let (buyer, key) = (self.good.tokens[request].0, format!("k{request}"));
        let sent = Instant::now();
        let exchange = self.exchange(request, &key).await;
        let meaning = answer::read(&exchange);
        let took = sent.elapsed();
        if meaning.status != 0 || meaning.outcome == Outcome::Unknown {
            self.good.counts.attempts.fetch_add(1, Ordering::Relaxed);
            let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            self.good.counts.slowest_ms.fetch_max(took, Ordering::Relaxed);
        }
        let good = Arc::clone(&self.good);
        let pressed = &mut self.mine[place];
        let was_accepted = pressed.answers.iter().any(|answer| answer.outcome == Outcome::Accepted);
        if meaning.outcome == Outcome::Accepted && !was_accepted {
            good.counts.sold.fetch_add(1, Ordering::Relaxed);
            if self.clock.mended.load(Ordering::SeqCst) {
                let (now, again) = (self.clock.now_us(), &good.counts.sold_again_us);
                let _ = again.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
            }
        }
        let settled = match meaning.outcome {
            Outcome::Accepted | Outcome::Refused => true,
            // What was accepted once is asked again later, not at once.
            Outcome::Unavailable | Outcome::Unknown => was_accepted,
        };
        let same = pressed.answers.last().is_some_and(|last| {
            (last.status, &last.code, &last.order_id, last.outcome)
                == (meaning.status, &meaning.code, &meaning.order_id, meaning.outcome)
        });
        // What is accepted stays accepted while nobody can be asked.
        let says_nothing =
            was_accepted && matches!(meaning.outcome, Outcome::Unavailable | Outcome::Unknown);
        if !same && !says_nothing {
            pressed.answers.push(Answer {
                request: u32::try_from(request).unwrap_or(u32::MAX),
                attempt: pressed.attempts,
                last: false,
                buyer,
                key: Some(key),
                strategy: 0,
                status: meaning.status,
                code: meaning.code,
                outcome: meaning.outcome,
                order_id: meaning.order_id,
                order_quantity: meaning.order_quantity,
                answered_at_us: self.clock.now_us(),
                from_plan_us: 0,
                from_send_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            });
            pressed.attempts += 1;
        }
        if !settled {
            self.open.push(place);
        }
    }

    async fn exchange(&mut self, request: usize, key: &str) -> Exchange {
        if !self.connection.as_ref().is_some_and(Connection::is_open) {
            let opened = Connection::open(self.instances[self.instance]).await;
            self.connection = opened.ok();
        }
        let Some(connection) = &mut self.connection else {
            // The other instance may be there.
            self.instance = (self.instance + 1) % self.instances.len();
            return Exchange::NotSent;
        };
        let built = Request::post(self.good.path())
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.good.tokens[request].1))
            .header("idempotency-key", key)
            .body(Full::new(Bytes::new()))
            .expect("a valid request");
        let exchange = connection.exchange(built, PATIENCE).await;
        if !matches!(exchange, Exchange::Answered(_)) {
            self.connection = None;
            self.instance = (self.instance + 1) % self.instances.len();
        }
        exchange
    }
}

//! The workload of a trial: clients that buy, retry, and record every answer.
//!
//! Each client has a connection and purchases of its own. It begins new purchases at an even pace, so
//! that some are in flight when the fault comes. It repeats purchases without a definite answer, with
//! the same key. In between it repeats finished purchases, which must be answered as before.

use tokio::sync::watch;

use crate::prelude::*;
use crate::readers::Readers;
use ledger_audit::{Answer, History, Outcome};
use loadtest::drive::answer;
use loadtest::drive::connection::{Connection, Exchange};

/// A client waits at most this time for an answer: longer than the service's deadline.
const ANSWER_MAX: Duration = Duration::from_secs(6);
/// The pause before a purchase without a definite answer is sent again, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 5..25;
/// The status of an order that is in the queue and not yet in the ledger.
const QUEUED: u16 = 202;
/// At the end, every purchase must have a definite answer within this time.
const FINISH_MAX: Duration = Duration::from_secs(120);

/// The phases of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Buys at a pace, and at most three quarters of the stock.
    Sells,
    /// The fault is over: buys up to seven eighths of the stock.
    Recovers,
    /// Begins all purchases left, and retries until each has a definite answer.
    Finishes,
}

/// The number of clients, and how fast they begin purchases.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Clients of each item.
    pub clients: usize,
    /// New purchases of one item per second while the fault is awaited.
    pub per_second: f64,
}

/// The workload of one trial.
pub struct Workload {
    pub items: Vec<Arc<SaleItem>>,
    clients: JoinSet<(usize, Vec<Answer>)>,
    readers: Readers,
    phase: watch::Sender<Phase>,
    clock: Arc<Clock>,
}

/// When the trial began, and when its fault was over.
struct Clock {
    started: Instant,
    fault_ended: AtomicBool,
    fault_ended_us: AtomicU64,
}

impl Clock {
    fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Workload {
    /// Starts the clients of each item, spread over the instances.
    pub fn start(items: Vec<Arc<SaleItem>>, addrs: &[SocketAddr], pace: Pace, seed: u64) -> Self {
        let phase = watch::channel(Phase::Sells).0;
        let fault_ended = AtomicBool::default();
        let fault_ended_us = AtomicU64::default();
        let clock = Arc::new(Clock { started: Instant::now(), fault_ended, fault_ended_us });
        let readers = Readers::start(&items, addrs, clock.started, seed);
        let mut tasks = JoinSet::new();
        for (index, item) in items.iter().enumerate() {
            for number in 0..pace.clients {
                let client = Client {
                    item: Arc::clone(item),
                    number,
                    step: pace.clients,
                    per_second: pace.per_second,
                    instances: addrs.to_vec(),
                    instance: number % addrs.len(),
                    connection: None,
                    clock: Arc::clone(&clock),
                    random: StdRng::seed_from_u64(seed ^ (index * 1_000 + number) as u64),
                    purchases: Vec::new(),
                    open: Vec::new(),
                };
                let phase = phase.subscribe();
                tasks.spawn(async move { (index, client.run(phase).await) });
            }
        }
        Self { items, clients: tasks, readers, phase, clock }
    }

    /// Microseconds since the start.
    pub fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// The fault is over: recovery counts from now.
    pub fn fault_ended(&self) {
        self.clock.fault_ended_us.store(self.clock.now_us(), Ordering::SeqCst);
        self.clock.fault_ended.store(true, Ordering::SeqCst);
        self.phase.send_replace(Phase::Recovers);
    }

    /// For each item, the time from the end of the fault to the next sale; `None` if `bound` passed
    /// without one.
    pub async fn recovered(&self, bound: Duration) -> Vec<(String, Option<Duration>)> {
        let end = Instant::now() + bound;
        let again = |item: &SaleItem| match item.counts.sold_again_us.load(Ordering::SeqCst) {
            0 => None,
            at => {
                let since = at.saturating_sub(self.clock.fault_ended_us.load(Ordering::SeqCst));
                Some(Duration::from_micros(since))
            }
        };
        let safe = || self.items.iter().filter(|item| !item.control);
        while safe().any(|item| again(item).is_none()) && Instant::now() < end {
            sleep(Duration::from_millis(10)).await;
        }
        safe().map(|item| (item.strategy.clone(), again(item))).collect()
    }

    /// Lets all clients finish, and returns the record of each item.
    pub async fn finish(mut self) -> Run<Vec<Record>> {
        self.phase.send_replace(Phase::Finishes);
        let mut records: Vec<Vec<Answer>> = self.items.iter().map(|_| Vec::new()).collect();
        while let Some(ended) = self.clients.join_next().await {
            let (index, answers) = ended.map_err(|error| format!("a buyer broke: {error}"))?;
            records[index].extend(answers);
        }
        let histories = self.readers.stop(self.items.len()).await?;
        let records = self.items.into_iter().zip(records).zip(histories);
        let record = |((item, answers), history)| Record { item, answers, history };
        Ok(records.map(record).collect())
    }
}

/// What clients and readers of one item were answered.
pub struct Record {
    pub item: Arc<SaleItem>,
    pub answers: Vec<Answer>,
    pub history: History,
}

/// One purchase and the answers to it.
struct Purchase {
    request: usize,
    answers: Vec<Answer>,
    attempts: u16,
}

struct Client {
    item: Arc<SaleItem>,
    number: usize,
    /// Number of clients of this item: this one makes every `step`-th purchase.
    step: usize,
    per_second: f64,
    instances: Vec<SocketAddr>,
    instance: usize,
    connection: Option<Connection>,
    clock: Arc<Clock>,
    random: StdRng,
    purchases: Vec<Purchase>,
    /// Indexes in `purchases` of those without a definite answer.
    open: Vec<usize>,
}

impl Client {
    async fn run(mut self, phase: watch::Receiver<Phase>) -> Vec<Answer> {
        let mut finish = None;
        let mut swept = 0;
        loop {
            let now = *phase.borrow();
            let late = finish.is_some_and(|end| Instant::now() >= end);
            if now == Phase::Finishes && finish.is_none() {
                finish = Some(Instant::now() + FINISH_MAX);
            }
            let next = self.number + self.purchases.len() * self.step;
            if late {
                break;
            } else if let Some(index) = self.open.pop() {
                let pause = self.random.random_range(PAUSE_MS);
                sleep(Duration::from_millis(pause)).await;
                self.send(index).await;
            } else if next < self.released(now) {
                let purchase = Purchase { request: next, answers: Vec::new(), attempts: 0 };
                self.purchases.push(purchase);
                self.send(self.purchases.len() - 1).await;
            } else if now == Phase::Finishes {
                // Whoever was told "sold out" asks once more: units may have come back since. So does who was
                // told "queued": if that was lost, only the same key tells.
                if swept == self.purchases.len() {
                    break;
                }
                swept += 1;
                if !self.is_sold(swept - 1) {
                    self.send(swept - 1).await;
                }
            } else if self.purchases.is_empty() {
                sleep(Duration::from_millis(2)).await;
            } else {
                let index = self.random.random_range(0..self.purchases.len());
                self.send(index).await;
            }
        }
        let mut record = Vec::new();
        for purchase in self.purchases {
            let mut answers = purchase.answers;
            if let Some(last) = answers.last_mut() {
                last.last = true;
            }
            record.append(&mut answers);
        }
        record
    }

    /// How many purchases of the item may have been begun by now.
    fn released(&self, phase: Phase) -> usize {
        let stock = usize::try_from(self.item.stock).unwrap_or_default();
        let paced = (self.clock.started.elapsed().as_secs_f64() * self.per_second) as usize;
        match phase {
            Phase::Sells => paced.min(stock * 3 / 4),
            Phase::Recovers => paced.max(stock * 3 / 4 + self.step).min(stock * 7 / 8),
            Phase::Finishes => self.item.tokens.len(),
        }
    }

    fn is_sold(&self, index: usize) -> bool {
        let last = self.purchases[index].answers.last();
        last.is_some_and(|last| last.outcome == Outcome::Accepted && last.status != QUEUED)
    }

    /// Sends one purchase once, writes the answer down if it is another one than before.
    async fn send(&mut self, index: usize) {
        let request = self.purchases[index].request;
        let (buyer, key) = (self.item.tokens[request].0, format!("k{request}"));
        let sent = Instant::now();
        let exchange = self.exchange(request, &key).await;
        let meaning = answer::read(&exchange);
        // In this order, so that the request seems to be sent too early rather than too late.
        let answered_at_us = self.clock.now_us();
        let took = sent.elapsed();
        if meaning.status != 0 || meaning.outcome == Outcome::Unknown {
            self.item.counts.attempts.fetch_add(1, Ordering::Relaxed);
        }
        let item = Arc::clone(&self.item);
        let purchase = &mut self.purchases[index];
        let was_accepted =
            purchase.answers.iter().any(|answer| answer.outcome == Outcome::Accepted);
        let shown = meaning.order_id.as_ref().filter(|_| matches!(meaning.status, 200 | 201));
        if let Some(order) = shown {
            let number = u32::try_from(request).unwrap_or(u32::MAX);
            item.accepted.push(number, order.clone());
        }
        if meaning.outcome == Outcome::Accepted && !was_accepted {
            item.counts.sold.fetch_add(1, Ordering::Relaxed);
            if self.clock.fault_ended.load(Ordering::SeqCst) {
                let (now, again) = (self.clock.now_us(), &item.counts.sold_again_us);
                let _ = again.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
            }
        }
        let settled = match meaning.outcome {
            Outcome::Accepted | Outcome::Refused => true,
            // What was accepted once is asked again later, not at once.
            Outcome::Unavailable | Outcome::Unknown => was_accepted,
        };
        // Each "sold out" is judged by its time.
        let same = meaning.code != "sold_out"
            && purchase.answers.last().is_some_and(|last| {
                (last.status, &last.code, &last.order_id, last.outcome)
                    == (meaning.status, &meaning.code, &meaning.order_id, meaning.outcome)
            });
        // What is accepted stays accepted while nobody can be asked.
        let says_nothing =
            was_accepted && matches!(meaning.outcome, Outcome::Unavailable | Outcome::Unknown);
        if !same && !says_nothing {
            purchase.answers.push(Answer {
                request: u32::try_from(request).unwrap_or(u32::MAX),
                attempt: purchase.attempts,
                buyer,
                key: Some(key),
                answered_at_us,
                from_send_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                ..meaning
            });
            purchase.attempts += 1;
        }
        if !settled {
            self.open.push(index);
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
        let rendered = self.item.request(&self.item.tokens[request].1, key);
        let exchange = connection.send(&rendered, ANSWER_MAX).await;
        if !matches!(exchange, Exchange::Answered(_)) {
            self.connection = None;
            self.instance = (self.instance + 1) % self.instances.len();
        }
        exchange
    }
}

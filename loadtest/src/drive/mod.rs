//! Sends a plan over kept-alive connections and brings back every answer.
//!
//! [`closed`]: each connection sends its next purchase after its reply. [`open`]: purchases are
//! due at planned instants, whether or not replies have come. Both use [`caller`], one caller a
//! connection, which sends, retries and writes down; in [`batches`] it sends many reservations at once.
//! [`connection`] is the HTTP client, [`message`] what it sends and reads, and [`answer`] says what a reply
//! means. [`threads`] are what callers run on. [`readers`] look at the orders meanwhile.
//!
//! The generator shares its cores with the service, so a request must cost it little: sockets are read
//! and written without a task in between, and a connection has one timer.

pub mod answer;
pub mod batches;
pub mod call;
pub mod caller;
pub mod closed;
pub mod connection;
pub mod message;
pub mod observer;
pub mod open;
pub mod readers;
pub mod threads;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::header::HeaderValue;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::plan::Plan;
use crate::progress::bar;
use batches::Batches;
use call::Call;
use caller::Caller;
use ledger_audit::{Answer, History, Outcome};
use readers::{AcceptedOrders, Readers};
use threads::CallerThreads;

/// Connections opened at the same time before the start, to spare the listener's queue.
const CONNECTING_MAX: usize = 64;
/// How long one answer may take; then the outcome of a purchase is unknown.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The time between two looks at how many purchases have ended.
const FLOW_POLL: Duration = Duration::from_millis(5);
/// How often the progress bar moves.
const PROGRESS_PERIOD_MS: u64 = 100;
/// Seconds between two plain lines, where there is no bar.
const LINE_PERIOD_SECONDS: u64 = 5;

/// One running instance of the service.
#[derive(Debug, Clone)]
pub struct Instance {
    /// As given, for messages and the report.
    pub url: String,
    /// Where to connect.
    pub address: SocketAddr,
    /// The `Host` header.
    pub host: HeaderValue,
}

/// How callers behave.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Connections, and so the most purchases in flight.
    pub concurrency: usize,
    /// Attempts after the first.
    pub retries_max: u16,
    /// How long one answer may take.
    pub timeout: Duration,
    /// How long to try for a connection.
    pub wait: Duration,
    /// Whether connections are made before the start, or each by its first purchase.
    pub connects_first: bool,
    /// After this time no purchase and no retry is begun (closed model).
    pub traffic_max: Option<Duration>,
    /// Clients that read orders meanwhile.
    pub readers: u32,
    /// The percentage of their orders that they pay or cancel.
    pub change_percent: u32,
}

impl Policy {
    /// Every purchase once, for so long.
    pub fn once(concurrency: usize, span: Duration) -> Self {
        Self {
            concurrency,
            retries_max: 0,
            timeout: TIMEOUT,
            wait: Duration::ZERO,
            connects_first: true,
            traffic_max: Some(span),
            readers: 0,
            change_percent: 0,
        }
    }
}

/// Everything that callers share.
pub struct Drive {
    /// The purchases to send.
    pub plan: Plan,
    /// How each of them is sent.
    pub policy: Policy,
    /// The instances over which connections are spread.
    pub instances: Vec<Instance>,
    /// The requests of purchases, by strategy.
    pub orders: Vec<OrderRequest>,
    /// Many reservations in one request, where purchases are sent so.
    pub batches: Option<Batches>,
    /// `Authorization` values, by buyer.
    pub tokens: Vec<HeaderValue>,
    /// Id of buyer 0.
    pub first_buyer: i64,
    /// What has been answered so far, for the progress bar.
    pub tally: Tally,
    /// Slots for connecting.
    pub connecting: Semaphore,
    /// What readers may look at.
    pub accepted: AcceptedOrders,
    stopped: AtomicBool,
}

/// What a purchase asks for.
#[derive(Debug)]
pub struct OrderRequest {
    /// Path and query.
    pub path: String,
    /// JSON.
    pub body: String,
}

/// Running counts for the progress bar; the report counts the record instead.
#[derive(Debug, Default)]
pub struct Tally {
    /// Purchases that came to their end, dropped ones included.
    pub done: AtomicU64,
    /// Purchases that were accepted.
    pub accepted: AtomicU64,
    /// The next purchase of the closed model.
    pub next: AtomicUsize,
}

/// What came back.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Every answer, in the order of arrival.
    pub answers: Vec<Answer>,
    /// What the readers saw.
    pub history: History,
    /// The moment from which the answers are timed.
    pub started: Option<Instant>,
    /// Purchases of the open model that were never sent since all connections were busy.
    pub dropped: u64,
    /// From the start to the last answer.
    pub elapsed: Duration,
}

impl Drive {
    /// The unconnected state of a drive. `paths` are those of the purchases, by strategy.
    pub fn new(
        plan: Plan,
        policy: Policy,
        instances: Vec<Instance>,
        paths: Vec<String>,
        tokens: Vec<HeaderValue>,
        first_buyer: i64,
    ) -> Self {
        let order = |path| OrderRequest { path, body: "{}".to_owned() };
        Self {
            plan,
            policy,
            instances,
            orders: paths.into_iter().map(order).collect(),
            batches: None,
            tokens,
            first_buyer,
            tally: Tally::default(),
            connecting: Semaphore::new(CONNECTING_MAX),
            accepted: AcceptedOrders::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Ends it: no purchase is begun any more, and no retry either in the closed model.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was ended, or its last answer has come.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits until `count` purchases have ended; whether that was within `limit`.
    pub async fn answered(&self, count: u64, limit: Duration) -> bool {
        let flow = async {
            while self.tally.done.load(Ordering::Relaxed) < count {
                sleep(FLOW_POLL).await;
            }
        };
        timeout(limit, flow).await.is_ok()
    }

    /// Whether the time for purchases is over.
    fn is_over(&self, started: Instant) -> bool {
        let limit = self.policy.traffic_max;
        limit.is_some_and(|limit| started.elapsed() >= limit) || self.is_stopped()
    }

    /// The request of one purchase of the plan.
    fn render(&self, index: usize, instance: &Instance) -> Vec<u8> {
        let planned = self.plan.requests[index];
        let order = &self.orders[planned.strategy as usize];
        instance.render(Call {
            token: Some(&self.tokens[planned.buyer as usize]),
            key: self.plan.key(index).as_deref(),
            body: Some(&order.body),
            ..Call::new("POST", &order.path)
        })
    }

    /// Notes the end of one purchase.
    pub fn finished(&self, outcome: Outcome) {
        if outcome == Outcome::Accepted {
            self.tally.accepted.fetch_add(1, Ordering::Relaxed);
        }
        self.tally.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends the whole plan; returns when every purchase has its last answer.
pub async fn fire(drive: Arc<Drive>) -> Traffic {
    fire_and_look(drive, || ()).await.0
}

/// Sends the whole plan, and looks at something twice: when all connections are made, and after the
/// last answer.
pub async fn fire_and_look<T>(drive: Arc<Drive>, look: impl Fn() -> T) -> (Traffic, [T; 2]) {
    let threads = CallerThreads::start();
    let callers = connect(&drive, &threads).await;
    let progress = show_progress(Arc::clone(&drive));
    let readers = Readers::start(&drive);
    let before = look();
    let mut traffic = match drive.plan.arrivals {
        None => closed::run(&drive, callers, &threads).await,
        Some(_) => open::run(&drive, callers, &threads).await,
    };
    let after = look();
    drive.stop();
    progress.abort();
    let started = traffic.started.unwrap_or_else(Instant::now);
    traffic.history = readers.seen(started).await;
    traffic
        .answers
        .sort_unstable_by_key(|answer| (answer.answered_at_us, answer.request, answer.attempt));
    traffic.elapsed = traffic
        .answers
        .last()
        .map_or(Duration::ZERO, |last| Duration::from_micros(last.answered_at_us));
    (traffic, [before, after])
}

/// Callers with their connections, as many as the plan can use.
async fn connect(drive: &Arc<Drive>, threads: &CallerThreads) -> Vec<Caller> {
    let count = drive.policy.concurrency.min(drive.plan.requests.len());
    let prepare = |number| {
        let mut caller = Caller::new(Arc::clone(drive), number);
        threads.of(number).spawn(async move {
            caller.prepare().await;
            caller
        })
    };
    let preparing: Vec<_> = (0..count).map(prepare).collect();
    let mut callers = Vec::with_capacity(count);
    for task in preparing {
        callers.push(task.await.expect("preparing does not panic"));
    }
    callers
}

/// Since `start` in whole microseconds.
pub fn micros_since(start: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(start).as_micros()).unwrap_or(u64::MAX)
}

/// The bar goes away when the task is ended.
fn show_progress(drive: Arc<Drive>) -> JoinHandle<()> {
    let total = drive.plan.requests.len();
    let bar = bar(total, "{bar:30} {pos}/{len} {elapsed} {msg}");
    tokio::spawn(async move {
        let began = Instant::now();
        let mut said = 0;
        let mut ticks = tokio::time::interval(Duration::from_millis(PROGRESS_PERIOD_MS));
        loop {
            ticks.tick().await;
            let done = drive.tally.done.load(Ordering::Relaxed);
            let seconds = began.elapsed().as_secs();
            let accepted = drive.tally.accepted.load(Ordering::Relaxed);
            let per_second = done / seconds.max(1);
            bar.set_message(format!("{per_second} per second, {accepted} accepted"));
            bar.set_position(done);
            if bar.is_hidden() && seconds >= said + LINE_PERIOD_SECONDS {
                said = seconds;
                eprintln!("loadtest: {done} of {total} answered after {seconds} s");
            }
        }
    })
}

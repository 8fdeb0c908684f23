//! Runs of the service: two instances with their queues, pipelines, quarantines and consumers sell three items of one ledger.
//! Buyers order, some again with the same key, some leave at any moment, some have a deadline; other orders are queued.
//!
//! What holds in each run:
//! * an order is in the ledger with all its lines or none; no buyer has more than the limit, no item sells more than its stock;
//! * a sold order is in the ledger; a refused one and one that is "unavailable" is not, and never will be;
//! * a refusal is true to the end, because no unit comes back;
//! * each queued order is decided or, if the ledger takes all orders but this one, a dead letter; it is told after its
//!   COMMIT, and its units go back to the counter exactly if it is rejected;
//! * no circle of transactions waits; in the end no item is in quarantine and no task is left;
//! * without faults, a batch has the orders of an item in the order in which they came.

use std::sync::Arc;

use futures::FutureExt;
use shop_domain::{ItemId, Order, OrderId, OrderStatus, Outcome, Purchase, Refusal, UserId};
use shop_metrics::Metrics;

use crate::book::{Book, Row, is_sold};
use crate::consumer::{ConsumerParts, Consumers};
use crate::events::{self, log};
use crate::explore::reach;
use crate::live::{Hub, Traces};
use crate::queue::{Intention, Queues, Reader};
use crate::random::{below, once_in};
use crate::shop::{ITEMS, STRATEGY, order};
use crate::sql::{Database, Process};
use crate::sync::{CancellationToken, mpsc};
use crate::task::{JoinHandle, TaskTracker, wait_or_leave, yield_now};
use crate::time::{Duration, Instant, sleep};
use crate::write::{Arbiter, BatchConnections, GroupCommit, SHARED_CONNECTIONS};

/// Orders that come at once, and orders that come later.
const AT_ONCE: u32 = 6;
const LATER: u32 = 8;
/// Longer than any quarantine, pause or wait.
const LONG: Duration = Duration::from_secs(60);
/// Times that something is waited for: a task that ends a quarantine needs a step, too.
const WAITS_MAX: u32 = 1_000;
const LONG_WAITS_MAX: u32 = 20;
/// The step of the moments at which orders come and are late. It divides the time that an idle queue waits.
const STEP: Duration = Duration::from_millis(50);
const POLL: Duration = Duration::from_millis(500);
/// Deliveries of an order that the ledger does not take.
const DELIVERIES_MAX: u64 = 3;

/// One instance of the service.
struct Instance {
    group: GroupCommit,
    metrics: Metrics,
    process: Process,
    tasks: TaskTracker,
    consumers: JoinHandle<()>,
    wake: mpsc::Sender<ItemId>,
}

impl Instance {
    fn begin(
        book: &Arc<Book>,
        queues: &Arc<Queues>,
        is_faulty: bool,
        stop: &CancellationToken,
    ) -> Self {
        let process = Process::default();
        let pool = Database { book: Arc::clone(book), process: process.clone(), is_faulty };
        let metrics = Metrics::default();
        let arbiter = Arbiter::new(pool.clone(), metrics.clone());
        let tasks = TaskTracker::new();
        let connections = || BatchConnections::new(pool.clone(), SHARED_CONNECTIONS);
        let shared = vec![connections()];
        let group = GroupCommit::new(arbiter.clone(), connections(), tasks.clone(), shared);
        let consumers = Consumers::new(ConsumerParts {
            reader: Reader { queues: Arc::clone(queues), process: process.clone() },
            group_commit: group.clone(),
            arbiter,
            pool,
            hub: Hub(Arc::clone(book)),
            metrics: metrics.clone(),
            strategy: STRATEGY,
            poll: POLL,
            claim_idle: Duration::from_secs(2),
            traces: Traces,
            deliveries_max: DELIVERIES_MAX,
            drain: LONG,
        });
        let (wake, wake_ups) = mpsc::channel(16);
        let consumers = crate::spawn(consumers.run(wake_ups, stop.clone()));
        Self { group, metrics, process, tasks, consumers, wake }
    }
}

/// An order that a buyer waits for; the answer is `None` when the buyer has left, or the instance has died.
struct Asked {
    lines: Vec<Purchase>,
    buyer: JoinHandle<Option<Outcome>>,
}

/// Orders something. It has its place in a queue when this returns, unless it comes later.
fn ask(instance: &Instance, number: u32, lines: Vec<Purchase>, is_faulty: bool) -> Asked {
    let pause = (number >= AT_ONCE).then(|| STEP * below(if is_faulty { 60 } else { 12 }));
    let deadline = once_in(2).then(|| Instant::now() + STEP * (1 + below(12)));
    let deadline = deadline.filter(|_| is_faulty);
    let group = instance.group.clone();
    let process = instance.process.clone();
    let ordered = lines.clone();
    let mut answered = async move {
        if let Some(pause) = pause {
            sleep(pause).await;
        }
        group.write_order(ordered, deadline, None).await
    }
    .boxed();
    let first = (&mut answered).now_or_never();
    let buyer = crate::spawn(async move {
        let waiting = async {
            match first {
                Some(answer) => Some(answer),
                None => wait_or_leave(answered, 4).await,
            }
        };
        if !is_faulty {
            // No instance dies, and nothing but its answer wakes a buyer.
            return waiting.await;
        }
        crate::select! {
            answer = waiting => answer,
            () = died(&process) => None,
        }
    });
    Asked { lines, buyer }
}

async fn died(process: &Process) {
    while !process.is_dead() {
        sleep(4 * POLL).await;
        yield_now().await;
    }
}

/// The lines of the next order: of one item and sometimes of two, by a new buyer or by the one before, who may order the same
/// again.
fn next_lines(number: u32, before: &[Purchase], is_faulty: bool) -> Vec<Purchase> {
    let key = format!("key-{number}");
    let key = Some(&*key).filter(|_| is_faulty && once_in(2));
    let first = below(2) as usize;
    let before = before.first().filter(|_| is_faulty && once_in(2)).map(|one| (one, before));
    let buyer = before
        .map_or(number, |(one, _)| u32::try_from(one.buyer.get() - 1).expect("a small number"));
    match before.filter(|_| once_in(2)) {
        Some((one, lines)) => {
            let place = |line: &Purchase| {
                ITEMS.iter().position(|item| *item == line.item).expect("an item")
            };
            let items: Vec<usize> = lines.iter().map(place).collect();
            let key = one.key.is_from_caller().then(|| one.key.as_str());
            order(number, &items, buyer, key)
        }
        None if is_faulty && once_in(3) => order(number, &[first, first + 1], buyer, key),
        None => order(number, &[first], buyer, key),
    }
}

/// What goes wrong besides answers: an instance dies, the ledger takes no order for a while.
fn begin_troubles(book: &Arc<Book>, instance: &Instance) {
    let process = instance.process.clone();
    if once_in(3) {
        crate::spawn(async move {
            sleep(STEP * below(40)).await;
            log("an instance dies");
            reach("an instance died", 1);
            process.die();
        });
    }
    let book = Arc::clone(book);
    if once_in(3) {
        crate::spawn(async move {
            sleep(STEP * below(40)).await;
            book.take_none(true);
            sleep(STEP * below(300)).await;
            book.take_none(false);
        });
    }
}

/// Has the ledger refuse the orders of a buyer, now or soon. That is before a consumer gets an order a third time.
fn refuse_soon(book: &Arc<Book>, buyer: UserId) {
    if once_in(2) {
        return book.refuse(buyer);
    }
    let book = Arc::clone(book);
    crate::spawn(async move {
        sleep(STEP * below(40)).await;
        book.refuse(buyer);
    });
}

/// The orders of a run.
#[derive(Default)]
struct Orders {
    asked: Vec<Asked>,
    queued: Vec<Purchase>,
    /// The buyer of a queued order whose orders the ledger refuses with an error, now or from some moment on.
    stuck: Option<UserId>,
}

/// Orders all. A queued order has passed its gate.
fn order_all(book: &Arc<Book>, queues: &Queues, instances: &[Instance], is_faulty: bool) -> Orders {
    let mut orders = Orders::default();
    let mut before: Vec<Purchase> = Vec::new();
    for number in 0..AT_ONCE + LATER {
        let lines = next_lines(number, &before, is_faulty);
        // All of one instance, without faults: there the order of arrival counts.
        let instance = &instances[if is_faulty { below(2) as usize } else { 0 }];
        // Of another buyer the ledger may have an order already.
        let is_new = before.first().is_none_or(|one| one.buyer != lines[0].buyer);
        before.clone_from(&lines);
        if !is_faulty || lines.len() > 1 || !once_in(3) {
            orders.asked.push(ask(instance, number, lines, is_faulty));
            continue;
        }
        for line in lines {
            if is_new && orders.stuck.is_none() && once_in(4) {
                refuse_soon(book, line.buyer);
                orders.stuck = Some(line.buyer);
            }
            queues.push(line.item.id, &Intention::of(&line));
            let _ = instance.wake.try_send(line.item.id);
            orders.queued.push(line);
        }
    }
    orders
}

async fn run(is_faulty: bool) {
    let stock = |item: u32| if is_faulty { i64::from(1 + below(item)) } else { 100 };
    let stock = [2, 3, 4].map(stock);
    let book = Arc::new(Book::new(ITEMS.iter().map(|item| item.id).zip(stock)));
    let queues = Arc::new(Queues::new(is_faulty));
    let stop = CancellationToken::new();
    let instances = [(); 2].map(|()| Instance::begin(&book, &queues, is_faulty, &stop));
    if is_faulty {
        begin_troubles(&book, &instances[1]);
    }
    let Orders { asked, queued, stuck } = order_all(&book, &queues, &instances, is_faulty);
    let mut answers = Vec::new();
    for Asked { lines, buyer } in asked {
        let answer = buyer.await.expect("a buyer does not panic");
        check(&book, &lines, answer.as_ref());
        answers.push((lines, answer));
    }
    for _ in 0..WAITS_MAX {
        if queues.is_empty() {
            break;
        }
        sleep(POLL).await;
        yield_now().await;
    }
    assert!(queues.is_empty(), "a queued order is not decided");
    stop.cancel();
    for instance in instances {
        end(instance).await;
    }
    // Calls and COMMITs without an answer end by then.
    sleep(LONG).await;
    assert_eq!(book.broken(), None);
    for (lines, answer) in &answers {
        check(&book, lines, answer.as_ref());
    }
    for line in &queued {
        check_queued(&book, &queues, line, stuck == Some(line.buyer));
    }
    check_units(&book, &queues, &queued, stock);
    if !is_faulty {
        check_order_of_arrival(&answers);
    }
}

/// Waits for the end of an instance, unless it has died.
async fn end(instance: Instance) {
    let Instance { group, metrics, process, tasks, consumers, wake } = instance;
    drop(wake);
    if process.is_dead() {
        return;
    }
    let stopped = async {
        consumers.await.expect("the consumers do not panic");
        tasks.close();
        tasks.wait().await;
        for _ in 0..LONG_WAITS_MAX {
            if metrics.batch_suspects.get() == 0 {
                // Its queues would take their items out of quarantine when they are dropped.
                drop(group);
                return;
            }
            sleep(LONG).await;
            yield_now().await;
        }
        panic!("an item is in quarantine for ever");
    };
    crate::select! {
        () = stopped => {}
        () = died(&process) => {}
    }
}

/// Compares the answer of an order with the ledger. What is said holds now and at the end.
fn check(book: &Book, lines: &[Purchase], answer: Option<&Outcome>) {
    let found: Vec<Option<Order>> = lines.iter().map(|line| book.order(line.order_id)).collect();
    let is_written = found[0].as_ref().is_some_and(is_sold);
    let has_all = found.iter().all(|one| one.is_some() == found[0].is_some());
    assert!(has_all, "half of order {} is written", lines[0].order_id);
    reach("cart", u64::from(lines.len() > 1));
    match answer {
        Some(Outcome::Sold(order)) => {
            assert_eq!(order.id, lines[0].order_id, "it is another order");
            assert!(is_written, "{} was sold and is not written", order.id);
            assert_eq!(order.lines().count(), lines.len(), "lines are missing in the answer");
        }
        Some(Outcome::Replayed(order)) => {
            reach("replayed", 1);
            assert!(book.order(order.id).is_some(), "a replayed order is not there");
            assert!(!is_written, "{} is an order beside a replayed one", lines[0].order_id);
        }
        Some(Outcome::Refused(refusal)) => {
            reach("refused", 1);
            assert!(!is_written, "{} was refused and is written", lines[0].order_id);
            assert!(is_true(book, lines, refusal), "{refusal:?} is not true");
        }
        Some(Outcome::Unavailable(_)) => {
            reach("unavailable", 1);
            assert!(!is_written, "{} is unavailable and is written", lines[0].order_id);
        }
        Some(Outcome::Unknown(_)) => reach("unknown", 1),
        Some(other @ Outcome::Queued(_)) => panic!("an order has no answer: {other:?}"),
        None => reach("buyer left", 1),
    }
}

/// Whether a refusal follows from what the ledger has. No unit comes back.
fn is_true(book: &Book, lines: &[Purchase], refusal: &Refusal) -> bool {
    let line = match refusal {
        Refusal::OfLine { item, .. } => lines.iter().find(|line| line.item.id == *item),
        _ => lines.first(),
    };
    let Some(line) = line else { return false };
    let item = line.item.id;
    match refusal.of_item(item) {
        Some(Refusal::SoldOut { .. }) => book.available(item.get(), &[]) == Some(0),
        Some(Refusal::LimitReached { limit }) => {
            book.units(&Row::limit(line), &[]) == i64::from(*limit)
        }
        Some(Refusal::KeyReused { order_id }) => book.order(*order_id).is_some(),
        _ => false,
    }
}

/// Compares a queued order with the ledger at the end.
fn check_queued(book: &Book, queues: &Queues, line: &Purchase, is_stuck: bool) {
    let id: OrderId = line.order_id;
    let found = book.order(id);
    if queues.is_dead_letter(id) {
        assert!(is_stuck, "{id} is a dead letter, and the ledger takes it");
        assert!(found.is_none() && queues.is_queued(id), "{id} is a dead letter and decided");
        return;
    }
    let status = found.map(|order| order.status);
    let rejected = status == Some(OrderStatus::Rejected);
    assert!(status.is_some(), "{id} was acknowledged and is not in the ledger");
    assert!(!queues.is_queued(id), "{id} is decided and still queued");
    reach(if rejected { "rejected" } else { "sold by a consumer" }, 1);
    if rejected {
        let bought = book.units(&Row::limit(line), &[]);
        let is_at_limit = bought == i64::from(line.item.per_buyer_limit);
        let has_other = book.of_key(&Row::key(line)).is_some_and(|other| other.id != id);
        let is_sold_out = book.available(line.item.id.get(), &[]) == Some(0);
        let is_true = is_at_limit || has_other || is_sold_out;
        assert!(is_true, "{id} was rejected, and its refusal is not true");
    }
}

/// Compares stock and counters with the orders.
fn check_units(book: &Book, queues: &Queues, queued: &[Purchase], stock: [i64; 3]) {
    for (item, stock) in ITEMS.iter().zip(stock) {
        let left = book.available(item.id.get(), &[]);
        assert_eq!(left, Some(stock - book.sold(item.id)), "stock of {}", item.id);
        assert!(left >= Some(0), "{} is oversold", item.id);
        let takes = |line: &&Purchase| {
            line.item.id == item.id && book.order(line.order_id).is_none_or(|one| is_sold(&one))
        };
        let taken: i64 = queued.iter().filter(takes).map(|line| line.quantity.signed()).sum();
        assert_eq!(queues.taken(item.id), taken, "units that the counter of {} misses", item.id);
    }
}

/// Whether each batch has the orders of an item in the order of their arrival. Batches that were overtaken leave some to
/// others.
fn check_order_of_arrival(answers: &[(Vec<Purchase>, Option<Outcome>)]) {
    if events::has("overtaken") {
        return reach("overtaken", 1);
    }
    let events = events::events();
    for lines in events.lines().filter(|event| event.contains("\"begin\"")) {
        for item in ITEMS.iter() {
            let of_item =
                answers[..AT_ONCE as usize].iter().filter(|(one, _)| one[0].item == *item);
            let places = of_item.filter_map(|(one, _)| {
                let id = one[0].order_id.to_string().replace(events::ID, "");
                lines.find(&id)
            });
            let places: Vec<usize> = places.collect();
            reach("several orders of an item in a batch", u64::from(places.len() > 1));
            assert!(places.is_sorted(), "a later order is before an earlier one: {lines}");
        }
    }
}

/// Orders of a ledger that has units for all.
pub fn calm() {
    shuttle::future::block_on(run(false));
}

/// Orders of a ledger that is slow, fails and loses answers, with a faulty Redis; an instance may die.
pub fn faulty() {
    shuttle::future::block_on(run(true));
}

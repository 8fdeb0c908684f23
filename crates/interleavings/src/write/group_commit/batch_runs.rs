//! Runs of the batches: buyers order, some leave at any moment, some have a deadline; and runs of the pipeline and of the
//! permits of items by themselves.
//!
//! What holds in each run:
//! * each order is answered once, and the book has each sold order once and no other order;
//! * while no batch is overtaken, the batches write the orders of an item in the order in which they came;
//! * no more batches are in a stage than it allows, and one that looks at the rows is alone;
//! * at the end no item is in quarantine, no batch is under way, and all permits are back, also those of tasks that were
//!   ended while they waited.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use ::time::OffsetDateTime;
use futures::FutureExt;
use futures::future::join_all;
use shop_domain::{
    ArbiterMode, Cents, Currency, Item, ItemId, ItemKind, OrderId, Outcome, Purchase, Quantity,
    RequestKey, SaleWindow, UserId,
};

use super::GroupCommit;
use super::book::{Book, Pipeline, Stage};
use super::connections::BatchConnections;
use super::pipeline::{BatchPipeline, PipelineSlot};
use crate::explore::reach;
use crate::random::{below, once_in};
use crate::task::{JoinHandle, TaskTracker, wait_or_leave, yield_now};
use crate::time::{Duration, Instant, sleep};
use crate::write::{Arbiter, ItemConcurrency};

/// Orders that come at once, and orders that come later.
const AT_ONCE: u32 = 6;
const LATER: u32 = 3;
/// Longer than any quarantine, pause or wait.
const LONG: Duration = Duration::from_secs(60);
/// Times that this is waited for: the task that ends a quarantine needs a step, too.
const TASK_STEPS: u32 = 1_000;
/// The step of the moments at which orders come and are late. It divides the time that an idle queue waits.
const STEP: Duration = Duration::from_millis(50);

static ITEMS: LazyLock<[Arc<Item>; 3]> = LazyLock::new(|| [1, 2, 3].map(|id| Arc::new(item(id))));

fn item(id: i64) -> Item {
    let now = OffsetDateTime::UNIX_EPOCH;
    let end = now + ::time::Duration::days(100_000);
    Item {
        id: ItemId::new(id).expect("positive"),
        name: "thing".to_owned(),
        description: String::new(),
        image_url: None,
        price: Cents::new(100).expect("small"),
        currency: Currency::USD,
        window: SaleWindow::new(now, end).expect("a window"),
        per_buyer_limit: 1,
        unpaid_max: 0,
        hold_seconds: 300,
        strategy: "mysql-batch".to_owned(),
        kind: ItemKind::Shop,
        arbiter: ArbiterMode::On,
        paused: false,
        waiting_room: false,
        offer_seconds: 0,
        extend_seconds: 0,
        return_seconds: 0,
        limit_group: None,
        variant: None,
        draw: None,
        has_queue: false,
        revision: 0,
    }
}

/// The lines of an order: of one item, and sometimes of two.
fn lines(number: u32, is_cart: bool) -> Vec<Purchase> {
    let id = OrderId::generate();
    let first = below(2) as usize;
    let line = |item: &Arc<Item>, order_id: OrderId, line_count: Option<u8>| Purchase {
        order_id,
        item: Arc::clone(item),
        buyer: UserId::new(i64::from(number) + 1).expect("positive"),
        quantity: Quantity::new(1).expect("positive"),
        amount: item.price,
        key: RequestKey::of_order(id),
        strategy: "mysql-batch",
        created_at: OffsetDateTime::UNIX_EPOCH,
        expires_at: OffsetDateTime::UNIX_EPOCH,
        trace: Default::default(),
        line_count,
        counts_refusals: true,
    };
    if is_cart {
        let items = [&ITEMS[first], &ITEMS[first + 1]];
        return (0..2).map(|at| line(items[usize::from(at)], id.line(at), Some(2))).collect();
    }
    vec![line(&ITEMS[first], id, None)]
}

/// An order, and the buyer who waits for its answer; `None` when the buyer has left.
struct Asked {
    lines: Vec<Purchase>,
    buyer: JoinHandle<Option<Outcome>>,
}

/// Orders something. It has its place in a queue when this returns, unless it comes later.
fn order(group: &GroupCommit, number: u32, has_faults: bool) -> Asked {
    let lines = lines(number, has_faults && once_in(5));
    let pause = (number >= AT_ONCE).then(|| STEP * below(12));
    let deadline = once_in(2).then(|| Instant::now() + STEP * (1 + below(12)));
    let deadline = deadline.filter(|_| has_faults);
    let group = group.clone();
    let ordered = lines.clone();
    let mut answered = async move {
        if let Some(pause) = pause {
            sleep(pause).await;
        }
        group.write_order(ordered, deadline).await
    }
    .boxed();
    let first = (&mut answered).now_or_never();
    let buyer = crate::spawn(async move {
        match first {
            Some(answer) => Some(answer),
            None => wait_or_leave(answered, 4).await,
        }
    });
    Asked { lines, buyer }
}

async fn orders_run(has_faults: bool) {
    let book = Arc::new(Book::new(has_faults));
    let tasks = TaskTracker::new();
    let group = GroupCommit::with_shared_queues(
        Arbiter::new(Arc::clone(&book)),
        BatchConnections,
        tasks.clone(),
        vec![BatchConnections],
    );
    let mut asked = Vec::new();
    for number in 0..AT_ONCE + LATER {
        asked.push(order(&group, number, has_faults));
    }
    let mut came = Vec::new();
    for Asked { lines, buyer } in asked {
        let answer = buyer.await.expect("a buyer does not panic");
        let times: Vec<u32> = lines.iter().map(|line| book.times(line.order_id)).collect();
        let written = times[0];
        assert!(times.iter().all(|one| *one == written && *one <= 1), "{times:?} times");
        match answer {
            Some(Outcome::Sold(_)) => assert_eq!(written, 1, "it was sold"),
            Some(answer @ (Outcome::Refused(_) | Outcome::Unavailable(_))) => {
                let is_refused = matches!(answer, Outcome::Refused(_));
                reach(if is_refused { "refused" } else { "too late" }, 1);
                // It may not be written later, either.
                assert_eq!(written, 0, "it was not sold");
                came.push((lines[0].clone(), false));
                continue;
            }
            Some(other) => panic!("an order has no answer: {other:?}"),
            None => reach("buyer left", 1),
        }
        reach("cart", u64::from(lines.len() > 1));
        came.push((lines[0].clone(), true));
    }
    tasks.ended().await;
    for _ in 0..TASK_STEPS {
        if group.quarantined() == 0 {
            break;
        }
        sleep(LONG).await;
        yield_now().await;
    }
    assert_eq!(book.broken(), None);
    assert_eq!(group.quarantined(), 0, "an item is in quarantine for ever");
    for (line, may_be_written) in &came {
        let most = u32::from(*may_be_written);
        assert!(book.times(line.order_id) <= most, "it was written after its answer");
    }
    reach("overtaken", u64::from(book.in_order().is_none()));
    if let Some(written) = book.in_order().filter(|_| !has_faults) {
        reach("written in order", written.len() as u64);
        let at_once = &came[..AT_ONCE as usize];
        for item in ITEMS.iter() {
            let of_item = at_once.iter().map(|(line, _)| line).filter(|line| line.item == *item);
            let places = of_item
                .filter_map(|line| written.iter().position(|written| *written == line.order_id));
            assert!(places.is_sorted(), "a later order was written before an earlier one");
        }
    }
}

/// Orders of a ledger that is fast and refuses nothing.
pub fn calm_orders() {
    shuttle::future::block_on(orders_run(false));
}

/// Orders with deadlines and carts, of a ledger that is slow, rolls batches back and refuses orders.
pub fn faulty_orders() {
    shuttle::future::block_on(orders_run(true));
}

/// One batch goes through the pipeline, with all that may happen to it.
async fn go_through(pipeline: BatchPipeline, book: Arc<Book>) {
    let item = Pipeline::Of(ITEMS[0].id);
    let mut slot = if once_in(3) {
        pipeline.enter_when(std::future::ready(())).await
    } else {
        pipeline.enter().await
    };
    if once_in(3) {
        slot.exclusive().await;
        book.look(&mut slot, item).await;
    }
    book.run(&mut slot, item, Stage::Rows).await;
    if once_in(3) {
        slot.leave();
        slot.enter_again().await;
        book.run(&mut slot, item, Stage::Rows).await;
    }
    slot.enter_stock_stage().await;
    book.run(&mut slot, item, Stage::Stock).await;
}

async fn pipeline_run() {
    let pipeline = BatchPipeline::default();
    let book = Arc::new(Book::new(false));
    let batches = (0..5).map(|_| {
        let batch = go_through(pipeline.clone(), Arc::clone(&book)).boxed();
        crate::spawn(wait_or_leave(batch, 4))
    });
    for batch in join_all(batches.collect::<Vec<_>>()).await {
        batch.expect("a batch does not panic");
    }
    assert_eq!(book.broken(), None);
    let mut slot: PipelineSlot = pipeline.enter().now_or_never().expect("no batch is under way");
    assert!(slot.exclusive().now_or_never().is_some(), "a batch has left a permit behind");
}

/// Batches of one pipeline, some of which end at any moment.
pub fn pipeline() {
    shuttle::future::block_on(pipeline_run());
}

async fn permits_run() {
    // Two for each item.
    let limits = ItemConcurrency::new(8);
    let held: Arc<[AtomicUsize; 3]> = Arc::default();
    let orders = (0..5).map(|_| {
        let limits = limits.clone();
        let held = Arc::clone(&held);
        let first = below(2) as usize;
        let wanted = if once_in(2) { [first, first + 1] } else { [first + 1, first] };
        let order = async move {
            let items = wanted.map(|at| ITEMS[at].id);
            let permits = limits.acquire_all(&items, None).await.expect("no deadline");
            for at in wanted {
                let before = held[at].fetch_add(1, Ordering::Relaxed);
                assert!(before < 2, "an item has more permits than its limit");
            }
            for _ in 0..below(3) {
                yield_now().await;
            }
            for at in wanted {
                held[at].fetch_sub(1, Ordering::Relaxed);
            }
            drop(permits);
        };
        // Nobody leaves between the count and its end.
        crate::spawn(order)
    });
    let orders: Vec<_> = orders.collect();
    let leaving = (0..3).map(|_| {
        let limits = limits.clone();
        let items = ITEMS.each_ref().map(|item| item.id);
        let waiting = async move { drop(limits.acquire_all(&items, None).await) };
        crate::spawn(wait_or_leave(waiting.boxed(), 4))
    });
    let leaving: Vec<_> = leaving.collect();
    for order in join_all(orders).await {
        order.expect("an order does not panic");
    }
    for one in join_all(leaving).await {
        one.expect("it does not panic");
    }
    for item in ITEMS.iter() {
        let taken: Vec<_> = (0..2).map(|_| limits.acquire(item.id).now_or_never()).collect();
        assert!(taken.iter().all(Option::is_some), "a permit has not come back");
    }
}

/// Orders of two items wait for permits, some of them at any moment no longer.
pub fn permits() {
    shuttle::future::block_on(permits_run());
}

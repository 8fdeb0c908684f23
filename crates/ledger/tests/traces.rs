//! Runs of group commit on a database server are paths of its model (`tests/protocol-models`): in each round two
//! instances write the model's orders, and the model's steps replay the decisions of their batches.

use std::sync::Arc;
use std::time::Duration;

use dev_servers::{DATABASE, MysqlOptions, MysqlServer};
use faulty_link::{FaultyLink, Trap};
use futures::future::join_all;
use ledger::catalog::{NewItems, create};
use ledger::schema::{SchemaOptions, migrate};
use ledger::write::{Arbiter, BatchConnections, GroupCommit, SHARED_CONNECTIONS};
use mysql_connection::{Database, PoolOptions, pool_of};
use protocol_models::batch::replay::{explain, explain_each, lines, stock};
use protocol_models::trace::{BATCH_TARGET, Event, Recorder};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shop_domain::{
    ArbiterMode, Cents, Currency, Item, ItemId, ItemKind, NewItem, OrderId, Outcome, Purchase,
    Quantity, RequestKey, SaleWindow, UserId,
};
use shop_metrics::Metrics;
use sqlx::{Connection, MySqlConnection};
use time::OffsetDateTime;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

/// Connections of an instance beside those of its shared queue.
const CONNECTIONS: u32 = 8;

/// Rounds until something has happened that most rounds have.
const ROUNDS_MAX: u32 = 50;
/// How long another session holds a stock row: longer than a batch waits before it is overtaken.
const HELD: Duration = Duration::from_millis(600);

/// A server, and two instances that sell from it, the first of them through a link.
struct Testbed {
    _server: MysqlServer,
    link: FaultyLink,
    url: String,
    pool: Database,
    /// An item beside those of the model.
    other: Arc<Item>,
    instances: [GroupCommit; 2],
    choices: StdRng,
    /// The events of each round, and the names of its lines.
    traces: Vec<(Vec<Event>, Vec<String>)>,
}

/// The orders of one round.
struct Round {
    /// Each with its lines, and by whom it is written.
    orders: Vec<(usize, Vec<Purchase>)>,
    /// The ids of the lines.
    names: Vec<String>,
}

fn options(url: &str, lock_wait_timeout_seconds: u32) -> PoolOptions {
    PoolOptions {
        url: url.to_owned(),
        connections_max: CONNECTIONS,
        lock_wait_timeout_seconds,
        one_shard: true,
        acquire_timeout_ms: 5_000,
    }
}

fn instance(url: &str) -> GroupCommit {
    let pool = pool_of(options(url, 5), CONNECTIONS).expect("the URL is fine");
    let shared = pool_of(options(url, 1), SHARED_CONNECTIONS).expect("the URL is fine");
    GroupCommit::new(
        Arbiter::new(pool.clone(), Metrics::new()),
        BatchConnections::new(pool, CONNECTIONS),
        TaskTracker::new(),
        vec![BatchConnections::new(shared, SHARED_CONNECTIONS)],
    )
}

impl Testbed {
    async fn start() -> Self {
        let mut server = MysqlOptions::temporary();
        // No test cuts the power.
        server.extra_arguments.push("--loose-debug-no-sync".to_owned());
        let server = MysqlServer::start(server).await.expect("the private server starts");
        let url = server.tcp_url_of(DATABASE);
        let pool = pool_of(options(&url, 5), CONNECTIONS).expect("the URL is fine");
        let made = SchemaOptions { url: url.clone(), order_routine: true };
        migrate(made, &pool).await.expect("migrated");
        let link = FaultyLink::to_url(&url).await.expect("a link");
        let instances = [instance(link.url()), instance(&url)];
        let asked = std::env::var("SECKILL_TEST_SEED").ok();
        let seed = asked.map_or_else(rand::random, |text| text.parse().expect("a number"));
        println!("SECKILL_TEST_SEED={seed} repeats it");
        let choices = StdRng::seed_from_u64(seed);
        let other = make(&pool, &[new_item(u16::MAX.into(), 1_000_000)]).await.remove(0);
        Self { _server: server, link, url, pool, other, instances, choices, traces: Vec::new() }
    }

    /// Items with the model's stock, and its orders of them.
    async fn round(&self) -> Round {
        let items = make(&self.pool, &stock().map(|units| new_item(units.into(), 1))).await;
        let all = lines();
        let mut names = Vec::new();
        let mut orders = Vec::new();
        for of_order in all.chunk_by(|one, next| one[0] == next[0]) {
            let id = OrderId::generate();
            let line = |(number, [_, item, buyer, _]): (usize, &[usize; 4])| {
                let purchase = purchase(&items[*item], *buyer, id);
                if of_order.len() == 1 {
                    return purchase;
                }
                let number = u8::try_from(number).expect("few lines");
                let line_count = u8::try_from(of_order.len()).ok();
                Purchase { order_id: id.line(number), line_count, ..purchase }
            };
            let lines: Vec<Purchase> = of_order.iter().enumerate().map(line).collect();
            names.extend(lines.iter().map(|one| one.order_id.to_string()));
            orders.push((of_order[0][3], lines));
        }
        Round { orders, names }
    }

    /// Writes the orders of a round, which come at about the same time. Mostly, other orders are under way, so that they
    /// are written in batches. Somebody may have locked a stock row for a while.
    async fn write(&mut self, round: &Round, held: Option<Duration>) -> Vec<Event> {
        let recorder = Recorder::default();
        let _recorded = tracing::subscriber::set_default(recorder.clone());
        let spread = self.choices.random_range(0..3_000);
        let orders = round.orders.iter().map(|(instance, lines)| {
            let pause = Duration::from_micros(self.choices.random_range(0..=spread));
            let instance = &self.instances[*instance];
            async move {
                if pause > Duration::from_micros(300) {
                    sleep(pause).await;
                }
                instance.write_order(lines.clone(), None, None).await
            }
        });
        let orders = join_all(orders.collect::<Vec<_>>());
        let are_busy = self.choices.random_range(0..4) > 0;
        let busy = self.instances.iter().flat_map(|instance| [instance; 2]).filter(|_| are_busy);
        let busy = busy
            .map(|instance| instance.write(purchase(&self.other, 0, OrderId::generate()), None));
        let mut locks = MySqlConnection::connect(&self.url).await.expect("connected");
        let item = round.orders[0].1[0].item.id;
        let mut lock = locks.begin().await.expect("begun");
        hold(&mut lock, self.other.id).await;
        if held.is_some() {
            hold(&mut lock, item).await;
        }
        let ended = async {
            let mut orders = orders;
            if let Some(held) = held {
                let early = timeout(held, &mut orders).await;
                lock.rollback().await.expect("rolled back");
                return match early {
                    Ok(outcomes) => outcomes,
                    Err(_) => orders.await,
                };
            }
            let outcomes = orders.await;
            lock.rollback().await.expect("rolled back");
            outcomes
        };
        let (_, outcomes) = tokio::join!(join_all(busy.collect::<Vec<_>>()), ended);
        let is_known = |one: &Outcome| !matches!(one, Outcome::Unknown(_));
        assert!(outcomes.iter().all(is_known), "{outcomes:?}");
        let is_of_round = |event: &Event| {
            event.text("lines").is_empty()
                || round.names.iter().any(|name| event.text("lines").contains(name))
        };
        recorder.events(BATCH_TARGET).into_iter().filter(is_of_round).collect()
    }

    /// Rounds, each of which is to be a path of the model, and each of its orders by itself.
    async fn rounds(&mut self, rounds: u32, held: Option<Duration>) {
        for _ in 0..rounds {
            let round = self.round().await;
            let events = self.write(&round, held).await;
            let explained = explain(&events, &round.names);
            let number = self.traces.len();
            explained.unwrap_or_else(|unexplained| panic!("round {number}: {unexplained}"));
            let each = explain_each(std::slice::from_ref(&events));
            if let Some(unexplained) = each.unexplained {
                panic!("round {number}, each order by itself: {unexplained}");
            }
            self.traces.push((events, round.names));
        }
    }
}

async fn make(pool: &Database, items: &[NewItem]) -> Vec<Arc<Item>> {
    let now = OffsetDateTime::now_utc();
    let new = NewItems { items, now, actor: None, first_id: None, request: None };
    match create(pool, new).await {
        Ok(Some(created)) => created.items.into_iter().map(|one| one.item).collect(),
        other => panic!("the items are not made: {other:?}"),
    }
}

/// Locks the stock row of an item.
async fn hold(lock: &mut MySqlConnection, item: ItemId) {
    let statement = "SELECT available FROM stock WHERE item_id = ? FOR UPDATE";
    sqlx::query(statement).bind(item.get()).fetch_one(lock).await.expect("locked");
}

fn new_item(units: i64, per_buyer_limit: u32) -> NewItem {
    let now = OffsetDateTime::now_utc();
    let hour = time::Duration::HOUR;
    NewItem {
        name: "thing".to_owned(),
        description: String::new(),
        image_url: None,
        price: Cents::new(100).expect("small"),
        currency: Currency::USD,
        stock: units,
        window: SaleWindow::new(now - hour, now + hour).expect("a window"),
        per_buyer_limit,
        unpaid_max: 0,
        hold_seconds: 300,
        strategy: "mysql-batch".to_owned(),
        kind: ItemKind::Shop,
        arbiter: ArbiterMode::On,
        waiting_room: false,
        offer_seconds: 0,
        extend_seconds: 0,
        return_seconds: 0,
        variant: None,
        draw: None,
        limit_group: None,
    }
}

fn purchase(item: &Arc<Item>, buyer: usize, order_id: OrderId) -> Purchase {
    let now = OffsetDateTime::now_utc();
    let buyer = i64::try_from(buyer).expect("small") + 1;
    let quantity = Quantity::new(1).expect("positive");
    Purchase {
        order_id,
        item: Arc::clone(item),
        buyer: UserId::new(buyer).expect("positive"),
        quantity,
        amount: item.price,
        key: RequestKey::of_order(order_id),
        strategy: "mysql-batch",
        trace: Default::default(),
        line_count: None,
        counts_refusals: true,
        created_at: now,
        expires_at: now + time::Duration::HOUR,
    }
}

/// Each decision of two instances is a step of the model, also where a COMMIT or its answer is lost, and where another
/// session has locked a stock row, so that batches are overtaken.
#[tokio::test]
async fn rounds_are_paths_of_the_model() {
    const COMMIT: &[u8] = b"\x03COMMIT";
    let mut testbed = Testbed::start().await;
    testbed.rounds(rounds(6), None).await;
    for trap in [Trap::at(COMMIT).lose_answer(), Trap::at(COMMIT)] {
        let before = testbed.link.caught();
        testbed.link.trap(trap);
        for _ in 0..ROUNDS_MAX {
            if testbed.link.caught() > before {
                break;
            }
            testbed.rounds(1, None).await;
        }
        assert!(testbed.link.caught() > before, "the fault did not bite");
    }
    testbed.rounds(1, Some(HELD)).await;
    for (mistake, plant, shows_by_order) in MISTAKES {
        testbed.refuses(mistake, plant, shows_by_order).await;
    }
    let events: usize = testbed.traces.iter().map(|(events, _)| events.len()).sum();
    println!("{} rounds, {events} events, all explained", testbed.traces.len());
}

/// How often the orders are written: `SECKILL_TEST_ROUNDS`, else a few times.
fn rounds(few: u32) -> u32 {
    let asked = std::env::var("SECKILL_TEST_ROUNDS").ok();
    asked.map_or(few, |text| text.parse().expect("SECKILL_TEST_ROUNDS is a number"))
}

/// Writes a mistake into a trace that has a place for it, and answers the index of its event. The names are those of the
/// lines.
type Plant = fn(&mut Vec<Event>, &[String]) -> Option<usize>;

/// The planted mistakes of the model that a trace can show, and whether the replay of one order by itself shows each.
const MISTAKES: [(&str, Plant, bool); 6] = [
    ("an answer before COMMIT", answer_before_commit, true),
    // To one order it looks as if another order had given its unit back.
    ("affected rows ignored", |events, _| affected_rows_ignored(events), false),
    ("the stock before the limits", stock_before_limits, true),
    (
        "a line dropped at the second try",
        |events, names| without_a_line(events, names, "looked"),
        true,
    ),
    ("the lines of an order apart", |events, names| without_a_line(events, names, "begin"), true),
    ("a whole batch refused", whole_batch_refused, true),
];

impl Testbed {
    /// Has a mistake refused at its event or after it, in a round that has a place for it: by the replay of the whole
    /// round, and by that of each order where it `shows_by_order`. Another transaction of a round may explain it, where
    /// that one has taken the units or given them back in time.
    async fn refuses(&mut self, mistake: &str, plant: Plant, shows_by_order: bool) {
        let mut is_refused_whole = false;
        let mut is_refused_by_order = !shows_by_order;
        for _ in 0..ROUNDS_MAX {
            for (events, names) in &self.traces {
                let mut events = events.clone();
                let Some(index) = plant(&mut events, names) else { continue };
                if let Err(unexplained) = explain(&events, names) {
                    // A later event refuses it where a transaction beside it may have made room before.
                    assert!(unexplained.number > index, "{mistake}: {unexplained}");
                    is_refused_whole = true;
                }
                let each = explain_each(&[events]);
                is_refused_by_order |= each.explained < each.events;
                if is_refused_whole && is_refused_by_order {
                    return;
                }
            }
            self.rounds(1, None).await;
        }
        panic!(
            "{mistake}: refused in a whole round: {is_refused_whole}, by an order: {is_refused_by_order}"
        );
    }
}

fn answer_before_commit(events: &mut Vec<Event>, _: &[String]) -> Option<usize> {
    let commit = events.iter().position(|one| one.what() == "commit")?;
    let is_of_it = |one: &Event| {
        one.what() == "told" && events[commit].text("lines").contains(one.text("lines"))
    };
    let told = commit + events[commit..].iter().position(is_of_it)?;
    let event = events.remove(told);
    let is_sold = event.text("answer") == "sold";
    events.insert(commit, event);
    is_sold.then_some(commit)
}

fn affected_rows_ignored(events: &mut [Event]) -> Option<usize> {
    let index = events.iter().position(|one| one.flag("objected") == Some(true))?;
    let is_turn =
        |one: &Event| one.what() == "turn" && one.text("lines") == events[index].text("lines");
    let had_turn = events[..index].iter().any(is_turn);
    says(&mut events[index], "stock");
    had_turn.then_some(index)
}

fn stock_before_limits(events: &mut Vec<Event>, _: &[String]) -> Option<usize> {
    let limits = events.iter().position(|one| one.what() == "limits")?;
    let mut event = events[limits].clone();
    says(&mut event, "stock");
    events.insert(limits, event);
    Some(limits)
}

fn without_a_line(events: &mut [Event], names: &[String], what: &str) -> Option<usize> {
    // The model's third order has two lines.
    let both = names.get(2..4)?;
    let has_both = |one: &Event| both.iter().all(|name| one.text("lines").contains(name));
    let index = events.iter().position(|one| one.what() == what && has_both(one))?;
    let lines = events[index].text("lines").replace(&both[1], "");
    events[index].fields.insert("lines".to_owned(), lines);
    Some(index)
}

fn whole_batch_refused(events: &mut Vec<Event>, _: &[String]) -> Option<usize> {
    let is_batch = |one: &Event| one.text("lines").contains(',');
    let is_it = |one: &Event| one.flag("objected") == Some(true) && is_batch(one);
    let index = events.iter().position(is_it)?;
    let mut event = events[index].clone();
    says(&mut event, "told");
    event.fields.insert("answer".to_owned(), "refused".to_owned());
    events.insert(index + 1, event);
    Some(index + 1)
}

fn says(event: &mut Event, what: &str) {
    event.fields.insert("what".to_owned(), what.to_owned());
}

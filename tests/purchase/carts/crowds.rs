//! Many carts with items in common, beside single purchases.

use std::cell::RefCell;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use sqlx::{Connection, Executor, MySql, Transaction};
use tokio::sync::Semaphore;

use super::steps::{beside_lock_waits, statuses, until_expired};
use super::*;
use crate::support::seed;

/// Answers that said "try again", by code.
pub(super) type TryAgain = RefCell<BTreeMap<String, u32>>;

/// Sends again what was told to come again; nobody may be told that for long.
pub(super) async fn for_good(told: &TryAgain, mut send: impl AsyncFnMut() -> Answer) -> Answer {
    for _ in 0..50 {
        let answer = send().await;
        if answer.json["retryable"] != true {
            return answer;
        }
        *told.borrow_mut().entry(answer.code().to_owned()).or_default() += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    send().await
}

/// Items of a storm, units of each, and carts. More is wanted of each item than there is.
const ITEMS: usize = 50;
const STOCK: i64 = 9;
const CARTS: usize = 300;
/// Connections of an instance, and the carts and purchases that are sent to it at once. They are fewer, so that none
/// waits for a connection, however slow the machine is.
const CONNECTIONS: u32 = 32;
const AT_ONCE: usize = 24;

/// Carts over 50 items, whose lines overlap and come in opposite orders, and single purchases between them.
async fn storm(queues: u32) {
    let mut random = StdRng::seed_from_u64(seed());
    let shop = Shop::with(|config| {
        patient(config);
        config.mysql.shared_queues = queues;
        config.mysql.pool_max = CONNECTIONS;
    })
    .await;
    let told = TryAgain::default();
    let instance = shop.start().await;
    let beside = shop.start().await;
    let items = items_of(&instance, ITEMS, STOCK).await;
    let mut wanted: Vec<Vec<(i64, u32)>> = Vec::new();
    for number in 0..CARTS {
        let mut cart = items.clone();
        cart.shuffle(&mut random);
        cart.truncate(if number % 4 == 0 { 1 } else { random.random_range(2..=5) });
        wanted.push(one_of_each(&cart));
    }
    let places = [Semaphore::new(AT_ONCE), Semaphore::new(AT_ONCE)];
    let bought = wanted.iter().enumerate().map(async |(number, cart)| {
        let buyer = i64::try_from(number).expect("small") + 1;
        let instance: &Instance = if number % 2 == 0 { &instance } else { &beside };
        let _place = places[number % 2].acquire().await.expect("it is not closed");
        let client = instance.buyer(buyer);
        let answer = match cart[..] {
            [(item, _)] => {
                for_good(&told, async || client.buy_with_key("mysql-atomic", item, "k").await).await
            }
            _ => for_good(&told, async || reserve_with_key(&client, cart, "k").await).await,
        };
        (cart.clone(), answer)
    });
    let mut sold: BTreeMap<i64, i64> = BTreeMap::new();
    let mut refused = Vec::new();
    for (cart, answer) in join_all(bought).await {
        match answer.status {
            201 => cart.iter().for_each(|(item, _)| *sold.entry(*item).or_default() += 1),
            _ => {
                assert_eq!(answer.code(), "sold_out", "{}", answer.text);
                refused.push(cart);
            }
        }
    }
    assert!(told.borrow().is_empty(), "nobody hears of a deadlock: {:?}", told.borrow());
    let left = left(&instance, &items).await;
    for (item, left) in items.iter().zip(&left) {
        assert_eq!(sold.get(item).copied().unwrap_or_default() + left, STOCK, "item {item}");
    }
    // Whoever was refused was refused rightly: an item of the cart is sold out.
    let sold_out: Vec<i64> =
        items.iter().zip(&left).filter(|(_, left)| **left == 0).map(|(item, _)| *item).collect();
    for cart in refused {
        assert!(cart.iter().any(|(item, _)| sold_out.contains(item)), "{cart:?}, left {left:?}");
    }
    // Demand sells all units that are left.
    for (item, left) in items.iter().zip(left) {
        for number in 0..left {
            let client = instance.buyer(1_000 + number);
            let bought = for_good(&told, async || reserve(&client, &[(*item, 1)]).await).await;
            assert_eq!(bought.status, 201, "{}", bought.text);
        }
    }
    assert_all_clean(&instance, &items).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_in_opposite_orders_neither_deadlock_nor_oversell() {
    storm(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_without_shared_queues_neither_deadlock_nor_oversell() {
    storm(0).await;
}

/// Buyers pay and cancel carts while others buy the same items and holds end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_are_paid_cancelled_and_expired_at_once() {
    let shop = Shop::with(|config| config.job.expire_period_ms = 50).await;
    let told = TryAgain::default();
    let instance = shop.start().await;
    let beside = shop.start().await;
    let items = items_of(&instance, 6, 1_000).await;
    let visits = (0..120_i64).map(async |number| {
        let start = usize::try_from(number).expect("small");
        let mut cart: Vec<(i64, u32)> = (0..3).map(|line| (items[(start + line * 2) % 6], 1)).collect();
        if number % 2 == 0 {
            cart.reverse();
        }
        let client = if number % 3 == 0 { instance.buyer(number + 1) } else { beside.buyer(number + 1) };
        let order = order_id(&for_good(&told, async || reserve(&client, &cart).await).await);
        if number % 5 == 0 {
            let pass = "UPDATE orders SET expires_at = '2020-01-01' WHERE id LIKE CONCAT(LEFT(?, 34), '%')";
            shop.change(sqlx::query(pass).bind(&order)).await;
        }
        let both = ["payment", "cancellation"]
            .map(async |name| for_good(&told, async || client.step(&order, name).await).await);
        for answer in join_all(both).await {
            assert!([200, 409].contains(&answer.status), "{}", answer.text);
        }
    });
    join_all(visits).await;
    assert_all_clean(&instance, &items).await;
}

/// How often a row is asked for while a transaction waits for another one.
const LOOKS: usize = 100;

/// Does something with an order of all items while the stock row of one is locked, and asserts that the
/// transaction which waits for that row has locked no row of another item. So nobody else waits for the item.
async fn beside_a_locked_row<T>(
    shop: &Shop,
    items: &[i64],
    locked: i64,
    act: impl Future<Output = T>,
) -> T {
    let holder = hold_stock_row(&shop.pool, locked).await;
    let look = async {
        until_running(&shop.pool, "%stock%", 1).await;
        let mut connection = shop.pool.acquire().await.expect("a connection").detach();
        // Whoever tries to lock all rows at once has those that are free, for a moment.
        connection.execute("SET SESSION innodb_lock_wait_timeout = 1").await.expect("a setting");
        let mut others = connection.begin().await.expect("a transaction");
        let free = items.iter().filter(|item| **item != locked);
        for item in free.cycle().take(LOOKS) {
            let free = sqlx::query("SELECT available FROM stock WHERE item_id = ? FOR UPDATE")
                .bind(item)
                .execute(&mut *others)
                .await;
            assert!(free.is_ok(), "item {item} is locked beside item {locked}: {free:?}");
            others.rollback().await.expect("rolled back");
            others = connection.begin().await.expect("a transaction");
        }
        others.rollback().await.expect("rolled back");
        holder.rollback().await.expect("rolled back");
    };
    tokio::join!(act, look).0
}

/// An order, its cancellation, its expiry and its late payment wait for one item with nothing of another.
async fn waits_with_nothing_in_hand(locked: usize) {
    let (shop, instance, items) = selling(3, |config| config.job.expire_period_ms = 50).await;
    let mut opposite = one_of_each(&items);
    opposite.reverse();
    let buyer = instance.buyer(1);
    let told = TryAgain::default();
    let locked = items[locked];
    let buy = for_good(&told, async || reserve(&buyer, &opposite).await);
    let first = order_id(&beside_a_locked_row(&shop, &items, locked, buy).await);
    let cancel = for_good(&told, async || buyer.step(&first, "cancellation").await);
    let cancelled = beside_a_locked_row(&shop, &items, locked, cancel).await;
    assert_eq!(cancelled.json["status"], "cancelled", "{}", cancelled.text);

    let second = order_id(&reserve(&buyer, &opposite).await);
    let expire = async {
        shop.let_holds_pass(301).await;
        until_expired(&shop, &second, 3).await;
    };
    // The job waits for the item of the first line alone, and comes back for the others.
    if locked == items[0] {
        beside_a_locked_row(&shop, &items, locked, expire).await;
    } else {
        expire.await;
    }
    let pay = for_good(&told, async || buyer.step(&second, "payment").await);
    assert_eq!(beside_a_locked_row(&shop, &items, locked, pay).await.json["status"], "paid");
    assert_all_clean(&instance, &items).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_waits_for_its_first_or_last_item_with_nothing_in_hand() {
    for locked in [0, 2] {
        waits_with_nothing_in_hand(locked).await;
    }
}

/// Waits until the lines of an order have these states.
async fn until_statuses(shop: &Shop, order: &str, expected: &[&str]) {
    until("the order to end", || statuses(shop, order), |found| *found == expected).await;
}

/// Overdue carts wait, the first one for a limit of its buyer and the second one for a held item. A transaction takes
/// one order; the order behind them still expires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_behind_overdue_carts_that_wait_still_expire() {
    let (shop, instance, items) = selling(2, |config| {
        config.job.expire_period_ms = 50;
        config.job.expire_batch_max = 1;
    })
    .await;
    let mut carts = Vec::new();
    for buyer in [1, 2] {
        carts.push(order_id(&reserve(&instance.buyer(buyer), &one_of_each(&items)).await));
    }
    let single = order_id(&instance.buyer(3).buy("mysql-atomic", items[0]).await);
    let holder = hold_row_and_limit(&shop, items[1]).await;
    shop.let_holds_pass(301).await;
    until_statuses(&shop, &single, &["expired"]).await;
    for cart in &carts {
        assert_eq!(statuses(&shop, cart).await, ["pending"; 2], "its item or its limit is held");
    }
    holder.rollback().await.expect("the rows are free");
    for cart in &carts {
        until_statuses(&shop, cart, &["expired"; 2]).await;
    }
    assert_all_clean(&instance, &items).await;
}

/// Holds the stock row of an item, and the limit of buyer 1, which a purchase has while it waits for that row.
async fn hold_row_and_limit(shop: &Shop, item: i64) -> Transaction<'static, MySql> {
    let mut holder = hold_stock_row(&shop.pool, item).await;
    let count = "UPDATE buyer_limits SET allowed = allowed WHERE item_id = ? AND user_id = 1";
    sqlx::query(count).bind(item).execute(&mut *holder).await.expect("counted");
    holder
}

/// A purchase has the limit of its buyer while it waits for the row of a held item. Orders of other buyers still expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overdue_cart_whose_buyer_waits_delays_no_other_expiry() {
    let (shop, instance, items) = selling(2, |config| {
        config.job.expire_period_ms = 50;
        config.mysql.lock_wait_timeout_seconds = 1;
    })
    .await;
    let buyer = instance.buyer(1);
    let paid = order_id(&reserve(&buyer, &one_of_each(&items)).await);
    let cart = order_id(&reserve(&buyer, &one_of_each(&items)).await);
    let single = order_id(&instance.buyer(2).buy("mysql-atomic", items[0]).await);
    let holder = hold_row_and_limit(&shop, items[1]).await;
    // A payment changes no limit, so it asks for none.
    buyer.step(&paid, "payment").await.expect_status(200);
    shop.let_holds_pass(301).await;
    let expired = until_statuses(&shop, &single, &["expired"]);
    let ((), waits) = beside_lock_waits(&shop, expired).await;
    assert_eq!(waits.after_changes, 0, "the sweep waits for a limit with rows in hand");
    assert_eq!(statuses(&shop, &cart).await, ["pending"; 2], "its buyer's limit is locked");
    holder.rollback().await.expect("the rows are free");
    until_statuses(&shop, &cart, &["expired"; 2]).await;
    assert_all_clean(&instance, &items).await;
}

/// A batch waits for the limit of a buyer in vain. The orders of others expire one by one.
#[tokio::test]
async fn an_overdue_order_whose_buyer_waits_delays_no_other_expiry() {
    let (shop, instance, items) = selling(1, |config| {
        config.job.expire_period_ms = 50;
        config.mysql.lock_wait_timeout_seconds = 1;
    })
    .await;
    let waiting = order_id(&instance.buyer(1).buy("mysql-atomic", items[0]).await);
    let other = order_id(&instance.buyer(2).buy("mysql-atomic", items[0]).await);
    let count = "UPDATE buyer_limits SET allowed = allowed WHERE item_id = ? AND user_id = 1";
    let holder = shop.hold(sqlx::query(count).bind(items[0])).await;
    shop.let_holds_pass(301).await;
    until_statuses(&shop, &other, &["expired"]).await;
    assert_eq!(statuses(&shop, &waiting).await, ["pending"], "its buyer's limit is locked");
    holder.rollback().await.expect("the row is free");
    until_statuses(&shop, &waiting, &["expired"]).await;
    assert_all_clean(&instance, &items).await;
}

/// A step of such a buyer's cart waits for the held item alone: buyers of its other item go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_whose_buyer_waits_stops_no_other_item() {
    let (shop, instance, items) = selling(2, |config| {
        patient(config);
        // Four transactions of each item at once.
        config.mysql.pool_max = 16;
    })
    .await;
    let buyer = instance.buyer(1);
    let mut carts = Vec::new();
    for _ in 0..4 {
        carts.push(order_id(&reserve(&buyer, &[(items[0], 1), (items[1], 1)]).await));
    }
    let holder = hold_row_and_limit(&shop, items[1]).await;
    let steps = join_all(carts.iter().map(|cart| buyer.step(cart, "cancellation")));
    let others = async {
        until_running(&shop.pool, "%stock%FOR UPDATE%", 4).await;
        instance.buyer(2).buy("mysql-atomic", items[0]).await.expect_status(201);
        holder.rollback().await.expect("the rows are free");
    };
    let (steps, ()) = tokio::join!(steps, others);
    assert!(steps.iter().all(|step| [200, 503].contains(&step.status)), "done, or contended");
    assert_all_clean(&instance, &items).await;
}

/// A shop with four transactions of each item at once, whose carts are written by themselves.
async fn narrow_shop() -> (Shop, Instance) {
    Shop::open_with(|config| {
        config.mysql.pool_max = 16;
        config.mysql.shared_queues = 0;
        config.mysql.lock_wait_timeout_seconds = 5;
    })
    .await
}

/// Four carts of buyer 1 with a unit of each item; they end when `others` has.
async fn four_carts(instance: &Instance, items: &[i64], others: impl Future<Output = ()>) {
    let buyer = instance.buyer(1);
    let both = [(items[0], 1), (items[1], 1)];
    let carts = join_all((0..4).map(|_| reserve(&buyer, &both)));
    let (carts, ()) = tokio::join!(carts, others);
    assert!(carts.iter().all(|cart| [201, 503].contains(&cart.status)), "bought, or contended");
    assert_all_clean(instance, items).await;
}

/// A purchase of such a buyer is the first one of the held item, so that the limit exists for nobody else yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_that_meets_a_new_limit_stops_no_other_item() {
    let (shop, instance) = narrow_shop().await;
    let items = items(&instance, 2).await;
    let mut holder = hold_stock_row(&shop.pool, items[1]).await;
    let count = "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES (?, 1, 0, 4)";
    sqlx::query(count).bind(items[1]).execute(&mut *holder).await.expect("counted");
    four_carts(&instance, &items, async {
        // They wait for the held item alone.
        until_running(&shop.pool, "%stock%FOR UPDATE%", 4).await;
        instance.buyer(2).buy("mysql-atomic", items[0]).await.expect_status(201);
        holder.rollback().await.expect("the rows are free");
    })
    .await;
}

/// A purchase of such a buyer has the limit of a group. It may wait for an item that is in no cart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_that_meets_a_limit_of_a_group_stops_no_other_buyer() {
    let (shop, instance) = narrow_shop().await;
    let group = instance.make_group(9).await;
    let body = json!({ "stock": 100, "per_buyer_limit": 4, "limit_group_id": group });
    let items = [instance.make_item(body.clone()).await, instance.make_item(body).await];
    let count = "INSERT INTO group_limits (group_id, user_id, bought, allowed) VALUES (?, 1, 0, 9)";
    let holder = shop.hold(sqlx::query(count).bind(group)).await;
    four_carts(&instance, &items, async {
        // One for each line.
        until_in_flight(&instance, 8).await;
        for id in 2..42 {
            instance.buyer(id).buy("mysql-atomic", items[0]).await.expect_status(201);
        }
        holder.rollback().await.expect("the limit is free");
    })
    .await;
}

/// As many carts wait for a held item as may run of a slow one. Buyers of their other item are not turned away, and who
/// waits for the row has written nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_count_for_the_item_that_they_wait_for() {
    let (shop, instance, items) = selling(2, |config| {
        config.mysql.pool_max = 16;
        // Each cart is written by itself.
        config.mysql.shared_queues = 0;
        config.mysql.lock_wait_timeout_seconds = 1;
        config.purchase.deadline_ms = 4_500;
        config.purchase.wait_ms_max = 900;
    })
    .await;
    let both = [(items[0], 1), (items[1], 1)];
    let holder = hold_stock_row(&shop.pool, items[1]).await;
    // They wait for longer than they may, and not all of them end in the same second. Four have permits at once.
    let slow = join_all((1..=8).map(async |id| reserve(&instance.buyer(id), &both).await));
    let (slow, waits) = beside_lock_waits(&shop, slow).await;
    assert!(slow.iter().all(|cart| [503, 504].contains(&cart.status)), "{slow:?}");
    assert!(waits.seen > 0, "no cart was seen that waits");
    assert_eq!(waits.after_changes, 0, "a cart waits for a row with an order in hand");
    let carts = join_all((11..75).map(async |id| reserve(&instance.buyer(id), &both).await));
    let single = async {
        // One for each line.
        until_in_flight(&instance, 128).await;
        instance.buyer(100).buy("mysql-atomic", items[0]).await.expect_status(201);
        holder.rollback().await.expect("the row is free");
    };
    let (carts, ()) = tokio::join!(carts, single);
    assert!(carts.iter().all(|cart| [201, 409, 503].contains(&cart.status)), "{carts:?}");
    assert_all_clean(&instance, &items).await;
}

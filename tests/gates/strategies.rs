//! Conformance of every strategy on THE LIST: with the arbiter on none oversells; with it off the
//! safe ones still do not, with one instance and with two; the others are caught.

use gates::{Breaks, LIST, WaitFor};

use crate::support::crowd::metric;
use crate::support::prelude::*;

/// Units of an item and buyers who want one, all at once.
const STOCK: i64 = 40;
const BUYERS: i64 = 200;
/// Rushes in which a broken gate has to be caught once: two instances may miss each other by luck.
const CATCH_ROUNDS_MAX: usize = 5;

/// Every way in which any strategy on the list can be asked for.
fn variants() -> Vec<(String, Breaks)> {
    LIST.iter().flat_map(|entry| variants_of(entry.card.name)).collect()
}

/// Every way in which a strategy can be asked for.
fn variants_of(strategy: &str) -> Vec<(String, Breaks)> {
    let mut variants = Vec::new();
    for card in LIST.iter().map(|entry| entry.card).filter(|card| card.name == strategy) {
        let breaks = card.breaks_with;
        variants.push((card.name.to_owned(), breaks));
        // One body serves all of them: its options are walked with the main one. Those that break
        // are caught with the stock row, where reading and writing are far enough apart.
        if card.family == "lock" && card.name != "lock-redis" {
            if breaks == Breaks::Never {
                variants.push((format!("{}?store=redis&scope=market", card.name), breaks));
            }
        } else if card.takes_options {
            for scope in ["market", "item", "item-user"] {
                variants.push((format!("{}?store=mysql&scope={scope}", card.name), breaks));
                variants.push((format!("{}?store=redis&scope={scope}", card.name), breaks));
            }
            variants.push((format!("{}?scope=user", card.name), Breaks::Alone));
        }
    }
    variants
}

/// One rush at a time: each one loads the machine as much as it can be.
static RUSH: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// All buyers press at once, spread over the instances; what they were answered, by code.
async fn rush(
    instances: &[Instance],
    strategies: &[&str],
    item: i64,
) -> (Vec<Answer>, BTreeMap<String, usize>) {
    let _alone = RUSH.lock().await;
    let presses = (1..=BUYERS).map(async |id| {
        let index = usize::try_from(id).expect("positive");
        let buyer = instances[index % instances.len()].buyer(id);
        buyer.buy_for_good(strategies[index % strategies.len()], item).await
    });
    let answers = join_all(presses).await;
    let mut codes = BTreeMap::new();
    for answer in &answers {
        *codes.entry(format!("{} {}", answer.status, answer.code())).or_default() += 1;
    }
    (answers, codes)
}

fn sold(answers: &[Answer]) -> i64 {
    i64::try_from(answers.iter().filter(|answer| answer.status == 201).count()).expect("few")
}

/// Every accepted answer is an order in the ledger, and every order was accepted.
async fn assert_ledger_has_exactly(shop: &Shop, item: i64, answers: &[Answer]) {
    let mut accepted: Vec<String> =
        answers.iter().filter(|answer| answer.status == 201).map(order_id).collect();
    let read = "SELECT id FROM orders WHERE item_id = ? AND status <> 'rejected'";
    let mut ledger: Vec<String> = shop.read_all(sqlx::query_scalar(read).bind(item)).await;
    accepted.sort();
    ledger.sort();
    assert_eq!(accepted, ledger, "accepted answers against the ledger");
}

mod each {
    mod with_the_arbiter_on_it_keeps_every_promise {
        crate::support::strategies::test_each_strategy!(super::super::keeps_every_promise);
    }
    mod with_the_arbiter_off_it_oversells_only_as_its_card_says {
        crate::support::strategies::test_each_strategy!(super::super::oversells_as_its_card_says);
    }
}

/// Two instances: one sends an order as one call, the other its statements one by one.
async fn two_instances(shop: &Shop) -> [Instance; 2] {
    [shop.start().await, shop.start_with(|config| config.mysql.order_routine = false).await]
}

/// A shop whose purchases have time: each has to be sold or refused for good, and a busy machine must not
/// make one "contended". Deadlines and leases have tests of their own.
async fn shop() -> Shop {
    Shop::with_lock_servers(patient).await
}

async fn keeps_every_promise(strategy: &str) {
    let shop = shop().await;
    let instances = two_instances(&shop).await;
    for (strategy, _) in variants_of(strategy) {
        sells_exactly_the_stock(&shop, &instances, &strategy).await;
        sells_whole_or_not_at_all(&instances[0], &strategy).await;
        keeps_the_limit(&instances, &strategy).await;
    }
}

async fn sells_exactly_the_stock(shop: &Shop, instances: &[Instance], strategy: &str) {
    let item = instances[0].make_item(json!({ "stock": STOCK })).await;
    let (answers, codes) = rush(instances, &[strategy], item).await;
    assert_eq!(sold(&answers), STOCK, "{strategy}: {codes:?}");
    assert_eq!(codes.get("409 sold_out").copied().unwrap_or(0), 160, "{strategy}: {codes:?}");
    assert_ledger_has_exactly(shop, item, &answers).await;
    assert_clean(&instances[0], item).await;
}

/// Safe strategies do not oversell, and the others are caught.
async fn oversells_as_its_card_says(strategy: &str) {
    let shop = shop().await;
    let mut instances = Vec::new();
    for count in [1, 2] {
        instances.push(shop.start().await);
        // The clocks of two machines need not agree, and no gate may depend on it.
        if let Some(second) = instances.get(1) {
            second.clock.shift(time::Duration::HOUR);
        }
        for (strategy, breaks) in variants_of(strategy) {
            let holds = match breaks {
                Breaks::Never => true,
                Breaks::WithTwoInstances => count == 1,
                Breaks::Alone => false,
            };
            // Its two holders need one instance to look just while the other one holds, which a
            // rush may miss: `lock::faults` shows them.
            let may_miss = strategy == "lock-redis-getset";
            let rounds = if holds || may_miss { 1 } else { CATCH_ROUNDS_MAX };
            let mut caught = false;
            for _ in 0..rounds {
                caught = caught || oversells_alone(&shop, &instances, &strategy, holds).await;
            }
            assert!(caught != holds || may_miss, "{strategy}, {count} instances: {caught}");
        }
    }
}

/// A rush with the arbiter off: whether it oversold, with the audit telling the same.
async fn oversells_alone(shop: &Shop, instances: &[Instance], strategy: &str, holds: bool) -> bool {
    // One instance's clock may be ahead, and holds must not run out by it.
    let lab = json!({ "stock": STOCK, "arbiter": "off", "hold_seconds": 80_000 });
    let item = instances[0].make_item(lab).await;
    let (answers, codes) = rush(instances, &[strategy], item).await;
    assert_ledger_has_exactly(shop, item, &answers).await;
    let sold = sold(&answers);
    let audit = instances[0].audit(item).await;
    assert!(sold >= STOCK, "{strategy} sold {sold}: {codes:?}");
    assert!(!holds || sold == STOCK, "{strategy}, {} instances: {codes:?}", instances.len());
    assert_eq!(audit["oversold"], sold - STOCK, "{strategy}: {audit}");
    if holds || sold > STOCK {
        assert_eq!(audit["clean"], holds, "{strategy}: {audit}");
    }
    sold > STOCK
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strategies_may_change_from_request_to_request() {
    let shop = shop().await;
    let instances = two_instances(&shop).await;
    let variants = variants();
    let names: Vec<&str> = variants.iter().map(|(name, _)| name.as_str()).collect();
    let item = instances[0].make_item(json!({ "stock": STOCK })).await;
    let (answers, codes) = rush(&instances, &names, item).await;
    assert_eq!(sold(&answers), STOCK, "{codes:?}");
    assert_ledger_has_exactly(&shop, item, &answers).await;
    assert_clean(&instances[0], item).await;
}

#[tokio::test]
async fn unsafe_ways_are_refused_on_a_real_sale() {
    let (shop, instance) = shop().await.opened().await;
    let item = instance.make_item(json!({ "kind": "shop" })).await;
    let off = sqlx::query("UPDATE items SET arbiter = 'off' WHERE id = ?").bind(item);
    assert!(off.execute(&shop.pool).await.is_err(), "the table keeps the arbiter on");
    for (strategy, breaks) in variants() {
        let answer = instance.buyer(7).buy_for_good(&strategy, item).await;
        let (sold, reached) = ((201, ""), (409, "limit_reached"));
        let expected = match breaks {
            Breaks::Never if strategy.contains("scope=") => (422, "invalid_options"),
            // The limit of one is reached by the first safe one.
            Breaks::Never if answer.brief() == reached => reached,
            Breaks::Never => sold,
            _ => (403, "unsafe_strategy"),
        };
        assert_eq!(answer.brief(), expected, "{strategy}: {answer:?}");
    }
}

#[tokio::test]
async fn a_buyer_of_a_real_sale_chooses_neither_how_to_wait_nor_what_to_lock() {
    let (_shop, instance, real) = Shop::selling(json!({ "kind": "shop", "stock": 100 })).await;
    let lab = instance.make_item(json!({ "stock": 100 })).await;
    let waits = WaitFor::ALL.iter().filter(|wait| **wait != WaitFor::Notify);
    let waits = waits.map(|wait| format!("wait={}", wait.as_str()));
    let scopes = ["market", "item", "item-user"].map(|scope| format!("scope={scope}"));
    for (buyer, option) in (1..).zip(waits.chain(scopes)) {
        for strategy in ["lock-redis", "lock-redis-token"] {
            let strategy = format!("{strategy}?{option}");
            let refused = instance.buyer(buyer).buy(&strategy, real).await;
            assert_eq!(refused.brief(), (422, "invalid_options"), "{strategy}: {refused:?}");
            assert!(refused.text.contains("lab items only"), "{strategy}: {refused:?}");
        }
        let sold = instance.buyer(buyer).buy(&format!("lock-redis?{option}"), lab).await;
        assert_eq!(sold.brief(), (201, ""), "{option}: {sold:?}");
    }
    // Which counter the lock guards costs nobody anything, and the default may be said.
    for (buyer, option) in (100..).zip(["store=redis", "store=mysql", "wait=notify"]) {
        let sold = instance.buyer(buyer).buy(&format!("lock-redis?{option}"), real).await;
        assert_eq!(sold.brief(), (201, ""), "{option}: {sold:?}");
    }
    assert_clean(&instance, real).await;
}

/// Several units are sold whole or not at all.
async fn sells_whole_or_not_at_all(instance: &Instance, strategy: &str) {
    let item = instance.make_item(json!({ "stock": 5, "per_buyer_limit": 4 })).await;
    let path = purchase_path(strategy, item);
    let buy = async |id: i64, quantity: i64| {
        let buyer = instance.buyer(id);
        buyer.outcome(buyer.post(&path, &json!({ "quantity": quantity })).await).await
    };
    assert_eq!(buy(1, 3).await.status, 201, "{strategy}");
    assert_eq!(buy(2, 3).await.brief(), (409, "sold_out"), "{strategy}");
    // Two are left, and still sold.
    assert_eq!(buy(3, 2).await.status, 201, "{strategy}");
    assert_eq!(buy(4, 1).await.brief(), (409, "sold_out"), "{strategy}");
    assert_clean(instance, item).await;
}

/// One buyer presses twenty times at once, on two instances.
async fn twenty_presses(instances: &[Instance], strategy: &str, item: i64) -> Vec<Answer> {
    let clients = [instances[0].buyer(9), instances[1].buyer(9)];
    join_all((0..20).map(|press| clients[press % 2].buy_for_good(strategy, item))).await
}

/// A buyer never gets more than the limit.
async fn keeps_the_limit(instances: &[Instance], strategy: &str) {
    let item = instances[0].make_item(json!({ "stock": 40, "per_buyer_limit": 2 })).await;
    let answers = twenty_presses(instances, strategy, item).await;
    let codes: Vec<_> = answers.iter().map(Answer::brief).collect();
    assert!((1..=2).contains(&sold(&answers)), "{strategy}: {codes:?}");
    // What was queued may be rejected, if the ledger knew less when it was let through.
    let others =
        [(201, ""), (409, "limit_reached"), (409, "request_in_progress"), (409, "rejected")];
    assert!(codes.iter().all(|code| others.contains(code)), "{strategy}: {codes:?}");
    assert_clean(&instances[0], item).await;
}

/// The call and the statements lock the rows of an order in the same sequence. Otherwise orders of one buyer
/// deadlock, and after too many tries the buyer hears "contended".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_compares_does_not_deadlock_with_itself() {
    let shop = shop().await;
    let instances = two_instances(&shop).await;
    for strategy in ["mysql-version", "mysql-timestamp"] {
        let item = instances[0].make_item(json!({ "stock": 40, "per_buyer_limit": 20 })).await;
        assert_eq!(sold(&twenty_presses(&instances, strategy, item).await), 20, "{strategy}");
        for instance in &instances {
            assert_eq!(metric(instance, "seckill_arbiter_retries_total").await, 0.0, "{strategy}");
        }
    }
}

#[tokio::test]
async fn the_list_is_served_with_its_cards() {
    let (_shop, instance) = shop().await.opened().await;
    let listed = instance.stranger().get("/api/strategies").await;
    let names: Vec<&str> =
        listed.json.as_array().expect("a list").iter().filter_map(name).collect();
    let expected: Vec<&str> = LIST.iter().map(|entry| entry.card.name).collect();
    assert_eq!(names, expected);
    for (card, entry) in listed.json.as_array().expect("a list").iter().zip(LIST) {
        assert_eq!(card["available"], true, "{card}");
        assert_eq!(card["safe"], entry.card.is_safe(), "{card}");
        for field in ["family", "store", "summary", "breaks_when", "source"] {
            assert!(card[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {card}");
        }
        assert!(card["needs"].is_array() && card["durable_before_reply"].is_boolean(), "{card}");
    }
    let locks = instance.stranger().get("/api/locks").await.json;
    assert!(locks.as_array().is_some_and(|kinds| !kinds.is_empty()));
}

fn name(card: &Value) -> Option<&str> {
    card["name"].as_str()
}

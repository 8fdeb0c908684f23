//! The places of deleted people: in waiting lists, in draws and among friends.

use ledger::Ledger;
use ledger::waiting_list::{WaitingLine, Waitlist};
use seckill::extensions;

use super::waiting;
use super::{PASSWORD, delete, delete_by_admin, first_account, person};
use crate::ledger::draw;
use crate::support::prelude::*;

/// People whose accounts are deleted while their tabs go on joining.
const PEOPLE: usize = 6;
/// A place that a join has written which was under way.
const JOIN: &str = "INSERT IGNORE INTO waiting_list (item_id, user_id, status, live, joined_at) \
     VALUES (?, ?, 'waiting', 1, UTC_TIMESTAMP(6))";

/// An item without units that are left, with a waiting list.
async fn sold_out(instance: &Instance) -> i64 {
    let item = json!({ "kind": "shop", "strategy": "mysql-atomic", "stock": 1 });
    let item = instance.make_item(item).await;
    order_id(&instance.buyer(9_001).buy("mysql-atomic", item).await);
    item
}

/// The other instance reads the list of ended tokens once in a long while, so it takes the token until then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tab_that_goes_on_joining_leaves_no_place() {
    let shop = Shop::with(|config| config.session.revocation_period_ms = 60_000).await;
    let (one, two) = (shop.start().await, shop.start().await);
    let item = sold_out(&one).await;
    first_account(&one).await;
    let mut people = Vec::new();
    for number in 0..PEOPLE {
        people.push(person(&one, &format!("Tab{number}")).await);
    }
    let deleted = people.iter().map(|(_, client)| {
        let tab = two.stranger().with_token(client.token().expect("a token"));
        async move {
            let mine = json!({ "password": PASSWORD });
            let join = || async { tab.post(&waiting(item), &json!({})).await };
            let refused = until("the tab to be refused", join, |joined| joined.status == 401);
            let ended = tokio::join!(refused, delete(client, mine));
            assert_eq!(ended.1.status, 204, "{}", ended.1.text);
            assert_eq!(ended.0.code(), "invalid_token", "after the deletion");
        }
    });
    join_all(deleted).await;
    // A join that was under way may have been written after the places were ended.
    shop.change(sqlx::query(JOIN).bind(item).bind(people[0].0)).await;
    shop.change(sqlx::query("UPDATE erased_users SET due_at = UTC_TIMESTAMP(6)")).await;
    shop.until_count("SELECT COUNT(*) FROM waiting_list WHERE live = 1", 0).await;
    // Somebody else who joins is the first one.
    assert_eq!(one.buyer(72).post(&waiting(item), &json!({})).await.json["ahead"], 0);
    assert_clean(&one, item).await;
}

/// What deleted people left at an item whose stock is locked stops no other person's deletion, and no other item's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_item_stops_no_other_deletion() {
    let (shop, instance) = Shop::open().await;
    let held = sold_out(&instance).await;
    let free = sold_out(&instance).await;
    first_account(&instance).await;
    let mut people = Vec::new();
    for name in ["Ada", "Ben"] {
        let (id, client) = person(&instance, name).await;
        delete(&client, json!({ "password": PASSWORD })).await.expect_status(204);
        people.push(id);
    }
    let holder = hold_stock_row(&shop.pool, held).await;
    // Joins that were under way. The first person to be looked at waits for both items.
    for (item, person) in [(held, people[0]), (free, people[0]), (free, people[1])] {
        shop.change(sqlx::query(JOIN).bind(item).bind(person)).await;
    }
    for (person, seconds) in [(people[0], 2), (people[1], 1)] {
        let due = "UPDATE erased_users SET due_at = UTC_TIMESTAMP(6) - INTERVAL ? SECOND WHERE user_id = ?";
        shop.change(sqlx::query(due).bind(seconds).bind(person)).await;
    }
    let live_at =
        |item| format!("SELECT COUNT(*) FROM waiting_list WHERE live = 1 AND item_id = {item}");
    shop.until_count(&live_at(free), 0).await;
    assert_eq!(shop.number(&live_at(held)).await, 1, "its row is held");
    holder.rollback().await.expect("the row is free");
    shop.until_count("SELECT COUNT(*) FROM waiting_list WHERE live = 1", 0).await;
}

/// The person signs in again, and joins, after the job has read the place that it is to end.
#[tokio::test]
async fn a_person_who_comes_back_meanwhile_keeps_the_place() {
    let (mut shop, instance) = Shop::open().await;
    let item = sold_out(&instance).await;
    first_account(&instance).await;
    let (id, client) = person(&instance, "Eve").await;
    delete(&client, json!({ "password": PASSWORD })).await.expect_status(204);
    // The test is the job.
    instance.stop().await;
    shop.change(sqlx::query(JOIN).bind(item).bind(id)).await;
    shop.change(sqlx::query("UPDATE erased_users SET due_at = UTC_TIMESTAMP(6)")).await;
    let link = link_before(&mut shop).await;
    let pool = mysql_connection::pool(&shop.config).expect("the URL is fine");
    let line = WaitingLine::new(Clock::default(), Outbox::default(), Metrics::new(), 10);
    let ledger = Ledger::new(pool, Breakers::new(&Metrics::new()).mysql);
    let waitlist = Waitlist { ledger, line };
    let eraser = extensions::eraser(waitlist);
    link.trap(Trap::at(b"SELECT available FROM stock WHERE item_id = ?").hold());
    let comes_back = async {
        eventually("the job to be at the item", || async { (link.held() == 1).then_some(()) })
            .await;
        shop.change(sqlx::query("DELETE FROM erased_users WHERE user_id = ?").bind(id)).await;
        link.mend();
    };
    let (finished, ()) = tokio::join!(eraser.finish(), comes_back);
    let finished = finished.expect("the ledger answers");
    assert_eq!((finished.lines.len(), finished.put_off), (0, 0), "{finished:?}");
    assert_eq!(shop.number("SELECT COUNT(*) FROM waiting_list WHERE live = 1").await, 1);
}

async fn enter_with(client: &Client, item: i64, party: &str) -> Value {
    let path = format!("/api/items/{item}/entry");
    let entered = client.post(&path, &json!({ "party": party })).await.expect_status(200);
    entered.json
}

/// Before the close the entry goes. After it the list of entries is fixed, so the entry stays without a live place, and
/// the friends are offered units without the person.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_person_gets_no_unit_of_a_draw() {
    let (shop, instance) = draw::shop().await.opened().await;
    first_account(&instance).await;
    let body = json!({
        "kind": "shop", "stock": 2, "strategy": "mysql-batch", "offer_seconds": 600,
        "mode": "draw", "draw_closes_at": draw::from_now(12), "draw_party_max": 3,
    });
    let item = instance.make_item(body).await;
    let (early, client) = person(&instance, "Early").await;
    enter_with(&client, item, "new").await;
    let (late, client) = person(&instance, "Late").await;
    let party = enter_with(&client, item, "new").await["party"].clone();
    let party = party.as_str().expect("a key").to_owned();
    for friend in [81, 82] {
        enter_with(&instance.buyer(friend), item, &party).await;
    }
    assert_eq!(delete_by_admin(&instance, early).await.status, 204);
    let entries = "SELECT COUNT(*) FROM draw_entries";
    assert_eq!(shop.number(entries).await, 3, "the early one is out");

    // Paused: the draw closes, and its places are written later.
    instance.admin().edit(item, json!({ "paused": true })).await;
    shop.until_count("SELECT COUNT(*) FROM draws WHERE listed_at IS NOT NULL", 1).await;
    assert_eq!(delete_by_admin(&instance, late).await.status, 204);
    instance.admin().edit(item, json!({ "paused": false })).await;
    draw::until_drawn(&instance.stranger(), item).await;
    assert_eq!(shop.number(entries).await, 3, "the published list");
    let live = format!("SELECT COUNT(*) FROM waiting_list WHERE live = 1 AND user_id = {late}");
    assert_eq!(shop.number(&live).await, 0);
    for friend in [81, 82] {
        assert_eq!(instance.buyer(friend).get(&waiting(item)).await.json["status"], "offered");
    }
    let proof = draw::proof(&instance.stranger(), item).await;
    assert_eq!(draw::faults(&proof, verify::Known::default()), []);
    assert_clean(&instance, item).await;
}

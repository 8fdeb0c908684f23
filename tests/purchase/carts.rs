//! An order of several items is whole or absent, from the reservation to its end.

mod batches;
mod crowds;
mod extension;
mod gates;
mod isolation;
mod links;
mod returns;
mod steps;

use seckill::failpoint::hold::Director;

use crate::support::prelude::*;

/// Lines of items and units.
fn lines(lines: &[(i64, u32)]) -> Value {
    let line = |(item, quantity): &(i64, u32)| json!({ "item_id": item, "quantity": quantity });
    json!({ "lines": lines.iter().map(line).collect::<Vec<_>>() })
}

async fn reserve(buyer: &Client, of: &[(i64, u32)]) -> Answer {
    buyer.post("/api/reservations", &lines(of)).await
}

async fn reserve_with_key(buyer: &Client, of: &[(i64, u32)], key: &str) -> Answer {
    let request = buyer.request(Method::POST, "/api/reservations").json(&lines(of));
    Client::send(request.header("Idempotency-Key", key)).await
}

/// Items with units for ten orders each.
async fn items(instance: &Instance, count: usize) -> Vec<i64> {
    items_of(instance, count, 10).await
}

/// A shop with some settings changed, one instance, and [`items`].
async fn selling(count: usize, change: impl FnOnce(&mut Config)) -> (Shop, Instance, Vec<i64>) {
    let (shop, instance) = Shop::open_with(change).await;
    let items = items(&instance, count).await;
    (shop, instance, items)
}

/// Items of which each has this number of units.
async fn items_of(instance: &Instance, count: usize, stock: i64) -> Vec<i64> {
    instance.make_items(count, &json!({ "stock": stock, "per_buyer_limit": 4 })).await
}

/// A unit of each of these items.
fn one_of_each(items: &[i64]) -> Vec<(i64, u32)> {
    items.iter().map(|item| (*item, 1)).collect()
}

/// A time of an order.
fn instant(answer: &Answer, field: &str) -> OffsetDateTime {
    let text = answer.json[field].as_str().unwrap_or_else(|| panic!("{field}: {}", answer.text));
    OffsetDateTime::parse(text, &Rfc3339).expect("a time")
}

/// Units left of each item.
async fn left(instance: &Instance, items: &[i64]) -> Vec<i64> {
    let mut left = Vec::new();
    for item in items {
        left.push(available(instance, *item).await);
    }
    left
}

#[tokio::test]
async fn a_number_that_is_null_is_left_out_and_a_wrong_one_names_its_line() {
    let (_shop, instance) = Shop::open().await;
    let item = items(&instance, 1).await[0];
    let buyer = instance.buyer(1);
    let line = json!({ "item_id": item, "quantity": null, "ticket": null });
    let body = json!({ "lines": [line], "hold_seconds": null });
    let made = buyer.post("/api/reservations", &body).await;
    assert_eq!((made.status, &made.json["quantity"]), (201, &json!(1)), "{}", made.text);
    let extension = format!("/api/orders/{}/extension", order_id(&made));
    buyer.post(&extension, &json!({ "seconds": null })).await.expect_status(200);
    let refused = reserve(&buyer, &[(item, 0)]).await.expect_problem(422, "quantity_out_of_range");
    assert_eq!(refused.json["item_id"], item);
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn all_lines_are_one_order() {
    let (shop, instance, items) = selling(3, |_| {}).await;
    let buyer = instance.buyer(1);
    // The lines of the answer are in the order of the items.
    let made = reserve(&buyer, &[(items[2], 2), (items[0], 1), (items[1], 3)]).await;
    let order = order_id(&made);
    assert_eq!((made.status, &made.json["status"]), (201, &json!("pending")), "{}", made.text);
    let price = made.json["lines"][0]["amount_cents"].as_i64().expect("cents");
    let line = |item: i64, units: i64| json!({ "item_id": item, "quantity": units, "amount_cents": price * units });
    let expected = json!([line(items[0], 1), line(items[1], 3), line(items[2], 2)]);
    assert_eq!(made.json["lines"], expected);
    assert_eq!(made.json["amount_cents"], price * 6);
    assert_eq!((&made.json["item_id"], &made.json["quantity"]), (&json!(items[0]), &json!(1)));
    assert_eq!(left(&instance, &items).await, [9, 7, 8]);
    assert_eq!(buyer.get(&format!("/api/orders/{order}")).await.json["lines"], made.json["lines"]);
    // A single purchase is the same with one line.
    let single = buyer.buy("default", items[0]).await;
    assert_eq!(single.json["lines"], json!([line(items[0], 1)]), "{}", single.text);
    let listed = buyer.get("/api/orders").await.json;
    let ids: Vec<&Value> =
        listed["orders"].as_array().expect("a list").iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [&single.json["id"], &json!(order)], "a list shows whole orders");
    assert_eq!(listed["orders"][1]["lines"], made.json["lines"]);
    // Outside tools read the lines by the order's id.
    let read = "SELECT item_id, quantity FROM order_lines WHERE order_id = ? ORDER BY 1";
    let read = sqlx::query_as(read).bind(&order).fetch_all(&shop.pool).await;
    let seen: Vec<(i64, u32)> = read.expect("the view");
    assert_eq!(seen, [(items[0], 1), (items[1], 3), (items[2], 2)]);
    let single_id = order_id(&single);
    let of_single = format!("SELECT COUNT(*) FROM order_lines WHERE order_id = '{single_id}'");
    assert_eq!(shop.number(&of_single).await, 1);
    // A line has no order of its own.
    let of_line = format!("{}01", &order[..34]);
    buyer.get(&format!("/api/orders/{of_line}")).await.expect_problem(404, "order_not_found");
    let export = instance.admin().get("/api/admin/export?table=orders").await;
    let rows = export.text.lines().filter(|row| row.contains(&order)).count();
    assert_eq!(rows, 3, "a row for each line, with the order's id: {}", export.text);
    assert_all_clean(&instance, &items).await;
}

#[tokio::test]
async fn one_refused_line_refuses_all() {
    let (_shop, instance, items) = selling(2, |_| {}).await;
    let buyer = instance.buyer(1);
    let scarce = instance.make_item(json!({ "stock": 1, "per_buyer_limit": 4 })).await;
    let later = json!({ "starts_at": "2030-01-01T00:00:00Z", "ends_at": "2031-01-01T00:00:00Z" });
    let later = instance.make_item(later).await;
    let missing = 999_999;
    // One unit less, so that the limit of the item is reached before.
    assert_eq!(reserve(&buyer, &[(items[1], 2)]).await.status, 201);
    for (refused, problem) in [
        ((scarce, 2), (409, "sold_out")),
        ((items[1], 3), (409, "limit_reached")),
        ((items[1], 5), (422, "quantity_over_limit")),
        ((later, 1), (409, "sale_not_started")),
        ((missing, 1), (404, "item_not_found")),
    ] {
        let answer = reserve(&buyer, &[(items[0], 1), refused]).await;
        assert_problem(&answer, problem, "a cart");
        assert_eq!(answer.json["item_id"], refused.0, "{}", answer.text);
        assert_eq!(answer.json["outcome"], "none");
    }
    assert_eq!(left(&instance, &[items[0], items[1], scarce]).await, [10, 8, 1]);
    assert_eq!(buyer.get("/api/orders").await.json["orders"].as_array().map(Vec::len), Some(1));
    assert_all_clean(&instance, &[items[0], items[1], scarce]).await;
}

#[tokio::test]
async fn lines_of_one_group_are_counted_together() {
    let (_shop, instance) = Shop::open().await;
    let group = instance.make_group(3).await;
    let body = json!({ "stock": 10, "per_buyer_limit": 4, "limit_group_id": group });
    let items = instance.make_items(2, &body).await;
    let buyer = instance.buyer(1);
    let refused = reserve(&buyer, &[(items[0], 2), (items[1], 2)]).await;
    assert_problem(&refused, (409, "group_limit_reached"), "four of three");
    assert_eq!(reserve(&buyer, &[(items[0], 2), (items[1], 1)]).await.status, 201);
    reserve(&buyer, &[(items[1], 1)]).await.expect_problem(409, "group_limit_reached");
    assert_all_clean(&instance, &items).await;
}

#[tokio::test]
async fn bad_lines_are_refused_before_anything_is_asked() {
    let (_shop, instance) = Shop::open().await;
    let buyer = instance.buyer(1);
    let too_many: Vec<(i64, u32)> = (1..=17).map(|item| (item, 1)).collect();
    for (body, code) in [
        (lines(&[]), "lines_out_of_range"),
        (lines(&too_many), "lines_out_of_range"),
        (lines(&[(1, 1), (2, 1), (1, 2)]), "duplicate_item"),
        (lines(&[(1, 0)]), "quantity_out_of_range"),
        (lines(&[(0, 1)]), "out_of_range"),
        (json!({}), "missing_field"),
        (json!({ "lines": [{ "quantity": 1 }] }), "missing_field"),
        (json!({ "lines": [{ "item_id": 1, "price": 1 }] }), "unknown_field"),
        (json!({ "lines": "1" }), "invalid_type"),
        (json!({ "lines": [{ "item_id": 1 }], "hold_seconds": 0 }), "out_of_range"),
        (json!({ "lines": [{ "item_id": 1 }], "hold_seconds": 86_401 }), "out_of_range"),
        (json!({ "lines": [{ "item_id": 1 }], "hold_seconds": 4_294_967_295_u32 }), "out_of_range"),
    ] {
        let answer = buyer.post("/api/reservations", &body).await;
        assert_problem(&answer, (422, code), &body.to_string());
    }
}

#[tokio::test]
async fn the_shortest_hold_is_that_of_the_order() {
    let (_shop, instance, long) = Shop::selling(json!({ "hold_seconds": 900 })).await;
    let short = instance.make_item(json!({ "hold_seconds": 600 })).await;
    let hold = |answer: &Answer| {
        (instant(answer, "expires_at") - instant(answer, "created_at")).whole_seconds()
    };
    let mut body = lines(&[(long, 1), (short, 1)]);
    assert_eq!(hold(&instance.buyer(1).post("/api/reservations", &body).await), 600);
    for (seconds, held) in [(60, 60), (700, 600)] {
        body["hold_seconds"] = json!(seconds);
        assert_eq!(hold(&instance.buyer(seconds).post("/api/reservations", &body).await), held);
    }
}

#[tokio::test]
async fn a_key_is_one_cart() {
    let (_shop, instance, items) = selling(3, |_| {}).await;
    let buyer = instance.buyer(1);
    let cart = [(items[0], 1), (items[1], 2)];
    let made = reserve_with_key(&buyer, &cart, "k").await;
    let order = order_id(&made);
    let again = reserve_with_key(&buyer, &[cart[1], cart[0]], "k").await;
    assert_eq!((again.status, order_id(&again)), (201, order.clone()), "{}", again.text);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(again.json["lines"], made.json["lines"]);
    for other in [
        &[(items[0], 1), (items[1], 1)][..],
        &[(items[0], 1)],
        &[(items[1], 2), (items[2], 1)],
        &[(items[0], 1), (items[1], 2), (items[2], 1)],
    ] {
        let reused = reserve_with_key(&buyer, other, "k").await;
        assert_problem(&reused, (422, "idempotency_key_reused"), "other lines");
        assert_eq!(reused.json["order_id"], order, "{}", reused.text);
    }
    // A single purchase with the key of a line is not that line.
    for strategy in ["mysql-atomic", "mysql-batch", "redis-lua"] {
        let reused = buyer.buy_with_key(strategy, items[0], "k").await;
        assert_problem(&reused, (422, "idempotency_key_reused"), strategy);
    }
    // And a cart with the key of a single purchase is not that one.
    let single = buyer.buy_with_key("mysql-atomic", items[2], "single").await;
    let reused = reserve_with_key(&buyer, &[(items[0], 1), (items[2], 1)], "single").await;
    assert_problem(&reused, (422, "idempotency_key_reused"), "a cart");
    assert_eq!(reused.json["order_id"], single.json["id"]);
    // One line is a single purchase.
    let one = reserve_with_key(&buyer, &[(items[2], 1)], "single").await;
    assert_eq!(order_id(&one), order_id(&single));
    // A retry finds its order when nothing is left any more.
    instance.admin().edit(items[0], json!({ "paused": true })).await;
    let paused = || async { reserve(&instance.buyer(2), &cart).await };
    until("a paused sale", paused, |other| other.code() == "sale_paused").await;
    let again = reserve_with_key(&buyer, &cart, "k").await;
    assert_eq!((again.status, order_id(&again)), (201, order), "{}", again.text);
    assert_eq!(again.json["lines"], made.json["lines"]);
    let reused = reserve_with_key(&buyer, &[(items[0], 1), (items[1], 1)], "k").await;
    assert_problem(&reused, (422, "idempotency_key_reused"), "other lines of a paused sale");
    assert_all_clean(&instance, &items).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_sent_twenty_times_at_once_is_one_order() {
    let (shop, instance) = Shop::open().await;
    let beside = shop.start().await;
    let items = items(&instance, 3).await;
    let cart = one_of_each(&items);
    let clients = [instance.buyer(1), beside.buyer(1)];
    let sent = (0..20).map(|number| reserve_with_key(&clients[number % 2], &cart, "k"));
    let answers = join_all(sent).await;
    let made: BTreeSet<String> =
        answers.iter().filter(|one| one.status == 201).map(order_id).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        assert_problem(answer, (409, "request_in_progress"), "beside the first");
    }
    assert_eq!(shop.number("SELECT COUNT(*) FROM orders").await, 3);
    assert_all_clean(&instance, &items).await;
}

/// The first request commits after one line of the second was looked up, and before the other was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_that_is_committed_between_two_looks_is_replayed() {
    let (shop, instance, items) = selling(2, |config| {
        config.mysql.lock_wait_timeout_seconds = 30;
        config.purchase.deadline_ms = 60_000;
        config.purchase.wait_ms_max = 60_000;
    })
    .await;
    let send = || {
        let buyer = instance.buyer(1);
        let cart = [(items[0], 1), (items[1], 1)];
        tokio::spawn(async move { reserve_with_key(&buyer, &cart, "k").await })
    };
    let holder = hold_stock_row(&shop.pool, items[0]).await;
    let first = send();
    // One for each line.
    until_in_flight(&instance, 2).await;
    let director = Director::of(&items);
    let second = send();
    let arrival = async |item: i64, name: &str| {
        tokio::time::timeout(BOUND, director.arrival(item, name)).await.expect("it is looked up");
    };
    arrival(items[0], "line-asked").await;
    arrival(items[1], "line-asked").await;
    director.release(items[0]);
    arrival(items[0], "line-answered").await;
    holder.rollback().await.expect("the row is free");
    let first = first.await.expect("no panic");
    let order = order_id(&first);
    drop(director);
    let second = second.await.expect("no panic");
    assert_eq!((second.status, order_id(&second)), (201, order), "{}", second.text);
    assert_eq!(second.headers["idempotency-replayed"], "true");
    assert_eq!(second.json["lines"], first.json["lines"]);
    assert_all_clean(&instance, &items).await;
}

/// A half order is planted in each way, and the audit of each of its items finds it.
#[tokio::test]
async fn the_audit_names_half_an_order() {
    let (shop, instance, items) = selling(2, |_| {}).await;
    let halves = [
        "DELETE FROM orders WHERE id = CONCAT(LEFT(?, 34), '01')",
        "UPDATE orders SET status = 'paid' WHERE id = CONCAT(LEFT(?, 34), '01')",
        "UPDATE orders SET line_count = 3 WHERE id = ?",
        "UPDATE orders SET line_count = NULL WHERE id = CONCAT(LEFT(?, 34), '01')",
        "DELETE FROM stock_movements WHERE order_id = CONCAT(LEFT(?, 34), '01')",
    ];
    for half in halves {
        let made = reserve(&instance.buyer(1), &[(items[0], 1), (items[1], 1)]).await;
        let order = order_id(&made);
        assert_all_clean(&instance, &items).await;
        let is_halved = async |item: i64| instance.broken(item).await.contains(&"I20".to_owned());
        assert!(!is_halved(items[0]).await);
        shop.change(sqlx::query(half).bind(&order)).await;
        assert!(is_halved(items[0]).await, "{half}");
        // The ledger is as before.
        for table in ["stock_movements WHERE order_id", "orders WHERE id"] {
            let delete = format!("DELETE FROM {table} LIKE CONCAT(LEFT(?, 34), '%')");
            shop.change(sqlx::query(&delete).bind(&order)).await;
        }
        for restore in ["UPDATE stock SET available = 10", "UPDATE buyer_limits SET bought = 0"] {
            shop.change(sqlx::query(restore)).await;
        }
    }
}

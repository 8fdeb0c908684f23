//! Currencies: each item has one, an order has one, and money of another pays nothing.

use shop_domain::Currency;

use super::exports::{import, records};
use crate::support::prelude::*;

const LATER: &str = "2030-01-01T00:00:00Z";

async fn item_in(instance: &Instance, currency: &str) -> i64 {
    instance.make_item(json!({ "stock": 9, "currency": currency, "per_buyer_limit": 5 })).await
}

async fn currency_of(instance: &Instance, item: i64) -> Value {
    instance.stranger().get(&format!("/api/items/{item}")).await.json["currency"].clone()
}

#[tokio::test]
async fn an_order_is_in_the_currency_of_its_item_wherever_it_is_told() {
    let (_shop, instance) = Shop::open_with(|config| {
        config.events.enabled = true;
        config.sections.set("events", "poll_ms", 20);
    })
    .await;
    let (yen, dollars) = (item_in(&instance, "JPY").await, instance.make_item(json!({})).await);
    assert_eq!(currency_of(&instance, yen).await, "JPY");
    assert_eq!(currency_of(&instance, dollars).await, "USD", "that of the shop");
    let buyer = instance.buyer(1);
    for strategy in ["mysql-atomic", "mysql-batch", "lock-redis", "redis-stream"] {
        let bought = buyer.buy(strategy, yen).await;
        assert_eq!(bought.json["currency"], "JPY", "{strategy}: {}", bought.text);
        let path = format!("/api/orders/{}", order_id(&bought));
        assert_eq!(buyer.get(&path).await.json["currency"], "JPY", "{strategy}");
    }
    let cart = json!({ "lines": [{ "item_id": dollars }] });
    let reserved = buyer.post("/api/reservations", &cart).await;
    assert_eq!(reserved.json["currency"], "USD", "{}", reserved.text);
    let listed = buyer.get("/api/orders").await.json;
    let currency = |order: &Value| order["currency"].as_str().expect("a code").to_owned();
    let listed = listed["orders"].as_array().expect("a list").iter();
    assert_eq!(listed.map(currency).collect::<Vec<_>>(), ["USD", "JPY", "JPY", "JPY", "JPY"]);

    assert_eq!(buyer.step(&order_id(&reserved), "cancellation").await.json["currency"], "USD");
    eventually("all changes in the log", || async {
        let log = instance.admin().get("/api/admin/events").await.json;
        let orders = log["events"].as_array().expect("a list").iter();
        let orders = orders.flat_map(|event| event["data"]["orders"].as_array().expect("orders"));
        let brief = |order: &Value| format!("{} {}", order["item_id"], currency(order));
        let orders: Vec<String> = orders.map(brief).collect();
        let count = |item: i64, code: &str| {
            orders.iter().filter(|it| **it == format!("{item} {code}")).count()
        };
        when((count(yen, "JPY"), count(dollars, "USD"), orders.len()) == (4, 2, 6), orders)
    })
    .await;

    // Sums are by currency, and what cannot be added has no sum.
    let all = records(&instance, "table=orders").await;
    let sums = all.iter().filter(|it| it["record"] == "sum");
    let mut sums: Vec<_> =
        sums.map(|it| (currency(it), it["amount_cents"].as_i64().expect("a sum"))).collect();
    sums.sort();
    assert_eq!(sums, [("JPY".to_owned(), 1_000), ("USD".to_owned(), 250)]);
    let total = all.last().expect("a total");
    assert_eq!((&total["count"], &total["amount_cents"]), (&json!(5), &Value::Null));
    let mut orders = all.iter().filter(|it| it["record"] == "order");
    assert!(orders.all(|it| it["currency"].is_string()), "{all:?}");
    let of_one = records(&instance, &format!("table=orders&item={yen}")).await;
    let total = of_one.last().expect("a total");
    assert_eq!((&total["amount_cents"], &total["currency"]), (&json!(1_000), &json!("JPY")));
    let sales = instance.admin().get("/api/admin/export?table=sales").await.text;
    assert!(sales.lines().next().expect("a head").contains(",currency,"), "{sales}");
    assert!(sales.lines().nth(1).expect("a sale").contains(",JPY,"), "{sales}");
    assert_all_clean(&instance, &[yen, dollars]).await;
}

#[tokio::test]
async fn only_a_currency_of_the_standard_is_taken_and_it_stays_once_there_are_orders() {
    let (_shop, instance) = Shop::open().await;
    let admin = instance.admin();
    for wrong in ["usd", "EURO", "XAU", "ABC", ""] {
        let body = item_body(json!({ "currency": wrong }));
        let refused = admin.post("/api/admin/items", &body).await;
        assert_problem(&refused, (422, "invalid_currency"), wrong);
    }
    let table = "name,price_cents,stock,starts_at,ends_at,currency\n\
        Lamp,250,1,2026-01-01T00:00:00Z,2099-01-01T00:00:00Z,CHF\n\
        Mug,250,1,2026-01-01T00:00:00Z,2099-01-01T00:00:00Z,\n\
        Cup,250,1,2026-01-01T00:00:00Z,2099-01-01T00:00:00Z,FRANCS\n";
    assert_eq!(import(&admin, "", table).await.json["faults"][0]["column"], "currency");
    let right: Vec<&str> = table.lines().take(3).collect();
    let made = import(&admin, "", &right.join("\n")).await.json;
    let of =
        async |at: usize| currency_of(&instance, made["items"][at].as_i64().expect("an id")).await;
    assert_eq!((of(0).await, of(1).await), (json!("CHF"), json!("USD")));
    // An order has one currency.
    let lines = [&made["items"][0], &made["items"][1]].map(|item| json!({ "item_id": item }));
    let buyer = instance.buyer(1);
    let mixed = buyer.post("/api/reservations", &json!({ "lines": lines })).await;
    assert_problem(&mixed, (409, "other_currency"), "a cart");
    mixed.assert_fields(409, json!({ "item_id": made["items"][1], "outcome": "none" }));
    assert_eq!(buyer.get("/api/orders").await.json["orders"], json!([]), "nothing is kept");
    for line in &lines {
        assert_clean(&instance, line["item_id"].as_i64().expect("an id")).await;
    }
    // Items of one currency can be one order, also of another currency than the shop's.
    let items = [item_in(&instance, "EUR").await, item_in(&instance, "EUR").await];
    let lines = items.map(|item| json!({ "item_id": item }));
    let euros = buyer.post("/api/reservations", &json!({ "lines": lines })).await;
    euros.assert_fields(201, json!({ "currency": "EUR" }));
    assert_all_clean(&instance, &items).await;

    let later = json!({ "stock": 9, "starts_at": LATER, "ends_at": "2031-01-01T00:00:00Z" });
    let item = instance.make_item(later).await;
    let change = async |currency: &str| admin.edit(item, json!({ "currency": currency })).await;
    assert_eq!(change("KWD").await.json["currency"], "KWD");
    assert_problem(&change("gold").await, (422, "invalid_currency"), "no currency");
    // The sale begins, and somebody buys.
    assert_eq!(admin.edit(item, json!({ "starts_at": "2026-01-01T00:00:00Z" })).await.status, 200);
    assert_problem(&change("USD").await, (409, "currency_fixed"), "the sale has begun");
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201);
    // It is put off, but the order stays.
    assert_eq!(admin.edit(item, json!({ "starts_at": LATER })).await.status, 200);
    assert_problem(&change("USD").await, (409, "currency_fixed"), "there is an order");
    assert_eq!(change("KWD").await.status, 200, "it is the same");
    assert_eq!(currency_of(&instance, item).await, "KWD");
}

#[tokio::test]
async fn a_payment_is_in_the_currency_of_the_order_or_goes_back() {
    let provider = TestProvider::start().await;
    let (_shop, instance) = Shop::open_with(|config| {
        let page = "https://pay.example/?order={order}&amount={amount_cents}&currency={currency}";
        provider.configure(config, page);
        config.payment.currency = "CHF".to_owned();
    })
    .await;
    let item = item_in(&instance, "KWD").await;
    let buyer = instance.buyer(1);
    let order = order_id(&buyer.buy("mysql-atomic", item).await);
    let url = format!("https://pay.example/?order={order}&amount=250&currency=KWD");
    assert_eq!(buyer.step(&order, "payment").await.json["checkout_url"], url);
    let say = async |kind: &str, payment: &str, currency: Option<&str>| {
        let body = json!({
            "type": kind, "payment": payment, "order": order, "amount_cents": 250, "currency": currency,
        });
        let id = format!("{kind}-{payment}-{}", currency.unwrap_or("none"));
        let message = provider.message(&id, &body.to_string());
        let said = message.send(&instance).await.json;
        (said["result"].clone(), said["reason"].clone())
    };
    let wrong = (json!("refund_wanted"), json!("wrong_currency"));
    // Without one it is the shop's.
    for (payment, currency) in [("p-usd", Some("USD")), ("p-xyz", Some("xyz")), ("p-none", None)] {
        assert_eq!(say("payment.succeeded", payment, currency).await, wrong, "{payment}");
        let order = buyer.get(&format!("/api/orders/{order}")).await.json;
        assert_eq!(order["status"], "pending", "{payment}");
    }
    assert_eq!(say("payment.succeeded", "p-kwd", Some("kwd")).await.0, "paid");
    assert_eq!(say("refund.succeeded", "p-kwd", Some("CHF")).await.0, "unchanged");
    assert_eq!(say("refund.succeeded", "p-kwd", Some("KWD")).await.0, "refunded");
    let listed = instance.admin().get("/api/admin/payments").await.json;
    let listed = listed["payments"].as_array().expect("a list").iter();
    let listed: Vec<_> = listed.map(|it| &it["currency"]).collect();
    // In the sequence of their ids.
    assert_eq!(listed, ["KWD", "CHF", "USD", "XYZ"]);
    assert_clean(&instance, item).await;
}

#[test]
fn the_pages_count_minor_units_as_the_service_does() {
    let file = include_str!("../../static/js/format.js");
    let table = file.split("MINOR_DIGITS = {").nth(1).and_then(|rest| rest.split('}').next());
    let entries = table.expect("a table").split(',').filter_map(|it| it.trim().split_once(": "));
    let entry =
        |(code, digits): (&str, &str)| (code.to_owned(), digits.parse::<u16>().expect("a number"));
    let mut listed: Vec<(String, u16)> = entries.map(entry).collect();
    let letters = || (b'A'..=b'Z').map(char::from);
    let codes = letters()
        .flat_map(|a| letters().flat_map(move |b| letters().map(move |c| format!("{a}{b}{c}"))));
    let currencies: Vec<Currency> = codes.filter_map(|code| Currency::parse(&code)).collect();
    assert!(currencies.len() > 150, "{} currencies", currencies.len());
    let others = currencies.into_iter().map(|it| (it.to_string(), it.minor_digits()));
    let mut others: Vec<(String, u16)> = others.filter(|(_, digits)| *digits != 2).collect();
    others.sort();
    listed.sort();
    assert_eq!(listed, others);
}

//! The pages in a real browser, against a real service: what buyers and operators do.

mod access;
mod account;
mod adopt;
mod cart;
mod changes;
mod console;
mod draw;
mod driver;
mod foreign;
mod forms;
mod free;
mod lab;
mod looks;
mod outcomes;
mod plain_http;
mod play;
mod products;
mod shop;
mod silent;
mod waiting;

use driver::{CHINESE_PHONE, DESKTOP, Look, PHONE, Page, signed_in};
use thirtyfour::Key;
use time::Duration;

use crate::support::prelude::*;

/// Makes a sale of the shop that is open now; `changes` replaces fields of the request.
async fn make_sale(instance: &Instance, changes: Value) -> i64 {
    let sale = json!({
        "kind": "shop",
        "name": "Aurora desk lamp",
        "description": "A lamp that wakes up before you do: forty shades of morning, one dial.",
        "image_url": "/img/goods/lamp.svg",
        "price_cents": 4_900,
        "strategy": "mysql-atomic",
    });
    instance.make_item(changed(sale, changes)).await
}

/// A shop with one instance, and a sale as [`make_sale`] makes it.
async fn selling(changes: Value) -> (Shop, Instance, i64) {
    let (shop, instance) = Shop::open().await;
    let item = make_sale(&instance, changes).await;
    (shop, instance, item)
}

/// The instant `seconds` from now, as requests write it.
fn in_seconds(seconds: i64) -> String {
    web::problem::rfc3339(OffsetDateTime::now_utc() + Duration::seconds(seconds))
}

/// The orders of a buyer in the ledger.
async fn orders_of(instance: &Instance, buyer: i64) -> Vec<Value> {
    let answer = instance.buyer(buyer).get("/api/orders").await;
    answer.json["orders"].as_array().expect("a list").clone()
}

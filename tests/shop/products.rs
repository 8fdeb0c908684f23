//! Products: several items on one page of the shop, each sold for itself.

use crate::support::prelude::*;

async fn product(instance: &Instance) -> i64 {
    let body =
        json!({ "name": "Shirt", "description": "Cotton.", "image_url": "/img/goods/lamp.svg" });
    let made = instance.admin().post("/api/admin/products", &body).await.expect_status(201);
    made.json["id"].as_i64().expect("an id")
}

fn options(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// The ids and the units of the variants that the shop shows.
async fn variants(instance: &Instance, product: i64) -> Vec<(i64, i64)> {
    let shown =
        instance.stranger().get(&format!("/api/products/{product}")).await.expect_status(200);
    let items = shown.json["items"].as_array().expect("a list").iter();
    let number = |item: &Value, field: &str| item[field].as_i64().expect("a number");
    items.map(|item| (number(item, "id"), number(item, "available"))).collect()
}

#[tokio::test]
async fn a_product_shows_its_variants_and_each_is_sold_for_itself() {
    let (_shop, instance) = Shop::open().await;
    let shirt = product(&instance).await;
    let log = instance.admin().get("/api/admin/actions").await.text;
    assert!(log.contains("product_created"), "{log}");
    let of = |size: &str| json!({ "stock": 3, "kind": "shop", "strategy": "mysql-batch", "product_id": shirt, "options": options(&[("Size", size), ("Colour", "red")]) });
    let (small, large) = (instance.make_item(of("S")).await, instance.make_item(of("L")).await);
    let alone = instance.make_item(json!({ "kind": "shop", "strategy": "mysql-batch" })).await;
    assert_eq!(variants(&instance, shirt).await, [(small, 3), (large, 3)]);
    let seen = instance.stranger().get(&format!("/api/items/{large}")).await.json;
    let expected = json!({
        "id": shirt, "name": "Shirt", "description": "Cotton.", "image_url": "/img/goods/lamp.svg",
        "options": options(&[("Size", "L"), ("Colour", "red")]),
    });
    assert_eq!(seen["product"], expected);
    let listed = instance.stranger().get("/api/items").await.json;
    let items = listed["items"].as_array().expect("a list").iter();
    let products: Vec<_> = items.map(|item| (&item["id"], &item["product"]["id"])).collect();
    assert_eq!(products.len(), 3);
    assert!(products.contains(&(&json!(alone), &Value::Null)), "{products:?}");

    let buyer = instance.buyer(1);
    assert_eq!(buyer.buy("default", small).await.status, 201);
    let lines = json!({ "lines": [{ "item_id": large, "quantity": 1 }] });
    assert_eq!(buyer.post("/api/reservations", &lines).await.status, 201);
    assert_eq!(variants(&instance, shirt).await, [(small, 2), (large, 2)]);

    // An item leaves its product, and comes back with other options.
    let admin = instance.admin();
    let left = admin.edit(large, json!({ "product_id": 0 })).await;
    assert_eq!((left.status, &left.json["product"]), (200, &Value::Null), "{}", left.text);
    assert_eq!(variants(&instance, shirt).await, [(small, 2)]);
    let back = json!({ "product_id": shirt, "options": options(&[("Size", "XL")]) });
    let back = admin.edit(large, back).await;
    assert_eq!(back.json["product"]["options"], options(&[("Size", "XL")]));
    let other = admin.edit(large, json!({ "paused": false })).await;
    assert_eq!(other.json["product"], back.json["product"], "another edit leaves it");
    assert_eq!(variants(&instance, shirt).await, [(small, 2), (large, 2)]);
    assert_all_clean(&instance, &[small, large, alone]).await;
}

#[tokio::test]
async fn what_is_no_variant_is_refused() {
    let (_shop, instance) = Shop::open().await;
    let shirt = product(&instance).await;
    let admin = instance.admin();
    let long = "x".repeat(51);
    let many = [("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), ("e", "1")];
    let wrong: [(i64, Value, (u16, &str)); 7] = [
        (99, json!([]), (404, "product_not_found")),
        (-1, json!([]), (404, "product_not_found")),
        (0, options(&[("Size", "S")]), (422, "invalid_variant")),
        (shirt, options(&[("Size", "")]), (422, "invalid_variant")),
        (shirt, options(&[("Size", &long)]), (422, "invalid_variant")),
        (shirt, options(&[("Size", "S"), ("Size", "M")]), (422, "invalid_variant")),
        (shirt, options(&many), (422, "invalid_variant")),
    ];
    let item = instance.make_item(json!({})).await;
    for (product, options, problem) in wrong {
        let variant = json!({ "product_id": product, "options": options });
        let made = admin.post("/api/admin/items", &item_body(variant.clone())).await;
        assert_problem(&made, problem, &variant.to_string());
        assert_problem(&admin.edit(item, variant.clone()).await, problem, &variant.to_string());
    }
    let nameless = admin.post("/api/admin/products", &json!({ "name": " " })).await;
    assert_problem(&nameless, (422, "invalid_text"), "no name");
    instance.stranger().get("/api/products/99").await.expect_problem(404, "product_not_found");
}

//! A product is one entry of the list, and one page with its variants.

use super::access::walk_to;
use super::*;

async fn shirts(instance: &Instance) -> Vec<i64> {
    let body = json!({
        "name": "Harbour shirt", "description": "Heavy cotton, dyed in the yard.",
        "image_url": "/img/goods/watch.svg",
    });
    let product = instance.admin().post("/api/admin/products", &body).await.json["id"].clone();
    let mut items = Vec::new();
    for (size, colour, stock, yen) in
        [("S", "red", 0, 3_900), ("M", "red", 12, 3_900), ("L", "navy blue", 3, 4_500)]
    {
        let options =
            json!([{ "name": "Size", "value": size }, { "name": "Colour", "value": colour }]);
        let sale = json!({
            "name": format!("Harbour shirt, {size}, {colour}"), "description": "", "image_url": null,
            "stock": stock, "price_cents": yen, "currency": "JPY", "product_id": product, "options": options,
        });
        items.push(make_sale(instance, sale).await);
    }
    items
}

#[tokio::test]
async fn the_list_shows_a_product_once_and_its_page_leads_to_each_variant() {
    let (_shop, instance) = Shop::open().await;
    let items = shirts(&instance).await;
    let lamp = make_sale(&instance, json!({ "currency": "KWD", "price_cents": 12_345 })).await;
    let page = Page::of_buyer(&instance, DESKTOP, 77, "/").await;
    page.until_text("#list-open", "Harbour shirt").await;
    let cards = "return document.querySelectorAll('.card:not(.skeleton)').length";
    assert_eq!(page.run(cards).await, json!(2), "a card for the product, one for the lamp");
    page.until_text("#list-open", "15 of 15 left").await;
    page.until_text("#list-open", "from ¥3,900").await;
    page.until_text("#list-open", "12.345").await;
    // The lowest price of each currency.
    let product =
        instance.stranger().get(&format!("/api/items/{}", items[0])).await.json["product"]["id"]
            .clone();
    let euro = json!({ "currency": "EUR", "price_cents": 2_900, "product_id": product });
    make_sale(&instance, euro).await;
    page.visit_until("/", "#list-open", "from ¥3,900 · €29.00").await;
    let to_cart = "document.querySelector('[data-card^=product] .to-cart').hidden";
    page.until("a variant to be chosen on its page", to_cart).await;
    // The address of the product leads to a variant that can be bought.
    page.visit(&format!("/item.html?product={product}")).await;
    page.until("a variant", &format!("location.search === '?id={}'", items[1])).await;
    page.until_text("#name", "Harbour shirt").await;
    page.until_text("#options", "Size: M · Colour: red").await;
    page.until_text("#variants", "3 left").await;
    page.until_text("#variants", "Sold out").await;
    page.until_text("#variants", "¥4,500").await;
    page.until_text("#buy", "Buy for ¥3,900").await;
    // By keyboard to the third variant, and its unit is bought.
    walk_to(&page, &format!(".variant[href$='={}']", items[2])).await;
    page.press(Key::Enter).await;
    page.until_text("#options", "Size: L · Colour: navy blue").await;
    page.until_text("#buy", "Buy for ¥4,500").await;
    page.click_until("#buy", "#outcome", "Pay ¥4,500").await;
    page.until_text("#variants", "2 left").await;
    page.visit_until(&format!("/item.html?id={lamp}"), "#price", "12.345").await;
    page.until("no variants", "document.getElementById('variants').hidden").await;
    page.close().await;

    let item = format!("/item.html?id={}", items[2]);
    for (name, look, left) in [
        ("phone-dark", Look { dark: true, ..PHONE }, "2 left"),
        ("chinese", Look { language: "zh-CN", ..PHONE }, "剩 2 件"),
    ] {
        let page = Page::open(instance.addr, look).await;
        for (what, path, shown, words) in
            [("index", "/", "#list-open", "Harbour"), ("item", &*item, "#variants", left)]
        {
            page.visit_until(path, shown, words).await;
            page.assert_suits_everyone(&format!("{name} {what}")).await;
        }
        page.close().await;
    }
}

/// A line that breaks does not make a product one that does not exist.
#[tokio::test]
async fn a_product_that_could_not_be_loaded_is_asked_for_again() {
    let (_shop, instance) = Shop::open().await;
    let items = shirts(&instance).await;
    let item = instance.stranger().get(&format!("/api/items/{}", items[1])).await;
    let product = item.json["product"]["id"].clone();
    let page = Page::open(instance.addr, DESKTOP).await;
    let lose = "const sent = window.fetch; \
         window.fetch = async (path, options) => { \
           const isLost = String(path).startsWith('/api/products/') \
             && sessionStorage.getItem('mended') === null; \
           if (isLost) throw new TypeError('lost'); \
           return sent(path, options); };";
    page.before_scripts(lose).await;
    page.visit(&format!("/item.html?product={product}")).await;
    page.until_text("#notice", "could not be loaded").await;
    page.until("no other word", "document.getElementById('missing').hidden").await;
    page.run("sessionStorage.setItem('mended', 'yes')").await;
    page.until("a variant", &format!("location.search === '?id={}'", items[1])).await;
    page.until_text("#name", "Harbour shirt").await;
    // What the service does not know is told.
    page.visit_until("/item.html?product=1", "#missing", "This item does not exist").await;
    page.close_but_for(&["/api/products/1 - Failed to load resource"]).await;
}

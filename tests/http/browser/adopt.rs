//! The shop as a part of another one: accounts of a provider, payments elsewhere, files.

use super::*;
use crate::support::identity_provider::serve_at;
use crate::support::webhook_receiver::TestReceiver;

#[tokio::test]
async fn a_buyer_of_the_provider_signs_in_waits_buys_and_pays_and_the_back_office_learns_it() {
    let identity = TestIdentityProvider::start(vec![TestKey::rsa("rsa-1")]).await;
    let payments = TestProvider::start().await;
    let receiver = TestReceiver::start().await;
    let (_shop, instance) = Shop::open_with(|config| {
        identity.configure(config);
        serve_at(config);
        config.events.enabled = true;
        config.sections.set("events", "poll_ms", 50);
        config.sections.set("events", "private_networks", "127.0.0.1");
        payments.configure(config, &payments.checkout_url());
        config.sections.set("payment", "refund_url", payments.refund_url());
    })
    .await;
    payments.serve_buyers_of(instance.addr);
    let endpoint = json!({ "target": receiver.url() });
    let created = instance.admin().post("/api/admin/endpoints", &endpoint).await;
    receiver.expect_secret(created.json["secret"].as_str().expect("a secret"));
    let item = make_sale(&instance, json!({ "stock": 1, "offer_seconds": 600 })).await;

    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_until(&format!("/item.html?id={item}"), "#buy", "Sign in to buy").await;
    page.click_until("#buy", "#provider-link", "Sign in with Example ID").await;
    page.click("#provider-link").await;
    // The provider's own page, on another address.
    page.until_there("#who").await;
    page.fill("#who", "ada lovelace").await;
    page.click("#in").await;
    page.until("the way back", &format!("location.search === '?id={item}'")).await;
    page.until_text("#account", "ada lovelace").await;
    page.until_text("#buy", "Buy for $49.00").await;
    // Another buyer is quicker, and gives the unit back when this one waits for it.
    let quicker = order_id(&instance.buyer(99).buy("default", item).await);
    page.until_text("#waiting", "Wait for a unit").await;
    page.click_until("#waiting .button", "#waiting", "You are first").await;
    instance.buyer(99).step(&quicker, "cancellation").await.expect_status(200);
    page.until_text("#waiting", "held for you").await;
    page.click_until("#waiting .button", "#outcome", "It’s yours").await;
    page.click_until("#outcome a", "#status", "Held for you").await;
    page.click("#pay").await;
    page.until_there("#pay-now").await;
    page.click_until("#pay-now", "#status", "Paid").await;

    assert_eq!(payments.answers(), ["invalid_signature", "refund_wanted", "paid", "unchanged"]);
    let statuses = eventually("the events", || async {
        let events = receiver.distinct_events();
        let orders = events.iter().flat_map(|event| event["data"]["orders"].as_array().cloned());
        let statuses: Vec<_> = orders.flatten().map(|order| order["status"].clone()).collect();
        let expected = ["pending", "cancelled", "pending", "paid"].map(|status| json!(status));
        when(statuses == expected, statuses)
    })
    .await;
    assert_eq!(statuses.len(), 4);
    until("the refund", || async { payments.refunds() }, |refunds| *refunds == ["p-wrong"]).await;

    // Signing out, and in again as the same buyer.
    page.click_until("#account button", "#account", "Sign in").await;
    page.visit("/signin.html?return=%2Forders.html").await;
    page.click("#provider-link").await;
    page.until_there("#who").await;
    page.fill("#who", "ada lovelace").await;
    page.click_until("#in", "#list", "Aurora desk lamp").await;
    page.close_but_for(&["favicon.ico"]).await;
}

#[tokio::test]
async fn the_page_of_sign_in_says_what_went_wrong_and_suits_everyone() {
    let identity = TestIdentityProvider::start(vec![TestKey::ed("ed-1")]).await;
    let (mut shop, instance) = Shop::open_with(|config| {
        identity.configure(config);
        serve_at(config);
    })
    .await;
    let chinese = Look { language: "zh-CN", ..DESKTOP };
    let dark = Look { dark: true, ..PHONE };
    for (name, look, said) in [
        ("light", DESKTOP, "The sign-in was not confirmed"),
        ("phone-dark", dark, "The sign-in was not confirmed"),
        ("chinese", chinese, "登录未获确认"),
    ] {
        let page = Page::open(instance.addr, look).await;
        page.visit("/signin.html").await;
        page.until_there("#provider:not([hidden])").await;
        // By keyboard: the button of the provider comes before the form.
        page.run("document.getElementById('main').focus()").await;
        page.press(Key::Tab).await;
        page.until("the focus", "document.activeElement.id === 'provider-link'").await;
        page.press(Key::Enter).await;
        page.until_there("#who").await;
        page.fill("#who", "nobody").await;
        page.click_until("#in", "#notice", said).await;
        page.until_there("#provider:not([hidden])").await;
        page.assert_suits_everyone(name).await;
        page.close_but_for(&["favicon.ico"]).await;
    }
    instance.stop().await;
    shop.config.session.own_accounts = false;
    serve_at(&mut shop.config);
    let instance = shop.start().await;
    let page = Page::open(instance.addr, PHONE).await;
    page.visit("/signin.html").await;
    page.until_there("#provider:not([hidden])").await;
    page.until("no form", "!document.getElementById('form').checkVisibility()").await;
    page.close().await;
}

#[tokio::test]
async fn an_operator_exports_and_imports_files() {
    let (_shop, instance, item) = selling(json!({ "stock": 5 })).await;
    instance.buyer(7).buy("default", item).await;
    for (name, look, right, wrong) in [
        ("light", DESKTOP, "No faults. 1 sale would be created.", "2 faults"),
        ("phone-dark-chinese", CHINESE_PHONE, "没有错误，将新建 1 场秒杀。", "2 处错误"),
    ] {
        let page = Page::of_operator(&instance, look, &format!("/console.html?id={item}")).await;
        page.until_text("#sale-name", "Aurora").await;
        // The address of a download is made when the link is used.
        page.run("document.getElementById('export-scope').value = 'chosen'").await;
        let loads = "const done = arguments[arguments.length - 1]; \
             const link = document.getElementById('export-orders'); link.focus(); \
             fetch(link.href).then((answer) => answer.text()).then(done)";
        let file = page.run_async(loads, Vec::new()).await;
        let file = file.as_str().expect("text");
        assert!(file.starts_with("record,id,item_id,") && file.contains("\ntotal,"), "{file}");
        assert!(file.contains(",pending,"), "{file}");

        let line = "2026-01-01T00:00:00Z,2099-01-01T00:00:00Z";
        let table = |rows: &str| format!("name,price_cents,stock,starts_at,ends_at\n{rows}\n");
        choose_file(&page, &table(&format!("Cup,-1,x,{line}"))).await;
        page.click_until("#import-form button[type='submit']", "#import-result", wrong).await;
        page.until("the faults", "document.querySelectorAll('#import-faults li').length === 2")
            .await;
        page.until_text("#import-faults", "price_cents").await;
        page.assert_suits_everyone(name).await;

        choose_file(&page, &table(&format!("Cup {name},250,3,{line}"))).await;
        page.click_until("#import-form button[type='submit']", "#import-result", right).await;
        page.click_until("#import-create", "#sale-name", &format!("Cup {name}")).await;
        page.close().await;
    }
    let listed = instance.stranger().get("/api/items").await;
    assert_eq!(listed.json["items"].as_array().map(Vec::len), Some(3));
}

/// Puts a file into the field, as a person does who picks one.
pub(super) async fn choose_file(page: &Page, table: &str) {
    let put = "const files = new DataTransfer(); \
         files.items.add(new File([arguments[0]], 'table.csv', { type: 'text/csv' })); \
         const field = document.getElementById('import-file'); field.files = files.files; \
         field.dispatchEvent(new Event('change'));";
    page.run_with(put, vec![json!(table)]).await;
}

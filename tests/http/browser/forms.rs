//! Text that a person types into a form stays, whatever answer comes from the service meanwhile.

use super::*;

/// Lets a test keep back the answers to requests for one path. `asked` counts them by path.
pub(super) const KEEP_BACK: &str = "window.held = []; window.keptBack = ''; window.asked = {}; \
     const ask = window.fetch; \
     window.fetch = async (path, options) => { \
       window.asked[path] = (window.asked[path] ?? 0) + 1; \
       const answer = await ask(path, options); \
       if (path === window.keptBack) await new Promise((go) => window.held.push(go)); \
       return answer; \
     };";

/// Keeps back the answers for `path` from now on.
pub(super) async fn keep_back(page: &Page, path: &str) {
    page.run_with("window.keptBack = arguments[0]", vec![json!(path)]).await;
}

/// Waits until an answer is kept back.
pub(super) async fn until_kept_back(page: &Page) {
    page.until("an answer that is kept back", "window.held.length > 0").await;
}

/// Lets all answers come.
async fn let_come(page: &Page) {
    page.run("window.keptBack = ''; window.held.forEach((go) => go()); window.held = []").await;
}

pub(super) async fn value(page: &Page, css: &str) -> String {
    let read = "return document.querySelector(arguments[0]).value";
    let value = page.run_with(read, vec![json!(css)]).await;
    value.as_str().unwrap_or_else(|| panic!("{css} has no text: {value}")).to_owned()
}

/// The console of an operator, with one sale, whose answers can be kept back.
pub(super) async fn console(instance: &Instance) -> Page {
    let page = Page::open(instance.addr, DESKTOP).await;
    page.before_scripts(KEEP_BACK).await;
    page.visit_as(instance, 1, Role::Admin, "/console.html").await;
    page.until_text("#sale-name", "Aurora").await;
    page
}

#[tokio::test]
async fn what_is_typed_into_a_new_sale_stays_and_the_rest_is_filled_in() {
    let (_shop, instance, _) = selling(json!({})).await;
    let page = console(&instance).await;
    page.click("#new").await;
    page.until("the shop's currency", "document.querySelector('#new-currency').value === 'USD'")
        .await;
    // The page asks for its sales and the shop's currency every two seconds; one answer comes between two keys.
    keep_back(&page, "/api/items").await;
    until_kept_back(&page).await;
    page.run("document.querySelector('#new-currency').select()").await;
    page.press(Key::Delete).await;
    let asked = page.run("return window.asked['/api/items']").await;
    let_come(&page).await;
    // The next question follows the answer.
    page.until("the next question", &format!("window.asked['/api/items'] > {asked}")).await;
    assert_eq!(value(&page, "#new-currency").await, "");
    page.press("JPY").await;
    assert_eq!(value(&page, "#new-currency").await, "JPY");
    page.fill("#new-name", "Harbour shirt").await;
    page.fill("#new-price", "3900").await;
    page.click_until("#new-form button[type=submit]", "#sale-price", "¥3,900").await;
    // The next sale has the shop's currency again.
    page.click("#new").await;
    assert_eq!(value(&page, "#new-currency").await, "USD");
    // A form that was closed keeps its times, and takes new ones where none were typed.
    let starts = value(&page, "#new-starts").await;
    page.run("document.querySelector('#new-ends').value = '2099-01-01T00:00:00'").await;
    page.click("#new-cancel").await;
    // A second later, at least.
    let later = format!(
        "(() => {{ document.querySelector('#new').click(); \
           const later = document.querySelector('#new-starts').value > {}; \
           document.querySelector('#new-cancel').click(); return later; }})()",
        json!(starts)
    );
    page.until("a later start", &later).await;
    let ends = value(&page, "#new-ends").await;
    assert!(ends.starts_with("2099-01-01T00:00"), "{ends}");
    // A form that was closed before the answer came may be another sale's by then, and is not emptied.
    page.click("#new").await;
    page.fill("#new-name", "Harbour sock").await;
    keep_back(&page, "/api/admin/items").await;
    page.click("#new-form [type=submit]").await;
    until_kept_back(&page).await;
    page.click("#new-cancel").await;
    page.click("#new").await;
    page.fill("#new-name", "Harbour cap").await;
    let_come(&page).await;
    page.until_text("#sale-name", "Harbour sock").await;
    assert_eq!(value(&page, "#new-name").await, "Harbour cap");
    page.click_until("#new-form [type=submit]", "#sale-name", "Harbour cap").await;
    page.close().await;
}

#[tokio::test]
async fn what_is_typed_while_an_answer_is_awaited_is_not_emptied_with_what_was_sent() {
    let (_shop, instance, _) = selling(json!({})).await;
    let page = console(&instance).await;
    for (path, form, name, result) in [
        ("/api/admin/products", "#product-form", "#product-name", "#product-result"),
        ("/api/admin/limit-groups", "#group-form", "#group-name", "#group-result"),
    ] {
        page.fill(name, "Harbour shirt").await;
        keep_back(&page, path).await;
        page.click(&format!("{form} button")).await;
        until_kept_back(&page).await;
        page.fill(name, "Harbour cap").await;
        let_come(&page).await;
        page.until_text(result, "Created: Harbour shirt.").await;
        assert_eq!(value(&page, name).await, "Harbour cap");
        page.click_until(&format!("{form} button"), result, "Created: Harbour cap.").await;
        assert_eq!(value(&page, name).await, "");
    }
    // A group and a product that are made elsewhere are not in the lists that the page has read. A sale keeps them.
    let make = async |path: &str, body: Value| {
        let made = instance.admin().post(path, &body).await.expect_status(201);
        made.json["id"].clone()
    };
    let group = json!({ "name": "Both shirts", "per_buyer_limit": 2 });
    let group = make("/api/admin/limit-groups", group).await;
    let product = json!({ "name": "Harbour shirt", "description": "" });
    let product = make("/api/admin/products", product).await;
    let sale =
        json!({ "name": "Harbour shirt, M", "limit_group_id": group, "product_id": product });
    let item = make_sale(&instance, sale).await;
    page.until_text("#sales", "Harbour shirt, M").await;
    page.click_until("#sales li:first-child button", "#sale-name", "Harbour shirt, M").await;
    page.fill("#edit-offer", "60").await;
    page.click_until("#waiting-form button", "#waiting-result", "Done.").await;
    page.fill("#edit-options", "Size=M").await;
    page.click_until("#variant-form button", "#variant-result", "Done.").await;
    let kept = instance.stranger().get(&format!("/api/items/{item}")).await;
    assert_eq!(kept.json["offer_seconds"], 60, "{}", kept.text);
    assert_eq!(kept.json["limit_group"]["id"], group, "{}", kept.text);
    assert_eq!(kept.json["product"]["id"], product, "{}", kept.text);
    // A new sale may be a variant, too.
    page.click("#new").await;
    page.fill("#new-name", "Harbour shirt, red").await;
    let choose = "const s = document.getElementById('new-product'); s.value = s.options[1].value";
    page.run(choose).await;
    page.fill("#new-options", "Size=M; Colour=red").await;
    page.click_until("#new-form [type=submit]", "#sale-name", "Harbour shirt, red").await;
    let listed = instance.stranger().get("/api/items").await.json;
    let mut listed = listed["items"].as_array().expect("a list").iter();
    let made = listed.find(|item| item["name"] == "Harbour shirt, red").expect("the new one");
    assert_eq!(made["product"]["options"][1], json!({ "name": "Colour", "value": "red" }));
    page.close().await;
}

/// What another operator changes meanwhile stays, and is shown; what is typed stays, too.
#[tokio::test]
async fn two_operators_change_a_sale_side_by_side() {
    let (_shop, instance, item) = selling(json!({ "offer_seconds": 300 })).await;
    let page = console(&instance).await;
    keep_back(&page, "/api/items").await;
    page.fill("#edit-offer", "60").await;
    let theirs = json!({ "offer_seconds": 90, "return_seconds": 3_600 });
    instance.admin().edit(item, theirs).await.expect_status(200);
    page.click_until("#waiting-form button", "#waiting-result", "Done.").await;
    let now = instance.stranger().get(&format!("/api/items/{item}")).await.json;
    assert_eq!((&now["offer_seconds"], &now["return_seconds"]), (&json!(60), &json!(3_600)));
    // The answer to the change has what the other one has done.
    assert_eq!(value(&page, "#edit-return").await, "3600");
    page.fill("#edit-offer", "61").await;
    let_come(&page).await;
    instance.admin().edit(item, json!({ "return_seconds": 7_200 })).await.expect_status(200);
    let shown = "document.querySelector('#edit-return').value === '7200'";
    page.until("what the other one has done", shown).await;
    assert_eq!(value(&page, "#edit-offer").await, "61");
    page.close().await;
}

/// A form that is sent before its page's script has come would put what it holds into the address, and load the page
/// again without it.
#[tokio::test]
async fn a_form_that_is_sent_before_its_script_has_come_keeps_what_was_typed() {
    let (_shop, instance) = Shop::open().await;
    let page = Page::open(instance.addr, DESKTOP).await;
    page.block(&["*/js/page/*"]).await;
    for (path, field) in [("/signin.html", "#password"), ("/account.html", "#current")] {
        let address = format!("http://{}{path}", instance.addr);
        page.visit_elsewhere(&address).await;
        page.fill(field, "a quiet harbour").await;
        page.press(Key::Enter).await;
        assert_eq!(page.run("return location.href").await, json!(address));
        assert_eq!(value(&page, field).await, "a quiet harbour", "{path}");
    }
    page.close_but_for(&["ERR_BLOCKED_BY_CLIENT"]).await;
}

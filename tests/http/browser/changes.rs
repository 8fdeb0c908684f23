//! What an operator changes is changed once, however often the button is pressed, and a lost answer is told as one.

use super::adopt::choose_file;
use super::forms::{console, value};
use super::*;

/// Lets the answers to changes at one path be lost from now on: they take effect. Reads of `unread` fail.
async fn lose(page: &Page, path: &str, unread: &str) {
    let lose = "const [lost, unread] = arguments; const sent = window.fetch; \
         window.fetch = async (path, options) => { \
           const changes = options.method !== 'GET'; \
           if (!changes && path === unread) throw new TypeError('lost'); \
           const answer = await sent(path, options); \
           if (changes && path === lost) throw new TypeError('lost'); \
           return answer; };";
    page.run_with(lose, vec![json!(path), json!(unread)]).await;
}

/// Presses the button of a form twice in one go.
async fn press_twice(page: &Page, form: &str) {
    let press = "const button = document.querySelector(arguments[0] + ' [type=submit]'); \
         button.click(); button.click();";
    page.run_with(press, vec![json!(form)]).await;
}

/// How often the page has asked at a path.
async fn asked(page: &Page, path: &str) -> u64 {
    let read = "return window.asked[arguments[0]] ?? 0";
    page.run_with(read, vec![json!(path)]).await.as_u64().expect("a number")
}

/// An empty number is not sent: a price that is missing is no price of 0, and an offer without a time does not end the
/// waiting list.
#[tokio::test]
async fn a_double_click_changes_and_creates_once() {
    let (_shop, instance, item) = selling(json!({ "stock": 500 })).await;
    let page = console(&instance).await;
    let path = format!("/api/admin/items/{item}");
    page.fill("#restock", "7").await;
    press_twice(&page, "#restock-form").await;
    assert_eq!(asked(&page, &path).await, 1, "the second press sends nothing");
    page.until_text("#restock-result", "Done.").await;
    assert_eq!(value(&page, "#restock").await, "", "a later press adds nothing");
    press_twice(&page, "#restock-form").await;
    assert_eq!(asked(&page, &path).await, 1);
    page.until_text("#figure-available", "507 of 507").await;
    // Another press may follow.
    page.fill("#restock", "-7").await;
    page.click_until("#restock-form [type=submit]", "#figure-available", "500 of 500").await;
    // The second click of a double click does not resume what the first one has paused.
    page.click_until("#pause", "#sale-state", "Paused").await;
    page.until_text("#edit-result", "Done.").await;
    let again =
        "document.getElementById('pause').dispatchEvent(new MouseEvent('click', { detail: 2 }))";
    page.run(again).await;
    assert_eq!(asked(&page, &path).await, 3);
    // A double click creates one product and one group.
    for (path, form, name, result) in [
        ("/api/admin/products", "#product-form", "#product-name", "#product-result"),
        ("/api/admin/limit-groups", "#group-form", "#group-name", "#group-result"),
    ] {
        let before = asked(&page, path).await;
        page.fill(name, "Harbour shirt").await;
        press_twice(&page, form).await;
        page.until_text(result, "Created: Harbour shirt.").await;
        press_twice(&page, form).await;
        assert_eq!(asked(&page, path).await, before + 1, "{path}");
        page.until_text(result, "Created: Harbour shirt.").await;
    }
    let empty = "document.querySelector(arguments[0]).value = ''";
    page.run_with(empty, vec![json!("#edit-offer")]).await;
    page.click("#waiting-form [type=submit]").await;
    assert_eq!(asked(&page, &path).await, 3);
    page.click("#new").await;
    page.fill("#new-name", "Harbour shirt").await;
    page.run_with(empty, vec![json!("#new-price")]).await;
    page.click("#new-form [type=submit]").await;
    assert_eq!(asked(&page, "/api/admin/items").await, 0);
    page.fill("#new-price", "19.90").await;
    page.click_until("#new-form [type=submit]", "#sale-name", "Harbour shirt").await;
    page.close().await;
}

/// The units are there although no answer came: another try would add them again, so the page shows what is there now.
#[tokio::test]
async fn a_lost_answer_to_a_change_is_told_and_what_is_there_is_read() {
    let (_shop, instance, item) = selling(json!({ "stock": 500 })).await;
    let page = console(&instance).await;
    let (path, read) = (format!("/api/admin/items/{item}"), format!("/api/items/{item}"));
    lose(&page, &path, "").await;
    page.fill("#restock", "7").await;
    page.click("#restock-form [type=submit]").await;
    page.until_text("#restock-result", "nobody knows yet whether this was done").await;
    page.until_text("#restock-result", "look at it before you try again").await;
    assert_eq!((asked(&page, &path).await, asked(&page, &read).await), (1, 1));
    page.until_text("#sales", "507").await;
    assert_eq!(value(&page, "#restock").await, "7");
    // What cannot be read either is said, too.
    lose(&page, &path, &read).await;
    page.click("#restock-form [type=submit]").await;
    page.until_text("#restock-result", "Load the page again before you try again").await;
    // A product is in the list although no answer came.
    lose(&page, "/api/admin/products", "").await;
    page.fill("#product-name", "Harbour shirt").await;
    page.click("#product-form [type=submit]").await;
    page.until_text("#product-result", "look at it before you try again").await;
    let listed = "[...document.getElementById('edit-product').options] \
         .some(({ text }) => text === 'Harbour shirt')";
    page.until("the product in the list", listed).await;
    page.close().await;
}

/// Whoever does not know whether a sale was created sends it again, and one is there; another form is another sale.
#[tokio::test]
async fn sales_whose_answer_is_lost_are_created_once() {
    let (_shop, instance, _) = selling(json!({})).await;
    let page = console(&instance).await;
    let lose_once = "const sent = window.fetch; window.keys = []; let left = 1; \
         window.fetch = async (path, options) => { \
           const answer = await sent(path, options); \
           if (path !== '/api/admin/items') return answer; \
           window.keys.push(options.headers['Idempotency-Key']); \
           if (left > 0) { left -= 1; throw new TypeError('lost'); } \
           return answer; };";
    page.run(lose_once).await;
    page.click("#new").await;
    page.fill("#new-name", "Harbour shirt").await;
    page.click("#new-form [type=submit]").await;
    page.until_text("#new-error", "Send it again without a change").await;
    // Closed and opened again, the form still says what was sent.
    page.click("#new-cancel").await;
    page.click("#new").await;
    page.click_until("#new-form [type=submit]", "#sale-name", "Harbour shirt").await;
    page.until("one key", "window.keys.length === 2 && new Set(window.keys).size === 1").await;
    page.until("whole keys", "window.keys.every((key) => key.length === 36)").await;
    // A sale like it is another one.
    page.click("#new").await;
    page.fill("#new-name", "Harbour shirt").await;
    page.click("#new-form [type=submit]").await;
    page.until("the third answer", "window.keys.length === 3").await;
    page.until("another key", "new Set(window.keys).size === 2").await;
    eventually("two of them", || async {
        let listed = instance.stranger().get("/api/items").await.json;
        let items = listed["items"].as_array()?.iter();
        (items.filter(|item| item["name"] == "Harbour shirt").count() == 2).then_some(())
    })
    .await;
    // An import that has created its sales says so, also when none of them can be read at once.
    page.reload_until("#sales", "Harbour shirt").await;
    let unreadable = "const sent = window.fetch; \
         window.fetch = async (path, options) => { \
           if (/^.api.items.[0-9]+$/.test(path)) throw new TypeError('lost'); \
           return sent(path, options); };";
    page.run(unreadable).await;
    let times = "2026-01-01T00:00:00Z,2099-01-01T00:00:00Z";
    let table = format!(
        "name,price_cents,stock,starts_at,ends_at\nRed cup,250,3,{times}\nBlue cup,250,3,{times}\n"
    );
    choose_file(&page, &table).await;
    page.click("#import-form [type=submit]").await;
    page.until_text("#import-result", "2 sales would be created").await;
    page.click_until("#import-create", "#import-result", "2 sales are created.").await;
    page.until_text("#sales", "Blue cup").await;
    page.until_text("#import-result", "2 sales are created.").await;
    page.close().await;
}

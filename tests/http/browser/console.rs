//! An operator makes a sale, watches it, changes it, audits it.

use super::*;

#[tokio::test]
async fn an_operator_creates_and_watches_a_sale() {
    let (_shop, instance, _) = selling(json!({ "stock": 500 })).await;
    let page = Page::of_operator(&instance, DESKTOP, "/console.html").await;
    page.until_text("#jobs", "expire").await;
    page.until("the strategies", "document.querySelectorAll('#new-strategies label').length > 5")
        .await;
    page.click("#new").await;
    page.fill("#new-name", "Fjord headphones").await;
    page.fill("#new-image", "/img/goods/headphones.svg").await;
    page.fill("#new-stock", "40").await;
    page.run("document.querySelector('#new-strategies [value=redis-lua]').click()").await;
    page.click_until("#new-form button[type='submit']", "#sale-name", "Fjord headphones").await;
    page.until_text("#sale-strategy", "redis-lua").await;
    page.until_text("#figure-available", "40 of 40").await;

    // Forty-five buyers, of whom five come too late, and the first wants a second one.
    let items = instance.stranger().get("/api/items").await;
    let made = items.json["items"].as_array().expect("a list").iter();
    let item = made.filter(|item| item["name"] == "Fjord headphones");
    let item = item.map(|item| item["id"].as_i64().expect("an id")).next().expect("it is there");
    for buyer in [1..=1, 1..=45].into_iter().flatten() {
        instance.buyer(buyer).buy("default", item).await;
    }
    page.until_text("#figure-available", "0 of 40").await;
    page.until_text("#figure-held", "40").await;
    page.until_text("#reasons", "Sold out").await;
    page.until_text("#reasons", "You have reached the limit").await;
    page.until("a moving line", "document.querySelectorAll('#charts path.line').length >= 3").await;

    page.fill("#restock", "7").await;
    page.click_until("#restock-form button[type='submit']", "#restock-result", "Done").await;
    page.until_text("#figure-available", "7 of 47").await;
    page.click_until("#pause", "#sale-state", "Paused").await;
    page.click_until("#pause", "#sale-state", "On sale").await;
    page.click_until("#room", "#room", "Sell without a line").await;
    page.click_until("#room", "#room", "Let buyers stand in line").await;
    let choose = "const choice = document.getElementById('edit-strategy'); \
         choice.value = 'mysql-batch'; choice.dispatchEvent(new Event('change'));";
    page.run(choose).await;
    page.click_until("#strategy-form button[type='submit']", "#sale-strategy", "mysql-batch").await;
    page.run("document.getElementById('edit-ends').value = '2099-01-01T00:00:00'").await;
    page.click_until("#schedule-form button[type='submit']", "#schedule-result", "Done").await;
    let moved = instance.stranger().get(&format!("/api/items/{item}")).await;
    assert!(moved.json["ends_at"].as_str().is_some_and(|end| end > "2098"), "{}", moved.text);

    page.click_until("#audit", "#audit-verdict", "Clean").await;
    page.until_text("#audit-findings", "I6").await;
    page.close().await;
}

#[tokio::test]
async fn a_buyer_is_shown_the_door_and_an_operator_finds_the_account() {
    let (_shop, instance) = Shop::open().await;
    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_until("/console.html", "#door", "This page is for operators").await;
    page.until_text("#door", "Sign in as an operator").await;
    page.visit_as(&instance, 9, Role::Buyer, "/console.html").await;
    page.until_text("#door", "This account is not an operator’s").await;
    page.until("no link that leads back here", "document.getElementById('door-link').hidden").await;
    page.until("nothing else", "!document.querySelector('.desk').checkVisibility()").await;
    page.visit_as(&instance, 1, Role::Operator, "/console.html").await;
    page.click("#account .who").await;
    page.until("the account", "location.pathname === '/account.html'").await;
    page.until_text("#signed-in", "user-1").await;
    page.close().await;
}

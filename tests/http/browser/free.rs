//! A unit that costs nothing, in a shop whose buyers pay at a provider: nobody is sent there.

use super::*;

#[tokio::test]
async fn a_buyer_confirms_an_order_that_costs_nothing() {
    let provider = TestProvider::start().await;
    let (_shop, instance) = Shop::open_with(|config| {
        provider.configure(config, &provider.checkout_url());
    })
    .await;
    let item = make_sale(&instance, json!({ "stock": 5, "price_cents": 0 })).await;
    let english = ["Get it for free", "nothing to pay", "Confirm the order", "Paid"];
    let chinese = ["免费领取", "无需付款", "确认订单", "已付款"];
    for (buyer, look, words) in [(71, DESKTOP, english), (72, CHINESE_PHONE, chinese)] {
        let [take, nothing, confirm, paid] = words;
        let page = Page::of_buyer(&instance, look, buyer, &format!("/item.html?id={item}")).await;
        page.until_text("#buy", take).await;
        page.click_until("#buy", "#outcome", nothing).await;
        page.until_text("#outcome a", confirm).await;
        page.click_until("#outcome a", "#status-text", nothing).await;
        page.until_text("#pay", confirm).await;
        page.until("no word of money", "document.getElementById('demo').hidden").await;
        page.assert_accessible().await;
        page.click_until("#pay", "#status", paid).await;
        page.until("our page", "location.pathname === '/order.html'").await;
        assert_eq!(orders_of(&instance, buyer).await[0]["status"], "paid");
        page.close().await;
    }
    assert!(provider.answers().is_empty(), "the provider was asked: {:?}", provider.answers());
}

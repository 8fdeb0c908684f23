//! A proxy that keeps the events of a stream until it has many: the page notices, and polls. The proxies that come with the
//! service hide `/readyz`, and so does this one: the console shows the service all the same.

use super::*;
use crate::support::nginx::Nginx;

#[tokio::test]
async fn a_page_that_hears_nothing_polls() {
    let (_shop, instance) = Shop::open().await;
    let lines = "proxy_ignore_headers X-Accel-Buffering;\nlocation = /readyz { return 404; }";
    let nginx = Nginx::before(instance.addr, lines).await;
    let item = make_sale(&instance, json!({ "stock": 3 })).await;
    let page = Page::open(nginx.addr, DESKTOP).await;
    page.visit_until(&format!("/item.html?id={item}"), "#stock", "3 of 3 left").await;
    // More than once: the page goes on polling.
    for (buyer, left) in [(1, "2 of 3 left"), (2, "1 of 3 left"), (3, "None of 3 left")] {
        assert_eq!(instance.buyer(buyer).buy("mysql-atomic", item).await.status, 201);
        page.until_text("#stock", left).await;
    }
    page.visit_as(&instance, 1, Role::Operator, "/console.html").await;
    page.until_text("#jobs", "expire").await;
    page.until_text("#dependencies", "mysql").await;
    page.until_text("#health-status", "Status: ready.").await;
    page.close().await;
}

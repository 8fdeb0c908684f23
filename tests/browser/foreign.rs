//! The example of the TypeScript client: a page of another shop sells an item.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use serde_json::json;
use tower_http::services::ServeDir;

use super::driver::{DESKTOP, PHONE, Page};
use super::make_sale;
use crate::identity::keys::TestKey;
use crate::support::{Shop, eventually, unique, when};
use crate::typescript;

const ISSUER: &str = "https://corner-shop.example";

/// The other shop: its pages, and its back office, which makes tokens of its buyer.
async fn corner_shop(files: &Path, key: Arc<TestKey>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let token = move || async move {
        let now = time::OffsetDateTime::now_utc().unix_timestamp();
        key.token(&json!({
            "iss": ISSUER, "aud": "seckill", "sub": "customer-81", "iat": now, "exp": now + 600,
        }))
    };
    let router =
        Router::new().route("/identity-token", post(token)).fallback_service(ServeDir::new(files));
    tokio::spawn(async move { axum::serve(listener, router).await });
    origin
}

#[tokio::test]
async fn a_page_of_another_shop_sells_an_item() {
    let Some(files) = typescript::build() else { return };
    let key = Arc::new(TestKey::ec("shop-1"));
    let keys = std::env::temp_dir().join(unique("shop-keys"));
    std::fs::write(&keys, json!({ "keys": [key.jwk()] }).to_string()).expect("written");
    let origin = corner_shop(&files, key).await;
    let shop = Shop::with(|config| {
        config.http.cors_origins.clone_from(&origin);
        config.identity.issuer = ISSUER.to_owned();
        config.identity.audience = "seckill".to_owned();
        config.identity.jwks_file.clone_from(&keys);
    })
    .await;
    let instance = shop.start().await;
    let item = make_sale(&instance, json!({ "stock": 2 })).await;
    let address =
        format!("{origin}/example/index.html?seckill=http://{}&item={item}", instance.addr);

    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_elsewhere(&address).await;
    page.until_text("#name", "Aurora desk lamp").await;
    page.until_text("#stock", "2 of 2 left").await;
    page.click("#buy:not([disabled])").await;
    page.until_text("#outcome", "It is yours").await;
    page.until_text("#stock", "1 of 2 left").await;
    page.shot("foreign-bought").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    // The limit is one unit; the refusal is shown in words.
    page.click("#buy").await;
    page.until_text("#outcome", "Purchase limit reached").await;
    // No cookie of ours came to this browser.
    page.visit(&format!("/item.html?id={item}")).await;
    page.until_text("#account", "Sign in").await;
    // The refusal is a line of the console.
    page.close_but_for(&["409 (Conflict)", "favicon.ico"]).await;
    let sold = eventually("the order in the ledger", || async {
        let statement = "SELECT COUNT(*) FROM orders JOIN subjects USING (user_id) \
             WHERE subject = 'customer-81' AND issuer = ?";
        let count: i64 = sqlx::query_scalar(statement)
            .bind(ISSUER)
            .fetch_one(&shop.pool)
            .await
            .expect("a count");
        when(count == 1, count)
    })
    .await;
    assert_eq!(sold, 1);

    // The same page from an origin that is not named learns nothing.
    let elsewhere = corner_shop(&files, Arc::new(TestKey::ec("shop-1"))).await;
    let page = Page::open(instance.addr, PHONE).await;
    let address = address.replace(&origin, &elsewhere);
    page.visit_elsewhere(&address).await;
    page.until("a page without data", "document.querySelector('#buy[disabled]')").await;
    let reads = "const done = arguments[arguments.length - 1]; \
         fetch(arguments[0]).then(() => done('read'), () => done('refused'))";
    let url = json!(format!("http://{}/api/items", instance.addr));
    assert_eq!(page.run_async(reads, vec![url]).await, "refused");
    page.close_but_for(&["CORS policy", "net::ERR_FAILED", "favicon.ico", "Failed to fetch"]).await;
    std::fs::remove_file(keys).expect("removed");
}

//! The example of the TypeScript client: a page of another shop sells an item.

use std::sync::OnceLock;

use axum::Router;
use axum::routing::{get, post};
use tower_http::services::ServeDir;

use super::*;
use crate::http::typescript;

const ISSUER: &str = "https://corner-shop.example";

/// Where the example of the client sends its tokens, as its script says.
const SECKILL_URL: &str = "http://127.0.0.1:8080";

/// The other shop: its pages, with the address of this Seckill in its script, and its back office, which makes
/// tokens of its buyer.
async fn corner_shop(files: &Path, seckill: Arc<OnceLock<String>>, key: Arc<TestKey>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let token = move || async move {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        key.token(&json!({
            "iss": ISSUER, "aud": "seckill", "sub": "customer-81", "iat": now, "exp": now + 600,
        }))
    };
    let script = std::fs::read_to_string(files.join("dist/example/shop.js")).expect("the script");
    assert_eq!(script.matches(SECKILL_URL).count(), 1, "one address, and a constant");
    let script = move || async move {
        let script = script.replace(SECKILL_URL, seckill.get().expect("Seckill runs"));
        ([("content-type", "text/javascript")], script)
    };
    let router = Router::new()
        .route("/identity-token", post(token))
        .route("/dist/example/shop.js", get(script))
        .fallback_service(ServeDir::new(files));
    tokio::spawn(async move { axum::serve(listener, router).await });
    origin
}

#[tokio::test]
async fn a_page_of_another_shop_sells_an_item() {
    let Some(files) = typescript::build() else { return };
    let key = Arc::new(TestKey::ec("shop-1"));
    let keys = std::env::temp_dir().join(unique("shop-keys"));
    std::fs::write(&keys, json!({ "keys": [key.jwk()] }).to_string()).expect("written");
    let seckill = Arc::new(OnceLock::new());
    let origin = corner_shop(&files, Arc::clone(&seckill), key).await;
    let (shop, instance) = Shop::open_with(|config| {
        config.http.cors_origins.clone_from(&origin);
        config.sections.set("identity", "issuer", ISSUER);
        config.sections.set("identity", "audience", "seckill");
        config.sections.set("identity", "jwks_file", keys.to_string_lossy().into_owned());
    })
    .await;
    let item = make_sale(&instance, json!({ "stock": 2 })).await;
    seckill.set(format!("http://{}", instance.addr)).expect("set once");
    // A link does not choose where the buyer's token goes.
    let address = format!("{origin}/example/index.html?seckill=http://127.0.0.1:1&item={item}");

    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_elsewhere(&address).await;
    page.until_text("#name", "Aurora desk lamp").await;
    page.until_text("#stock", "2 of 2 left").await;
    page.click_until("#buy:not([disabled])", "#outcome", "It is yours").await;
    page.until_text("#stock", "1 of 2 left").await;
    page.assert_accessible().await;
    // The limit is one unit; the refusal is shown in words.
    page.click_until("#buy", "#outcome", "Purchase limit reached").await;
    // No cookie of ours came to this browser.
    page.visit_until(&format!("/item.html?id={item}"), "#account", "Sign in").await;
    // The refusal is a line of the console.
    page.close_but_for(&["409 (Conflict)", "favicon.ico"]).await;
    let sold = eventually("the order in the ledger", || async {
        let statement = "SELECT COUNT(*) FROM orders JOIN subjects USING (user_id) \
             WHERE subject = 'customer-81' AND issuer = ?";
        let count: i64 = shop.read(sqlx::query_scalar(statement).bind(ISSUER)).await;
        when(count == 1, count)
    })
    .await;
    assert_eq!(sold, 1);

    // The same page from an origin that is not named learns nothing.
    let elsewhere = corner_shop(&files, seckill, Arc::new(TestKey::ec("shop-1"))).await;
    let page = Page::open(instance.addr, PHONE).await;
    page.visit_elsewhere(&address.replace(&origin, &elsewhere)).await;
    page.until("a page without data", "document.querySelector('#buy[disabled]')").await;
    let reads = "const done = arguments[arguments.length - 1]; \
         fetch(arguments[0]).then(() => done('read'), () => done('refused'))";
    let url = json!(format!("http://{}/api/items", instance.addr));
    assert_eq!(page.run_async(reads, vec![url]).await, "refused");
    page.close_but_for(&["CORS policy", "net::ERR_FAILED", "favicon.ico", "Failed to fetch"]).await;
    std::fs::remove_file(keys).expect("removed");
}

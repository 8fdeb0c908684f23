//! Sessions: the cookie, other sites' pages, signing out, and the change of secrets.

use lifecycle::StopResult;

use super::*;

/// Signs up and in; answers the session and the cookie as a browser sends it.
async fn session(instance: &Instance, name: &str) -> (Answer, String) {
    let stranger = instance.stranger();
    sign_up(&stranger, name, PASSWORD).await.expect_status(201);
    let answer = sign_in(&stranger, name, PASSWORD).await.expect_status(200);
    let cookie = answer.headers["set-cookie"].to_str().expect("text");
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    (answer, pair)
}

fn purchase(instance: &Instance, item: i64) -> RequestBuilder {
    instance.stranger().request(Method::POST, &format!("/api/seckill/mysql-atomic/{item}"))
}

#[tokio::test]
async fn the_cookie_buys_and_no_script_can_read_it() {
    let (_shop, instance, item) = Shop::selling(json!({ "per_buyer_limit": 5 })).await;
    let (answer, cookie) = session(&instance, "buyer").await;
    let set = answer.headers["set-cookie"].to_str().expect("text");
    let attributes: Vec<&str> = set.split("; ").skip(1).collect();
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(attributes.contains(&attribute), "{attribute} is missing: {attributes:?}");
    }
    assert!(attributes.iter().any(|attribute| attribute.starts_with("Max-Age=")));
    assert!(!set.contains("Secure"), "this shop is not behind TLS");
    assert_eq!(answer.headers["cache-control"], "no-store");
    let bought =
        Client::send(purchase(&instance, item).header("cookie", &cookie)).await.expect_status(201);
    assert_eq!(bought.json["user_id"], answer.json["user_id"]);
    // Among other cookies too, and the header beats it.
    let among = format!("theme=dark; {cookie}; x=y");
    assert_eq!(Client::send(purchase(&instance, item).header("cookie", among)).await.status, 201);
    let both = purchase(&instance, item).header("cookie", &cookie).bearer_auth("nonsense");
    Client::send(both).await.expect_problem(401, "invalid_token");
    // Signing out ends it at once, and takes the cookie away.
    let request =
        |method, path| instance.stranger().request(method, path).header("cookie", &cookie);
    let out = Client::send(request(Method::DELETE, "/api/session")).await.expect_status(204);
    let cleared = out.headers["set-cookie"].to_str().expect("text");
    assert!(cleared.starts_with("seckill=;") && cleared.contains("Max-Age=0"), "{cleared}");
    let ended = Client::send(request(Method::GET, "/api/orders")).await;
    assert_problem(&ended, (401, "invalid_token"), "its cookie");
    let buyer = instance.stranger().with_token(answer.json["token"].as_str().expect("a token"));
    assert_problem(&buyer.get("/api/orders").await, (401, "invalid_token"), "a token signed out");
}

#[tokio::test]
async fn behind_tls_the_cookie_is_bound_to_the_host() {
    let (_shop, instance) = Shop::open_with(|config| config.http.cookie_secure = true).await;
    let item = instance.make_item(json!({})).await;
    let (answer, cookie) = session(&instance, "buyer").await;
    assert_eq!(answer.headers["strict-transport-security"], "max-age=31536000");
    let set = answer.headers["set-cookie"].to_str().expect("text");
    assert!(set.starts_with("__Host-seckill=") && set.contains("; Secure"), "{set}");
    assert!(set.contains("; Path=/;") && !set.contains("Domain"), "{set}");
    assert_eq!(Client::send(purchase(&instance, item).header("cookie", &cookie)).await.status, 201);
    let renamed = cookie.replace("__Host-", "");
    let refused = Client::send(purchase(&instance, item).header("cookie", renamed)).await;
    assert_problem(&refused, (401, "unauthenticated"), "a cookie without the prefix");
}

#[tokio::test]
async fn another_sites_page_cannot_use_the_cookie() {
    let (_shop, instance, item) =
        Shop::selling(json!({ "per_buyer_limit": 100, "stock": 100 })).await;
    let (answer, cookie) = session(&instance, "buyer").await;
    let token = answer.json["token"].as_str().expect("a token");
    let host = format!("http://{}", instance.addr);
    let foreign: [(&str, &str); 5] = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
    ];
    for (name, value) in foreign {
        let what = format!("{name}: {value}");
        let by_cookie = purchase(&instance, item).header("cookie", &cookie).header(name, value);
        assert_problem(&Client::send(by_cookie).await, (403, "cross_site_request"), &what);
        // A token in a header was put there by a program of the buyer's own.
        let by_token = purchase(&instance, item).bearer_auth(token).header(name, value);
        assert_eq!(Client::send(by_token).await.status, 201, "{what}");
        // Nor may another site sign somebody in, or out.
        let credentials = json!({ "username": "buyer", "password": PASSWORD });
        let stranger = instance.stranger();
        for path in ["/api/session", "/api/users"] {
            let request =
                stranger.request(Method::POST, path).header(name, value).json(&credentials);
            assert_problem(&Client::send(request).await, (403, "cross_site_request"), &what);
        }
        let end = stranger.request(Method::DELETE, "/api/session").header("cookie", &cookie);
        let end = Client::send(end.header(name, value)).await;
        assert_problem(&end, (403, "cross_site_request"), &what);
        // Reading is harmless: a link from elsewhere shows the page.
        let read = stranger.request(Method::GET, "/api/orders").header("cookie", &cookie);
        assert_eq!(Client::send(read.header(name, value)).await.status, 200, "{what}");
    }
    for (name, value) in
        [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "none"), ("origin", &host)]
    {
        let ours = purchase(&instance, item).header("cookie", &cookie).header(name, value);
        assert_eq!(Client::send(ours).await.status, 201, "{name}: {value}");
    }
    assert_eq!(assert_clean(&instance, item).await["orders"], 8);
}

/// Without the ledger nobody knows who has signed out: that is said, until the list was read. With it the first answer
/// goes by the list.
#[tokio::test]
async fn a_fresh_instance_without_the_ledger_takes_no_token() {
    // After the start the list is not read again for long.
    let (shop, here) =
        Shop::open_with(|config| config.session.revocation_period_ms = 3_600_000).await;
    let token = here.token(1, Role::Buyer);
    assert_eq!(here.stranger().with_token(&token).delete("/api/session").await.status, 204);
    let fresh = shop.start().await;
    let first = fresh.stranger().with_token(&token).get("/api/orders").await;
    assert_problem(&first, (401, "invalid_token"), "its first answer");
    assert_eq!(fresh.buyer(1).get("/api/orders").await.status, 200);
    let mysql = link_to_ledger(&shop).await;
    mysql.cut();
    let by_link = |config: &mut Config| {
        config.database_url = Secret::new(mysql.url());
        config.mysql.acquire_timeout_ms = 400;
    };
    let fresh = shop.start_with(by_link).await;
    let unavailable = (503, "dependency_unavailable");
    let left = fresh.stranger().with_token(&token);
    for (what, client) in [("signed out", &left), ("signed in", &fresh.buyer(1))] {
        let answer = client.get("/api/strategies").await;
        assert_eq!(answer.status, 200, "{what}: what needs no token is as ever");
        let answer = client.delete("/api/session").await;
        assert_problem(&answer, unavailable, what);
        assert_eq!(answer.json["outcome"], "none", "{what}");
    }
    assert_eq!(fresh.stranger().get("/healthz").await.status, 200);
    mysql.mend();
    eventually(BOUND, || async {
        let refused = left.get("/api/orders").await;
        assert_ne!(refused.status, 200, "a token that was signed out");
        let taken = fresh.buyer(1).get("/api/orders").await;
        when((refused.status, taken.status) == (401, 200), (refused.text, taken.text))
    })
    .await;
}

#[tokio::test]
async fn the_secret_before_this_one_is_still_read() {
    let (mut shop, old, item) = Shop::selling(json!({ "per_buyer_limit": 5 })).await;
    let (answer, _) = session(&old, "buyer").await;
    let token = answer.json["token"].as_str().expect("a token");
    let another = Secret::new("another secret for tests, of thirty-two characters too");
    shop.config.secret_previous = std::mem::replace(&mut shop.config.secret, another);
    let new = shop.start().await;
    new.stranger().with_token(token).buy("mysql-atomic", item).await.expect_status(201);
    // What the new one signs, the old one does not know.
    let fresh = new.token(7, Role::Buyer);
    assert_eq!(new.stranger().with_token(&fresh).get("/api/orders").await.status, 200);
    old.stranger().with_token(&fresh).get("/api/orders").await.expect_problem(401, "invalid_token");
    // After the next change the first is forgotten.
    let third = Secret::new("a third secret for tests, of thirty-two characters too");
    shop.config.secret_previous = std::mem::replace(&mut shop.config.secret, third);
    let last = shop.start().await;
    last.stranger().with_token(token).get("/api/orders").await.expect_problem(401, "invalid_token");
    assert_eq!(old.stop().await, StopResult::Clean);
}

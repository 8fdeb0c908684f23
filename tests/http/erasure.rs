//! The deletion of a person: the account goes everywhere, and the ledger still adds up.

mod back;
mod places;
mod traces;

use super::*;

async fn delete(client: &Client, proof: Value) -> Answer {
    Client::send(client.request(Method::DELETE, "/api/users/me").json(&proof)).await
}

async fn delete_by_admin(instance: &Instance, user: i64) -> Answer {
    instance.admin().delete(&format!("/api/admin/users/{user}")).await
}

/// Signs somebody up and in; answers the user id and the session.
async fn person(instance: &Instance, name: &str) -> (i64, Client) {
    let made = sign_up(&instance.stranger(), name, PASSWORD).await.expect_status(201);
    (made.json["user_id"].as_i64().expect("an id"), session(instance, name).await)
}

/// Makes an account that stays.
async fn first_account(instance: &Instance) {
    assert_eq!(sign_up(&instance.stranger(), "first", PASSWORD).await.status, 201);
}

async fn session(instance: &Instance, name: &str) -> Client {
    instance.signed_in(&sign_in(&instance.stranger(), name, PASSWORD).await)
}

/// Exchanges a token of the provider for a session; returns the user id and the session.
async fn exchange(instance: &Instance, token: &str) -> (i64, Client) {
    let opened = instance.stranger().post("/api/session", &json!({ "token": token })).await;
    (opened.json["user_id"].as_i64().expect("an id"), instance.signed_in(&opened))
}

fn waiting(item: i64) -> String {
    format!("/api/items/{item}/waiting")
}

async fn status_of_place(client: &Client, item: i64) -> Value {
    client.get(&waiting(item)).await.json["status"].clone()
}

#[tokio::test]
async fn a_person_is_deleted_and_the_orders_keep_a_number() {
    let shop = Shop::with(|config| config.session.revocation_period_ms = 100).await;
    let (one, two) = (shop.start().await, shop.start().await);
    let many = one.make_item(json!({ "kind": "shop", "strategy": "mysql-atomic" })).await;
    let single = json!({ "kind": "shop", "strategy": "mysql-atomic", "stock": 1 });
    let single = one.make_item(single).await;
    first_account(&one).await;
    let (id, paula) = person(&one, "Paula").await;
    let second = session(&two, "paula").await;
    sign_in(&one.stranger(), "paula", "wrong").await.expect_problem(401, "invalid_credentials");

    // She has bought one item, and waits for another one in front of another buyer.
    let bought = order_id(&paula.buy("mysql-atomic", many).await);
    let others = order_id(&one.buyer(71).buy("mysql-atomic", single).await);
    let mine = json!({ "password": PASSWORD });
    assert_problem(&delete(&paula, mine.clone()).await, (409, "orders_open"), "an open order");
    paula.step(&bought, "payment").await.expect_status(200);
    for client in [&paula, &one.buyer(72)] {
        assert_eq!(client.post(&waiting(single), &json!({})).await.status, 200);
    }
    one.buyer(71).step(&others, "cancellation").await.expect_status(200);
    assert_eq!(status_of_place(&paula, single).await, "offered");

    let wrong = delete(&paula, json!({ "password": "not her password" })).await;
    assert_problem(&wrong, (401, "invalid_credentials"), "a wrong password");
    assert_problem(&delete(&paula, json!({})).await, (422, "missing_field"), "no proof");
    let both = json!({ "password": PASSWORD, "token": "x" });
    assert_problem(&delete(&paula, both).await, (422, "unknown_field"), "two proofs");
    delete(&paula, json!({ "token": "x" })).await.expect_problem(409, "identity_off");
    let deleted = delete(&paula, mine.clone()).await.expect_status(204);
    assert!(deleted.headers["set-cookie"].to_str().expect("text").contains("Max-Age=0"));
    assert_eq!(shop.number("SELECT COUNT(*) FROM sign_in_failures").await, 0, "of her name");

    // No token works any more, here at once and there soon; the next buyer has the unit.
    assert_problem(&delete(&paula, mine.clone()).await, (401, "invalid_token"), "again");
    second.until("/api/session", |seen| seen.brief() == (401, "invalid_token")).await;
    assert_eq!(status_of_place(&one.buyer(72), single).await, "offered");
    sign_in(&two.stranger(), "paula", PASSWORD).await.expect_problem(401, "invalid_credentials");
    assert_eq!(shop.number("SELECT COUNT(*) FROM users").await, 1);
    assert_eq!(shop.number("SELECT COUNT(*) FROM orders WHERE status = 'paid'").await, 1);
    assert_all_clean(&one, &[many, single]).await;

    // An admin deletes her once more, in vain: nothing changes but the log, which has no name.
    for _ in 0..2 {
        assert_eq!(delete_by_admin(&one, id).await.status, 204);
    }
    let operator = one.stranger().with_token(&one.token(5, Role::Operator));
    operator.delete(&format!("/api/admin/users/{id}")).await.expect_problem(403, "forbidden");
    let actions = one.admin().get("/api/admin/actions").await;
    assert_eq!(actions.text.matches("user_erased").count(), 2, "{}", actions.text);
    assert!(!actions.text.to_lowercase().contains("paula"), "{}", actions.text);
    // Somebody else takes the name, and gets nothing of hers.
    let (other, client) = person(&two, "paula").await;
    assert_ne!(other, id);
    assert_eq!(client.get("/api/orders").await.json["orders"], json!([]));
}

/// Whoever knew the old password deletes nothing once the owner has another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_changed_meanwhile_deletes_nothing() {
    let (shop, instance) = Shop::open().await;
    first_account(&instance).await;
    let (id, paula) = person(&instance, "Paula").await;
    let change = "UPDATE users SET password_hash = CONCAT(password_hash, 'x') WHERE id = ?";
    let change = shop.hold(sqlx::query(change).bind(id)).await;
    let mine = json!({ "password": PASSWORD });
    let deleting = tokio::spawn(async move { delete(&paula, mine).await });
    until_running(&shop.pool, "SELECT username_folded, password_hash, role FROM users%", 1).await;
    change.commit().await.expect("committed");
    let refused = deleting.await.expect("no panic");
    assert_problem(&refused, (401, "invalid_credentials"), "an old password");
    assert_eq!(shop.number("SELECT COUNT(*) FROM users").await, 2);
}

#[tokio::test]
async fn an_operator_is_deleted_after_the_role_was_taken_on_the_command_line_too() {
    let (shop, instance) = Shop::open().await;
    first_account(&instance).await;
    let (id, _) = person(&instance, "Grace").await;
    let user = id.to_string();
    let by_a_buyer = ["user", "erase", "--id", &user, "--operator", "1"];
    run_says(&shop, &by_a_buyer, (2, "user 1 is no operator")).await;
    let operator = shop.make_operator().await;
    let erase = ["user", "erase", "--id", &user, "--operator", &operator];
    assert_eq!(run(&shop, &["operator", "grant", "grace"]).await.0, 0);
    assert_problem(&delete_by_admin(&instance, id).await, (409, "operator_account"), "an operator");
    run_says(&shop, &erase, (1, "may run sales")).await;
    assert_eq!(run(&shop, &["operator", "revoke", "grace"]).await.0, 0);
    let item = instance.make_item(json!({})).await;
    // The end of the role ends the sessions before it. A token without a sign-in counts as one of them.
    instance.buyer(id).until("/api/session", |seen| seen.brief() == (401, "invalid_token")).await;
    let grace = session(&instance, "grace").await;
    let order = order_id(&grace.buy("mysql-atomic", item).await);
    run_says(&shop, &erase, (1, "open order")).await;
    grace.step(&order, "cancellation").await.expect_status(200);
    run_says(&shop, &erase, (0, "is deleted")).await;
    run_says(&shop, &erase, (0, "has no account")).await;
    assert_eq!(shop.number("SELECT COUNT(*) FROM users WHERE username = 'Grace'").await, 0);
    assert_clean(&instance, item).await;
}

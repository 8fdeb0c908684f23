//! The first operator, on the command line; roles; signing out everywhere; changing a password.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use crate::http;
use crate::support::prelude::*;

const PASSWORD: &str = "a lamp that wakes up";

/// Runs `seckill operator` with a password on standard input.
async fn operator(shop: &Shop, arguments: &[&str], password: &str) -> (i32, String) {
    let mut command = program(shop, &["operator"]);
    command.args(arguments).args(["--password-file", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut input = child.stdin.take().expect("a pipe");
    // A command that refuses its arguments reads nothing.
    let _ = input.write_all(format!("{password}\n").as_bytes()).await;
    drop(input);
    told(&child.wait_with_output().await.expect("ended"))
}

async fn sign_in(instance: &Instance, name: &str, password: &str) -> Answer {
    http::sign_in(&instance.stranger(), name, password).await
}

async fn actions(client: &Client) -> Vec<String> {
    let answer = client.get("/api/admin/actions").await.expect_status(200);
    let actions = answer.json["actions"].as_array().expect("a list").iter();
    actions.map(|action| action["action"].as_str().expect("a word").to_owned()).collect()
}

#[tokio::test]
async fn the_first_operator_is_made_on_the_command_line_and_runs_a_sale() {
    let (shop, instance) =
        Shop::open_with(|config| config.session.revocation_period_ms = 100).await;
    let (code, text) = operator(&shop, &["create", "Grace"], PASSWORD).await;
    assert_eq!(code, 0, "{text}");
    assert!(!text.contains(PASSWORD), "{text}");
    let session = sign_in(&instance, "grace", PASSWORD).await;
    assert_eq!(session.json["role"], "operator", "{}", session.text);
    let grace = instance.signed_in(&session);
    let item = item_body(json!({ "kind": "shop", "strategy": "mysql-atomic" }));
    grace.post("/api/admin/items", &item).await.expect_status(201);
    // An operator reads its own actions, an admin those of all.
    let other = instance.stranger().with_token(&instance.token(77, Role::Operator));
    assert_eq!(actions(&other).await, Vec::<String>::new());
    assert_eq!(actions(&grace).await, ["item_created", "operator_created"]);
    assert_eq!(actions(&instance.admin()).await, ["item_created", "operator_created"]);

    let text = run_says(&shop, &["operator", "list"], (0, "")).await;
    assert!(text.contains("operator\tGrace") && text.contains("1 operator\n"), "{text}");
    run_says(&shop, &["operator", "revoke", "grace"], (0, "")).await;
    grace.until("/api/admin/actions", |seen| seen.status == 401).await;
    assert_eq!(sign_in(&instance, "grace", PASSWORD).await.json["role"], "buyer");
    run_says(&shop, &["operator", "grant", "GRACE", "--role", "admin"], (0, "")).await;
    let session = sign_in(&instance, "grace", PASSWORD).await;
    assert_eq!(session.json["role"], "admin", "{}", session.text);
    let all = actions(&instance.signed_in(&session)).await;
    assert_eq!(all, ["role_changed", "role_changed", "item_created", "operator_created"]);

    let (code, text) = operator(&shop, &["password", "grace"], "another lamp that wakes").await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(actions(&instance.admin()).await[0], "password_set");
    assert_eq!(sign_in(&instance, "grace", PASSWORD).await.status, 401);
    sign_in(&instance, "grace", "another lamp that wakes").await.expect_status(200);
}

#[tokio::test]
async fn an_operator_that_cannot_be_made_is_explained() {
    let shop = Shop::new().await;
    assert_eq!(operator(&shop, &["create", "ada"], PASSWORD).await.0, 0);
    for (arguments, password, expected, sentence) in [
        (&["create", "ADA"][..], PASSWORD, 1, "operator grant ADA"),
        (&["create", "grace"][..], "short", 2, "at least 8 characters"),
        (&["create", "grace"][..], "Password123", 2, "attackers try first"),
        (&["create", "long-enough"][..], "long-enough", 2, "attackers try first"),
        (&["create", "a name"][..], PASSWORD, 2, "letters of one script"),
        (&["create", "grace", "--role", "buyer"][..], PASSWORD, 2, "operator and admin"),
        (&["password", "nobody"][..], PASSWORD, 1, "no account nobody"),
    ] {
        let (code, text) = operator(&shop, arguments, password).await;
        assert_eq!(code, expected, "{arguments:?}: {text}");
        assert!(text.contains(sentence), "{arguments:?}: {text}");
    }
    run_says(&shop, &["operator", "create", "grace"], (2, "--password-file")).await;
    run_says(&shop, &["operator", "revoke", "nobody"], (1, "no account nobody")).await;
}

async fn sign_up(instance: &Instance, name: &str) -> Answer {
    http::sign_up(&instance.stranger(), name, PASSWORD).await.expect_status(201);
    sign_in(instance, name, PASSWORD).await
}

#[tokio::test]
async fn signing_out_everywhere_ends_each_session_of_the_user_and_no_other() {
    let shop = Shop::with(|config| config.session.revocation_period_ms = 100).await;
    let (here, there) = (shop.start().await, shop.start().await);
    let first = here.signed_in(&sign_up(&here, "ada").await);
    let second = sign_in(&there, "ada", PASSWORD).await;
    let (second, second_here) = (there.signed_in(&second), here.signed_in(&second));
    let other = here.signed_in(&sign_up(&here, "grace").await);
    first.delete("/api/sessions").await.expect_status(204);
    for client in [&first, &second_here] {
        assert_eq!(client.get("/api/orders").await.brief(), (401, "invalid_token"));
    }
    second.until("/api/orders", |seen| seen.brief() == (401, "invalid_token")).await;
    assert_eq!(other.get("/api/orders").await.status, 200);
    // A new session works at once, on each instance, and an instance that starts later knows.
    let again = sign_in(&here, "ada", PASSWORD).await;
    let late = shop.start().await;
    for instance in [&here, &there, &late] {
        assert_eq!(instance.signed_in(&again).get("/api/orders").await.status, 200);
    }
    until(BOUND, || second_at(&late, &second_here), |answer| *answer == 401).await;
    // A buyer without an account, whose token was minted, has sessions too.
    let minted = here.buyer(4711);
    let ended = minted.delete("/api/sessions").await;
    assert_eq!((ended.status, minted.get("/api/orders").await.status), (204, 401));
    assert_eq!(here.buyer(4711).get("/api/orders").await.status, 401, "minted afterwards");
}

/// Its transaction was slow: each instance has read a later sign-out by then.
#[tokio::test]
async fn a_sign_out_that_is_committed_late_ends_its_sessions_too() {
    let shop = Shop::with(|config| config.session.revocation_period_ms = 100).await;
    let (shop, here, there) = shop.opened_twice().await;
    let late = there.buyer(4_711);
    assert_eq!(late.get("/api/orders").await.status, 200);
    here.buyer(4_712).delete("/api/sessions").await.expect_status(204);
    there.buyer(4_712).until("/api/orders", |seen| seen.status == 401).await;
    let earlier = "INSERT INTO session_generations (user_id, generation, ended_at) \
         VALUES (4711, UNIX_TIMESTAMP(), UTC_TIMESTAMP(6) - INTERVAL 60 SECOND)";
    shop.change(sqlx::query(earlier)).await;
    late.until("/api/orders", |seen| seen.brief() == (401, "invalid_token")).await;
}

/// The status that a token of another client gets at an instance.
async fn second_at(instance: &Instance, client: &Client) -> u16 {
    let token = client.token().expect("it has one");
    instance.stranger().with_token(token).get("/api/orders").await.status
}

async fn change(client: &Client, current: &str, new: &str) -> Answer {
    let body = json!({ "current_password": current, "new_password": new });
    Client::send(client.request(Method::PUT, "/api/session/password").json(&body)).await
}

#[tokio::test]
async fn a_changed_password_ends_all_sessions_but_the_new_one() {
    let (_shop, instance) = Shop::open().await;
    let first = instance.signed_in(&sign_up(&instance, "ada").await);
    let second = instance.signed_in(&sign_in(&instance, "ada", PASSWORD).await);
    let new = "a lamp that stays awake";
    for (current, wanted, expected) in [
        ("a wrong password", new, (401, "invalid_credentials")),
        (PASSWORD, "short", (422, "invalid_password")),
        (PASSWORD, "PASSWORD1", (422, "common_password")),
    ] {
        assert_eq!(change(&first, current, wanted).await.brief(), expected);
    }
    assert_eq!(second.get("/api/orders").await.status, 200, "nothing has changed yet");
    let changed = change(&first, PASSWORD, new).await;
    let fresh = instance.signed_in(&changed);
    assert_eq!(fresh.get("/api/orders").await.status, 200);
    for client in [&first, &second] {
        assert_eq!(client.get("/api/orders").await.brief(), (401, "invalid_token"));
    }
    assert_eq!(sign_in(&instance, "ada", PASSWORD).await.status, 401);
    assert_eq!(sign_in(&instance, "ada", new).await.status, 200);
    // A minted token has no account, and tries of the present password are counted.
    let minted = change(&instance.buyer(4711), PASSWORD, new).await;
    assert_eq!(minted.brief(), (404, "account_not_found"));
    let mut last = Value::Null;
    for _ in 0..12 {
        last = change(&fresh, "a wrong password", new).await.json;
    }
    assert_eq!(last["code"], "too_many_attempts", "{last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_that_is_under_way_does_not_survive_a_changed_password() {
    let (shop, instance) = Shop::open_with(|config| {
        config.session.revocation_period_ms = 100;
        config.mysql.lock_wait_timeout_seconds = 60;
    })
    .await;
    let older = instance.signed_in(&sign_up(&instance, "ada").await);
    let mut holder = patient_transaction(&shop.pool).await;
    let counts = sqlx::query("SELECT account FROM sign_in_failures FOR UPDATE");
    counts.execute(&mut *holder).await.expect("the counts are locked");
    let generation = "SELECT CAST(generation AS SIGNED) FROM session_generations";
    let change = async {
        // It has read the account, and waits for the count of failures.
        until_running(&shop.pool, "INSERT INTO sign_in_failures%", 1).await;
        let (code, text) = operator(&shop, &["password", "ada"], "another lamp that wakes").await;
        assert_eq!(code, 0, "{text}");
        older.until("/api/orders", |seen| seen.status == 401).await;
        let begun = shop.number(generation).await;
        holder.rollback().await.expect("the counts are free");
        begun
    };
    let (late, begun) = tokio::join!(sign_in(&instance, "ada", PASSWORD), change);
    assert_eq!(late.brief(), (401, "invalid_credentials"), "{}", late.text);
    assert_eq!(shop.number(generation).await, begun, "it ended the sessions of the owner");
    let owner = sign_in(&instance, "ada", "another lamp that wakes").await;
    assert_eq!(instance.signed_in(&owner).get("/api/orders").await.status, 200);
}

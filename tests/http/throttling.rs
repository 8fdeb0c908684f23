//! Password guessing is slowed down for the guesser, never for the account's owner.

use ledger::rows::failures;

use super::{PASSWORD, sign_up};
use crate::support::prelude::*;

/// Believes the header that says where a request comes from.
fn behind_a_proxy(config: &mut Config) {
    config.http.trusted_proxies = "127.0.0.0/8, ::1".to_owned();
}

/// Asks for a session, with a header that says where the request comes from.
pub(super) async fn sign_in(client: &Client, from: &str, username: &str, password: &str) -> Answer {
    let credentials = json!({ "username": username, "password": password });
    let request = client.request(Method::POST, "/api/session").json(&credentials);
    Client::send(request.header("x-forwarded-for", from)).await
}

/// A minute of the ledger's clock later they are forgotten.
#[tokio::test]
async fn failures_are_counted_across_instances() {
    let (shop, here, there) = Shop::with(behind_a_proxy).await.opened_twice().await;
    let (here, there) = (here.stranger(), there.stranger());
    sign_up(&here, "victim", PASSWORD).await.expect_status(201);
    for instance in [&here, &there] {
        for _ in 0..5 {
            let guess = sign_in(instance, "203.0.113.1", "victim", "a guess of somebody").await;
            assert_problem(&guess, (401, "invalid_credentials"), "a guess");
        }
    }
    for instance in [&here, &there] {
        let guess = sign_in(instance, "203.0.113.1", "victim", "a guess of somebody").await;
        assert_problem(&guess, (429, "too_many_attempts"), "a guess too many");
        let right = sign_in(instance, "203.0.113.1", "victim", PASSWORD).await;
        assert_problem(&right, (429, "too_many_attempts"), "the guesser's luck comes too late");
        assert_eq!(sign_in(instance, "203.0.113.2", "victim", PASSWORD).await.status, 200);
    }
    let later = "UPDATE sign_in_failures SET since = since - INTERVAL 61 SECOND";
    shop.change(sqlx::query(later)).await;
    assert_eq!(sign_in(&here, "203.0.113.1", "victim", PASSWORD).await.status, 200);
    shop.change(sqlx::query(later)).await;
    assert!(failures::forget_old(&shop.pool, 60).await.expect("deleted") > 0, "none was left");
    assert_eq!(shop.number("SELECT COUNT(*) FROM sign_in_failures").await, 0);
}

#[tokio::test]
async fn an_account_that_everybody_guesses_at_still_opens_for_its_owner() {
    let (shop, instance) = Shop::open_with(behind_a_proxy).await;
    let client = instance.stranger();
    sign_up(&client, "victim", PASSWORD).await.expect_status(201);
    let guess = async |from: &str| sign_in(&client, from, "victim", "a guess of somebody").await;
    assert_eq!(guess("203.0.113.1").await.status, 401);
    // A hundred more from as many addresses.
    let more = "UPDATE sign_in_failures SET failures = failures + 100 WHERE address = ''";
    shop.change(sqlx::query(more)).await;
    // Each address has two tries now instead of ten.
    for _ in 0..2 {
        assert_eq!(guess("203.0.113.2").await.status, 401);
    }
    assert_problem(&guess("203.0.113.2").await, (429, "too_many_attempts"), "a third guess");
    // The owner may even mistype once, comes in, and may come in again.
    assert_eq!(guess("198.51.100.7").await.status, 401);
    for _ in 0..3 {
        let owner = sign_in(&client, "198.51.100.7", "victim", PASSWORD).await;
        assert_eq!(owner.status, 200, "the owner is locked out: {}", owner.text);
    }
}

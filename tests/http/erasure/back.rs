//! Deleted people who come back by the identity provider, and operators whom it names.

use sha2::{Digest, Sha256};

use super::*;

/// A token of the provider for a subject with these roles.
fn token(provider: &TestIdentityProvider, subject: &str, roles: &[&str]) -> String {
    let mut claims = provider.claims(subject);
    claims["realm"] = json!({ "roles": roles });
    provider.key(0).token(&claims)
}

/// A person of the provider proves a deletion by one more token of it, and gets one unit, however often the account is
/// deleted while the sale runs. After the sale nobody can find the person by the number.
#[tokio::test]
async fn a_deletion_gives_no_limit_back() {
    let provider = TestIdentityProvider::start(vec![TestKey::ed("ed-1")]).await;
    let (shop, instance) = Shop::open_with(|config| provider.configure(config)).await;
    let item = instance.make_item(json!({ "kind": "shop", "strategy": "mysql-atomic" })).await;
    // The first id is that of the tests' admin, whose tokens a deletion would end.
    exchange(&instance, &token(&provider, "first", &[])).await;
    let shown = token(&provider, "one", &[]);
    let (id, client) = exchange(&instance, &shown).await;
    let bought = order_id(&client.buy("mysql-atomic", item).await);
    assert_eq!(client.step(&bought, "payment").await.status, 200);
    let password = delete(&client, json!({ "password": PASSWORD })).await;
    let is_refused =
        [(404, "account_not_found"), (403, "passwords_off")].contains(&password.brief());
    assert!(is_refused, "{}", password.text);
    let others = ["first", "nobody"].map(|subject| token(&provider, subject, &[]));
    for proof in others.into_iter().chain(["forged".to_owned()]) {
        delete(&client, json!({ "token": proof })).await.expect_problem(401, "identity_refused");
    }
    for _ in 0..3 {
        let (again, client) = exchange(&instance, &shown).await;
        assert_eq!(again, id, "the same number");
        client.buy("mysql-atomic", item).await.expect_problem(409, "limit_reached");
        assert_eq!(delete(&client, json!({ "token": shown })).await.status, 204);
        assert_problem(&client.get("/api/session").await, (401, "invalid_token"), "its session");
        assert_eq!(shop.number("SELECT COUNT(*) FROM subjects").await, 1);
    }
    assert_clean(&instance, item).await;
    // Nor does a change of the secret after the deletion.
    let mut config = shop.config.clone();
    config.secret_previous = config.secret.clone();
    config.secret = Secret::new("another secret for tests, of thirty-two characters too");
    let changed = Shop { config, pool: shop.pool.clone() }.start().await;
    let (again, client) = exchange(&changed, &shown).await;
    assert_eq!(again, id, "the same number");
    client.buy("mysql-atomic", item).await.expect_problem(409, "limit_reached");
    assert_eq!(delete(&client, json!({ "token": shown })).await.status, 204);
    changed.stop().await;
    // The hash is not one that everybody can compute.
    let known = Sha256::new().chain_update(provider.issuer()).chain_update([0]);
    let known = known.chain_update("one").finalize().to_vec();
    let count = "SELECT COUNT(*) FROM erased_users WHERE subject_hash = ?";
    assert_eq!(shop.read::<i64>(sqlx::query_scalar(count).bind(known)).await, 0);

    // While the sale runs, the job keeps the hash; after it, the hash goes.
    let hashes = "SELECT COUNT(*) FROM erased_users WHERE subject_hash IS NOT NULL";
    let look = "UPDATE erased_users SET due_at = UTC_TIMESTAMP(6)";
    shop.change(sqlx::query(look)).await;
    shop.until_count("SELECT COUNT(*) FROM erased_users WHERE due_at > UTC_TIMESTAMP(6)", 1).await;
    assert_eq!(shop.read::<i64>(sqlx::query_scalar(hashes)).await, 1);
    shop.change(sqlx::query("UPDATE items SET ends_at = UTC_TIMESTAMP(6)")).await;
    shop.change(sqlx::query(look)).await;
    shop.until_count(hashes, 0).await;
    let (new, client) = exchange(&instance, &shown).await;
    assert_ne!(new, id, "a new person");
    assert_eq!(client.get("/api/orders").await.json["orders"], json!([]));
}

#[tokio::test]
async fn an_operator_of_the_provider_does_not_delete_itself() {
    let provider = TestIdentityProvider::start(vec![TestKey::ed("ed-1")]).await;
    let (_shop, instance) = Shop::open_with(|config| provider.configure(config)).await;
    let (_, buyer) = exchange(&instance, &token(&provider, "one", &[])).await;
    for role in ["sales", "chiefs"] {
        let shown = token(&provider, "one", &[role]);
        let (_, operator) = exchange(&instance, &shown).await;
        for proof in [shown.clone(), token(&provider, "one", &[])] {
            let refused = delete(&operator, json!({ "token": proof })).await;
            assert_problem(&refused, (409, "operator_account"), "the session of an operator");
        }
        delete(&buyer, json!({ "token": shown })).await.expect_problem(409, "operator_account");
    }
    let shown = token(&provider, "one", &[]);
    assert_eq!(delete(&buyer, json!({ "token": shown })).await.status, 204);
}

//! A ledger that went back to an older copy: its numbers do not come again, what was signed out stays out, and
//! `seckill restored` says when it may sell.

use std::cell::Cell;

use mysql_connection::with_new_id;
use sqlx::Executor;
use time::Duration;
use web::token::{Holder, Tokens};

use crate::http::{PASSWORD, sign_in, sign_up};
use crate::support::own_redis;
use crate::support::prelude::*;

const NEW_SECRET: &str = "another secret for tests, of thirty-two characters and more";

/// Signs up and in, and returns the user's number and token.
async fn account(instance: &Instance, name: &str) -> (i64, String) {
    sign_up(&instance.stranger(), name, PASSWORD).await.expect_status(201);
    let session = sign_in(&instance.stranger(), name, PASSWORD).await;
    let id = session.json["user_id"].as_i64().expect("a number");
    (id, session.json["token"].as_str().expect("a token").to_owned())
}

/// Lets the ledger forget its newest rows of a table, as a restored copy has; the next number that the table counts is
/// as low as it can be.
async fn forget(shop: &Shop, table: &str, id: i64) {
    for statement in [
        format!("DELETE FROM {table} WHERE id = {id}"),
        format!("ALTER TABLE {table} AUTO_INCREMENT = 1"),
    ] {
        shop.pool.execute(sqlx::raw_sql(&statement)).await.expect("forgotten");
    }
}

#[tokio::test]
async fn no_number_of_a_lost_account_or_item_comes_again() {
    let (shop, instance) = Shop::open().await;
    let (lost_account, token) = account(&instance, "lost").await;
    let lost_item = instance.make_item(json!({})).await;
    let make_product = async || {
        let product = json!({ "name": "a product" });
        let made = instance.admin().post("/api/admin/products", &product).await;
        made.json["id"].as_i64().expect("a number")
    };
    let lost_group = instance.make_group(1).await;
    let lost_product = make_product().await;
    for (table, id) in [
        ("users", lost_account),
        ("items", lost_item),
        ("limit_groups", lost_group),
        ("products", lost_product),
    ] {
        forget(&shop, table, id).await;
    }
    let (account, _) = account(&instance, "found").await;
    assert_ne!(account, lost_account, "the token of the lost account opens another one");
    assert_ne!(instance.make_item(json!({})).await, lost_item);
    assert_ne!(instance.make_group(1).await, lost_group);
    assert_ne!(make_product().await, lost_product);
    let session = instance.stranger().with_token(&token).get("/api/session").await;
    assert_ne!(session.json["user_id"], account);
}

/// The ids of one millisecond may be equal, and a name may be taken: these are two errors.
#[tokio::test]
async fn a_number_that_is_taken_is_made_again_and_a_name_is_not() {
    let shop = Shop::new().await;
    let insert = async |id: i64, name: &str| {
        let insert = "INSERT INTO users (id, username, username_folded, password_hash, created_at) \
             VALUES (?, ?, ?, '', UTC_TIMESTAMP(6))";
        let inserted = sqlx::query(insert).bind(id).bind(name).bind(name);
        inserted.execute(&shop.pool).await.map(|_| id)
    };
    insert(7, "ada").await.expect("free");
    // The ids that come one after the other, the name, the row that is made, and the tries.
    for (ids, name, made, tried) in [
        ([7, 7, 8, 9], "grace", Some(8), 3),
        // The tries are bounded.
        ([7; 4], "hedy", None, 4),
        // Another id would not help.
        ([9; 4], "ada", None, 1),
    ] {
        let tries = Cell::new(0_usize);
        let inserted = with_new_id(|| {
            let id = ids[tries.get()];
            tries.set(tries.get() + 1);
            insert(id, name)
        });
        assert_eq!((inserted.await.ok(), tries.get()), (made, tried), "{name}");
    }
}

#[tokio::test]
async fn a_generation_that_the_ledger_has_not_begun_is_refused() {
    let (shop, instance) = Shop::open().await;
    let tokens = Tokens::new(&shop.config.secret, &Secret::new(""));
    let user = UserId::new(4_711).expect("positive");
    let until = OffsetDateTime::now_utc() + Duration::HOUR;
    let session = async |generation: u32| {
        let holder = Holder::User { id: user, role: Role::Buyer };
        let token = tokens.sign_in_generation(holder, until, generation);
        instance.stranger().with_token(&token).get("/api/session").await.status
    };
    assert_eq!((session(0).await, session(1).await), (200, 401));
    // A row that is as old as no list is: the number is looked up.
    let old = "INSERT INTO session_generations (user_id, generation, ended_at) \
         VALUES (4711, 3, UTC_TIMESTAMP(6) - INTERVAL 40 DAY)";
    shop.pool.execute(sqlx::raw_sql(old)).await.expect("inserted");
    assert_eq!((session(3).await, session(4).await), (200, 401));
}

#[tokio::test]
async fn a_lost_sign_out_of_all_sessions_does_not_give_its_number_again() {
    let (shop, instance) = Shop::open().await;
    let (id, token) = account(&instance, "ada").await;
    let sign_out = async |token: &str| {
        assert_eq!(instance.stranger().with_token(token).delete("/api/sessions").await.status, 204);
    };
    sign_out(&token).await;
    let second = sign_in(&instance.stranger(), "ada", PASSWORD).await;
    let second = second.json["token"].as_str().expect("a token").to_owned();
    let generation = "SELECT CAST(generation AS SIGNED) FROM session_generations WHERE user_id = ?";
    let first: i64 = shop.read(sqlx::query_scalar(generation).bind(id)).await;
    let lose = format!("DELETE FROM session_generations WHERE user_id = {id}");
    shop.pool.execute(sqlx::raw_sql(&lose)).await.expect("lost");
    // No copy is restored within the second in which it was made.
    let now = || shop.number("SELECT UNIX_TIMESTAMP()");
    until("the next second", now, |now| *now > first).await;
    let third = sign_in(&instance.stranger(), "ada", PASSWORD).await;
    sign_out(third.json["token"].as_str().expect("a token")).await;
    // An instance that has seen nothing but the ledger.
    let late = shop.start().await;
    assert_eq!(late.stranger().with_token(&second).get("/api/session").await.status, 401);
}

#[tokio::test]
async fn a_restored_ledger_sells_after_its_check_alone() {
    let (shop, instance, item) = Shop::selling(json!({ "strategy": "redis-lua" })).await;
    assert_eq!(instance.buyer(1).buy("redis-lua", item).await.status, 201);
    let _ = instance.stop().await;
    let said = run_says(&shop, &["restored"], (1, "")).await;
    for words in ["secret: SECKILL_SECRET", "redis: it still has keys of 1 items", "must not sell"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let mut checked = program(&shop, &["restored"]);
    checked.env("SECKILL_SECRET", NEW_SECRET).env("SECKILL_REDIS_PREFIX", "empty:");
    let (code, said) = told(&checked.output().await.expect("it runs"));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the ledger may sell"), "{said}");
    // A ledger without the item, beside a Redis that has it.
    forget(&shop, "items", item).await;
    let (_, said) = run(&shop, &["doctor"]).await;
    assert!(said.contains("Redis has keys of 1 items that the ledger does not have"), "{said}");
}

/// Redis has a quarter of a million keys of another application.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_ledger_is_compared_with_all_keys_of_redis() {
    const SET: &str = "for i = 1, 10000 do redis.call('SET', ARGV[1] .. ':' .. i, '') end";
    const LOAD: &str =
        "for i = 1, 100 do redis.call('SET', ARGV[1] .. '{item:' .. i .. '}:key', '') end";
    const DROP: &str =
        "for i = 1, 100 do redis.call('DEL', ARGV[1] .. '{item:' .. i .. '}:key') end";
    let redis = own_redis(1, &[]).await.remove(0);
    let shop = Shop::with(|config| config.redis_url = Secret::new(redis.url())).await;
    // The audit wants an item.
    let instance = shop.start().await;
    instance.make_item(json!({})).await;
    instance.stop().await;
    for part in 0..25 {
        let name = format!("other{part}");
        let () = redis.run(&["EVAL", SET, "0", &name]).await.expect("other keys");
    }
    let prefix = shop.config.redis.prefix.clone();
    let () = redis.run(&["EVAL", LOAD, "0", &prefix]).await.expect("keys of items");
    run_says(&shop, &["restored"], (1, "redis: it still has keys of 100 items")).await;
    let () = redis.run(&["EVAL", DROP, "0", &prefix]).await.expect("deleted");
    let (_, said) = run(&shop, &["restored"]).await;
    assert!(said.contains("redis: ok"), "{said}");
    let (_, said) = run(&shop, &["doctor"]).await;
    assert!(said.contains("only the first 200000 keys were looked at"), "{said}");
    redis.stop().await;
}

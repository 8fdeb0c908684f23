//! Accounts of Redis that may not do everything (ACL): the service sells with what it needs, and `doctor` names what lacks.

use dev_servers::RedisServer;

use crate::process::start_mistakes::{assert_found, doctor};
use crate::support::own_redis;
use crate::support::prelude::*;

/// A shop whose account of Redis has these rules, beside the password; `PREFIX` is the beginning of its keys.
async fn shop_of_account(rules: &str) -> (RedisServer, Shop) {
    let redis = own_redis(1, &[]).await.remove(0);
    let url = redis.tcp_url();
    let host = url.rsplit_once('@').expect("an account").1;
    let url = format!("redis://shop:word@{host}");
    let shop = Shop::with(|config| config.redis_url = Secret::new(&url)).await;
    allow(&redis, &shop, rules).await;
    (redis, shop)
}

async fn allow(redis: &RedisServer, shop: &Shop, rules: &str) {
    let rules = rules.replace("PREFIX", &shop.config.redis.prefix);
    let mut command = vec!["ACL", "SETUSER", "shop", "reset", "on", ">word"];
    command.extend(rules.split(' '));
    let () = redis.run(&command).await.expect("an account");
}

/// The finding of the check `redis.rights`.
fn rights(found: &Value) -> &Value {
    let checks = found["checks"].as_array().expect("a list");
    checks.iter().find(|check| check["check"] == "redis.rights").expect("it is checked")
}

/// The usual account of a shared server: no INFO, ROLE, CONFIG or CLIENT. ioredis#1211 is a client that took such a
/// server for absent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_without_info_is_served() {
    let (redis, shop) =
        shop_of_account("~PREFIX* &PREFIX* +@all -@dangerous -@admin -client").await;
    let instance = shop.start().await;
    let ready = instance.stranger().get("/readyz").await.expect_status(200);
    assert_eq!(ready.json["dependencies"]["redis"], "ok", "{}", ready.text);
    let item = instance.make_item(json!({ "stock": 9 })).await;
    for (buyer, (strategy, status)) in
        (1..).zip([("redis-lua", 201), ("redis-stream", 202), ("lock-redis-fair", 201)])
    {
        let answer = instance.buyer(buyer).buy(strategy, item).await;
        assert_eq!(answer.status, status, "{strategy}: {}", answer.text);
    }
    let found = doctor(&shop, &[]).await;
    assert_eq!(found["healthy"], true, "{found:#}");
    let rights = rights(&found);
    assert_eq!(rights["state"], "warning", "{rights}");
    let said = rights["found"].as_str().expect("a sentence");
    assert!(said.contains("lacks the rights +info +role +config:"), "{said}");
    redis.stop().await;
}

/// And no try leaves a key behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_missing_right_is_named() {
    let (redis, shop) = shop_of_account("~PREFIX* &PREFIX* +@all").await;
    assert_eq!(rights(&doctor(&shop, &[]).await)["state"], "ok");
    let prefix = &shop.config.redis.prefix;
    let key = format!("{prefix}doctor");
    for (rules, named) in [
        ("~PREFIX* &PREFIX* +@all -hset", "+hset:"),
        ("~PREFIX* &PREFIX* +@all -@stream", "+xadd +xack +xdel"),
        ("~PREFIX* &PREFIX* +@all -evalsha", "+evalsha:"),
        ("~PREFIX* &PREFIX* +@all -del -set", "+set +del:"),
        ("~PREFIX* &PREFIX* +@all -set -pexpire -unlink -del", "+set +pexpire +unlink +del:"),
        (
            "~PREFIX* &PREFIX* +@all -watch -multi -exec -subscribe",
            "+watch +multi +exec +subscribe:",
        ),
        ("~other:* &PREFIX* +@all", "~PREFIX*:"),
        ("~PREFIX* &other:* +@all", "&PREFIX*:"),
    ] {
        allow(&redis, &shop, rules).await;
        let named = format!("lacks the rights {}", named.replace("PREFIX", prefix));
        assert_found(&doctor(&shop, &[]).await, &named);
        let left: bool = redis.run(&["EXISTS", &key]).await.expect("an answer");
        assert!(!left, "{rules} leaves a key behind");
    }
    redis.stop().await;
}

//! What the operator's tools see: alive, ready, metrics; and no secret in any of them.

use crate::support::prelude::*;

const JOBS: [&str; 3] = ["expire", "reconcile", "revocations"];

/// An instance is alive and ready, and says what its jobs did; one that is not ready says why in the same document. The
/// proxies that come with the service hide `/readyz`. Operators read the same body, ready or not.
#[tokio::test]
async fn an_operator_reads_the_state_by_a_route_that_proxies_pass() {
    let shop = Shop::with_lock_servers(|config| config.session.revocation_period_ms = 200).await;
    let (shop, instance) = shop.opened().await;
    let operator = instance.stranger().with_token(&instance.token(1, Role::Operator));
    let path = "/api/admin/health";
    let has_run = |seen: &Answer| JOBS.iter().all(|job| seen.json["jobs"][job]["ok"] == true);
    let read = operator.until(path, has_run).await;
    assert_eq!((read.status, &read.json["status"]), (200, &json!("ready")), "{}", read.text);
    let stranger = instance.stranger();
    stranger.get("/healthz").await.assert_fields(200, json!({ "status": "alive" }));
    // Sessions with the locks' servers are opened by the first look.
    let servers = ["mysql", "redis", "redlock", "etcd", "zookeeper"];
    let all_well: Value = servers.iter().map(|name| (*name, json!("ok"))).collect();
    let is_well = |seen: &Answer| has_run(seen) && seen.json["dependencies"] == all_well;
    let ready = stranger.until("/readyz", is_well).await;
    assert_eq!((ready.status, &ready.json["status"]), (200, &json!("ready")));
    assert!(ready.json["ledger"].is_string(), "{}", ready.text);
    for job in JOBS {
        for field in ["said", "ended_at"] {
            assert!(ready.json["jobs"][job][field].is_string(), "{job} has no {field}");
        }
    }
    let fields = |body: &Value| {
        let fields = body.as_object().expect("an object").keys();
        fields.cloned().collect::<Vec<_>>()
    };
    assert_eq!(fields(&read.json), fields(&ready.json));
    assert_eq!(fields(&read.json["dependencies"]), fields(&ready.json["dependencies"]));
    shop.change(sqlx::query("DELETE FROM _sqlx_migrations ORDER BY version DESC LIMIT 1")).await;
    operator.get(path).await.assert_fields(200, json!({ "status": "schema is old" }));
    let answer = instance.stranger().get("/readyz").await;
    answer.assert_fields(503, json!({ "status": "schema is old" }));
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.json["dependencies"]["mysql"], "ok", "{}", answer.text);
    // What axum answers by itself still becomes a problem, there too.
    instance.stranger().post("/readyz", &json!({})).await.expect_problem(405, "method_not_allowed");
    assert_problem(&instance.buyer(2).get(path).await, (403, "forbidden"), "a buyer");
}

/// Anybody may ask, and a server that answers late makes each answer late.
#[tokio::test]
async fn many_who_ask_for_the_state_stop_no_purchase() {
    let (shop, instance, item) = Shop::selling_with(json!({}), |config| {
        config.mysql.pool_max = 3;
        config.mysql.acquire_timeout_ms = 500;
    })
    .await;
    let mut holder = shop.pool.acquire().await.expect("a connection");
    let lock = sqlx::raw_sql("LOCK TABLES _sqlx_migrations WRITE");
    lock.execute(&mut *holder).await.expect("the probe waits");
    let stranger = instance.stranger();
    let asked = join_all((0..40).map(|_| stranger.get("/readyz")));
    let bought = async {
        until_running(&shop.pool, "%FROM _sqlx_migrations%", 1).await;
        instance.buyer(1).buy("mysql-atomic", item).await
    };
    let (answers, bought) = tokio::join!(asked, bought);
    sqlx::raw_sql("UNLOCK TABLES").execute(&mut *holder).await.expect("unlocked");
    assert_eq!(bought.status, 201, "{}", bought.text);
    for answer in answers {
        assert_ne!(answer.json["dependencies"]["mysql"], "ok", "{}", answer.text);
    }
}

/// The value of the one metric that has this name and these labels.
fn value(metrics: &str, series: &str) -> Option<f64> {
    let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    value.parse().ok()
}

#[tokio::test]
async fn purchases_refusals_and_the_times_of_locks_are_counted() {
    let (_shop, instance, item) = Shop::selling(json!({})).await;
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201);
    // This strategy has no gate of its own that counts buyers: the arbiter refuses.
    instance.buyer(1).buy("mysql-atomic", item).await.expect_problem(409, "limit_reached");
    assert_eq!(instance.buyer(1).buy("no-such-strategy", item).await.status, 404);
    let put = instance.stranger().request(Method::PUT, "/api/session/password");
    assert_eq!(put.send().await.expect("an answer").status(), 401);
    let answer = instance.stranger().get("/metrics").await;
    let kind = answer.headers["content-type"].to_str().expect("text");
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(answer.text.ends_with("# EOF\n"));
    for (series, expected) in [
        (r#"seckill_purchases_total{strategy="mysql-atomic",outcome="sold"}"#, 1.0),
        (r#"seckill_purchases_total{strategy="mysql-atomic",outcome="limit_reached"}"#, 1.0),
        (r#"seckill_arbiter_refusals_total{strategy="mysql-atomic"}"#, 1.0),
        (r#"seckill_purchase_seconds_count{strategy="mysql-atomic"}"#, 2.0),
        (r#"seckill_http_requests_total{method="POST",status="404"}"#, 1.0),
        (r#"seckill_http_requests_total{method="PUT",status="401"}"#, 1.0),
        (r#"seckill_purchases_in_flight"#, 0.0),
        (r#"seckill_live_streams"#, 0.0),
    ] {
        assert_eq!(value(&answer.text, series), Some(expected), "{series} in\n{}", answer.text);
    }
    // A client cannot make new series.
    assert!(!answer.text.contains("no-such-strategy"));
    assert_times_of_locks_are_counted(&instance, item).await;
}

/// The times are histograms by kind and backend: there are as many waits as were granted, for the kind that was used.
async fn assert_times_of_locks_are_counted(instance: &Instance, item: i64) {
    assert_eq!(instance.buyer(2).buy("lock-redis-fair", item).await.status, 201);
    let text = instance.stranger().get("/metrics").await.text;
    let of_lock = |name: &str, more: &str| {
        value(&text, &format!(r#"seckill_lock{name}{{kind="fair",backend="redis"{more}}}"#))
    };
    let count = |what: &str| of_lock(&format!("_{what}_seconds_count"), "");
    let acquired = of_lock("", r#",event="acquired""#);
    assert!(acquired > Some(0.0), "{text}");
    assert_eq!(count("wait"), acquired);
    // Its release may still be on its way.
    assert!(count("hold").is_some() && count("renewal_lag").is_some(), "{text}");
    assert!(text.contains("seckill_lock_wait_seconds_bucket{"), "{text}");
    assert!(text.contains(r#"le="+Inf""#), "{text}");
}

#[tokio::test]
async fn secrets_do_not_show() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    let token = instance.token(1, Role::Buyer);
    let buyer = instance.stranger().with_token(&token);
    buyer.buy_with_key("default", item, "a-key-of-a-buyer").await;
    let credentials = json!({ "username": "somebody", "password": "planted password" });
    buyer.post("/api/users", &credentials).await;
    let [url, redis_url] =
        [&shop.config.database_url, &shop.config.redis_url].map(|it| it.reveal());
    let typed = [&*token, "a-key-of-a-buyer", "planted password"];
    let secrets = [[shop.config.secret.reveal(), url, redis_url], typed].concat();
    let paths = "/healthz /readyz /metrics /api/openapi.json /api/items /api/strategies /api/locks";
    for path in paths.split(' ') {
        let answer = instance.stranger().get(path).await.expect_status(200);
        for secret in &secrets {
            assert!(!answer.text.contains(secret), "{path} shows {secret:?}");
        }
    }
    assert!(!format!("{:?}", shop.config).contains(shop.config.secret.reveal()));
}

//! How much one user, one address may ask.

use tokio::time::Instant;

use super::throttling::sign_in;
use crate::support::prelude::*;
use crate::support::raw::Raw;

/// Requests at once, far more than the bursts of these tests.
const MANY: usize = 30;
const BURST: u32 = 3;
/// How long a connection without a place is watched.
const UNSERVED: Duration = Duration::from_millis(300);

/// Sends the same request many times at once; answers who was let through and who was not.
async fn press(ask: impl AsyncFn() -> Answer) -> (Vec<Answer>, Vec<Answer>) {
    let started = Instant::now();
    let answers = join_all((0..MANY).map(|_| ask())).await;
    let (limited, passed): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 429);
    // One a second comes in beside the burst.
    let most = u64::from(BURST) + started.elapsed().as_secs() + 1;
    assert!(passed.len() as u64 <= most, "{} of {most} were let in", passed.len());
    assert!(passed.len() as u64 >= u64::from(BURST), "{} were let in", passed.len());
    (passed, limited)
}

#[tokio::test]
async fn a_user_who_asks_too_often_has_to_wait_and_nobody_else() {
    let (_shop, instance, item) = Shop::selling_with(json!({}), |config| {
        config.limits.user_per_second = 1;
        config.limits.user_burst = BURST;
    })
    .await;
    let buyer = instance.buyer(1);
    let (_, limited) = press(async || buyer.buy("mysql-atomic", item).await).await;
    for answer in &limited {
        assert_problem(answer, (429, "rate_limited"), "a press too many");
        answer.assert_fields(429, json!({ "outcome": "none", "retryable": true }));
        assert_eq!(answer.headers["ratelimit-policy"], "\"user\";q=3;w=3");
        let text = |name: &str| answer.headers[name].to_str().expect("text").to_owned();
        let seconds = text("retry-after");
        assert!(seconds.parse::<u32>().is_ok_and(|seconds| seconds >= 1), "{seconds}");
        assert_eq!(text("ratelimit"), format!("\"user\";r=0;t={seconds}"));
    }
    // Another buyer is not touched, nor is who asks without a token, nor an operator.
    assert_eq!(instance.buyer(2).buy("mysql-atomic", item).await.status, 201);
    for _ in 0..2 * BURST {
        assert_eq!(instance.stranger().get("/api/items").await.status, 200);
        assert_eq!(instance.audit(item).await["orders"], 2);
    }
    let metrics = instance.stranger().get("/metrics").await.text;
    assert!(metrics.contains("seckill_http_rate_limited_total{by=\"user\"}"), "{metrics}");
}

/// Counts this machine's requests too, which are left out by default.
fn strict(config: &mut Config) {
    config.limits.loopback_exempt = false;
    config.limits.address_per_second = 1;
    config.limits.address_burst = BURST;
}

#[tokio::test]
async fn an_address_cannot_sign_in_without_end_whatever_it_says_of_itself() {
    let (_shop, instance) = Shop::open_with(strict).await;
    let stranger = instance.stranger();
    let number = std::cell::Cell::new(0);
    let (passed, limited) = press(async || {
        number.set(number.get() + 1);
        // A name that is none, so that no password is hashed.
        let from = format!("10.0.0.{}", number.get());
        sign_in(&stranger, &from, "no name", "long enough").await
    })
    .await;
    assert!(passed.iter().all(|answer| answer.brief() == (401, "invalid_credentials")));
    for answer in &limited {
        assert_problem(answer, (429, "rate_limited"), "a sign-in too many");
        assert_eq!(answer.headers["ratelimit-policy"], "\"address\";q=3;w=3");
    }
    // Buying is not counted by address: a household, or a mobile network, has one.
    let item = instance.make_item(json!({})).await;
    for buyer in 1..=i64::from(2 * BURST) {
        assert_eq!(instance.buyer(buyer).buy("mysql-atomic", item).await.status, 201);
    }
}

/// A new connection that has asked for the health of an instance.
async fn connection(instance: &Instance) -> Raw {
    let mut raw = Raw::connect(instance.addr).await;
    raw.send(&format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", instance.addr)).await;
    raw
}

/// Two connections that were answered, and a third one that has asked.
async fn three_connections(instance: &Instance) -> [Raw; 3] {
    let (mut one, mut two) = (connection(instance).await, connection(instance).await);
    for raw in [&mut one, &mut two] {
        assert_eq!(raw.answer().await.status, 200);
    }
    [one, two, connection(instance).await]
}

#[tokio::test]
async fn one_address_cannot_take_all_connections() {
    let (_shop, instance) = Shop::open_with(|config| {
        config.limits.loopback_exempt = false;
        config.limits.address_connections_max = 2;
    })
    .await;
    let [_one, two, mut third] = three_connections(&instance).await;
    assert_eq!(third.answer().await.status, 0, "a third connection is served");
    drop(two);
    eventually(BOUND, || async {
        let mut raw = connection(&instance).await;
        let status = raw.answer().await.status;
        when(status == 200, status)
    })
    .await;
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_a_place() {
    let (_shop, instance) = Shop::open_with(|config| config.http.connections_max = 2).await;
    let [_one, two, mut third] = three_connections(&instance).await;
    let early = tokio::time::timeout(UNSERVED, third.answer()).await;
    assert!(early.is_err(), "a third connection is served");
    drop(two);
    assert_eq!(third.answer().await.status, 200, "its turn has come");
}

#[test]
fn the_limits_are_on_by_default_and_leave_this_machine_alone() {
    let limits = Config::defaults().limits;
    assert!(limits.user_per_second > 0 && limits.address_per_second > 0);
    assert!(limits.address_connections_max < Config::defaults().http.connections_max);
    assert!(limits.loopback_exempt);
}

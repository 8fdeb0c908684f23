//! An event stream lives no longer than the session that opened it.

use crate::support::prelude::*;

const ORDERS: &str = "/api/orders/events";

async fn sign_out(client: &Client) {
    client.delete("/api/session").await.expect_status(204);
}

/// A session ends with a sign-out, on other instances too, or with its token.
#[tokio::test]
async fn the_streams_of_a_session_end_with_it_and_no_others() {
    let shop = Shop::with(|config| config.session.revocation_period_ms = 100).await;
    let (_shop, instance, there) = shop.opened_twice().await;
    let (leaving, staying) = (instance.buyer(1), instance.buyer(1));
    let abroad = there.stranger().with_token(leaving.token().expect("a token"));
    let ending = [leaving.events(ORDERS).await, abroad.events(ORDERS).await];
    let mut other = staying.events(ORDERS).await;
    assert_eq!(abroad.get("/api/orders").await.status, 200);
    sign_out(&leaving).await;
    // The token ends here at once, and elsewhere soon.
    leaving.get("/api/orders").await.expect_problem(401, "invalid_token");
    for mut events in ending {
        assert!(events.ends(BOUND).await, "the stream of a session that was signed out is open");
    }
    abroad.until("/api/orders", |seen| seen.brief() == (401, "invalid_token")).await;
    // Another session of the same buyer goes on: it hears of a purchase that comes later.
    let item = instance.make_item(json!({})).await;
    assert_eq!(staying.buy("mysql-atomic", item).await.status, 201);
    other.seek(BOUND, |event| event.name == "order").await.expect("the other stream is open");
    // An operator who signs out sees no more of the lab, where a run goes on for longer than a test.
    let plan = json!({
        "strategies": ["mysql-atomic"], "stock": 10_000, "buyers": 10_000, "requests": 100_000,
        "concurrency": 1, "seconds_max": 120,
    });
    let run = instance.admin().post("/api/lab/runs", &plan).await.expect_status(202);
    let run = format!("/api/lab/runs/{}", run.json["id"].as_str().expect("an id"));
    let operator = instance.admin();
    let mut ending = operator.events(&format!("{run}/events")).await;
    sign_out(&operator).await;
    assert!(ending.ends(BOUND).await, "the stream of an operator who signed out is open");
    assert_eq!(instance.admin().get(&run).await.json["state"], "running", "the run itself goes on");
    instance.admin().delete(&run).await;
    instance.clock.shift(time::Duration::hours(2));
    assert!(other.ends(BOUND).await, "the stream of a token that has expired is open");
}

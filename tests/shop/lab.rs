//! The lab in the service: verdicts that can be trusted, one run at a time, for operators only.

use lifecycle::StopResult;

use crate::support::prelude::*;

/// Runs must come to their end on a machine that is busy with other tests.
const RUN_BOUND: Duration = Duration::from_secs(90);

/// A small run of one strategy, with `changes` on top.
fn wanted(strategies: &[&str], changes: Value) -> Value {
    let body = json!({ "strategies": strategies, "stock": 20, "buyers": 120, "concurrency": 40 });
    changed(body, changes)
}

async fn start(instance: &Instance, body: &Value) -> String {
    let answer = instance.admin().post("/api/lab/runs", body).await.expect_status(202);
    let id = answer.json["id"].as_str().expect("an id").to_owned();
    assert_eq!(answer.headers["location"], format!("/api/lab/runs/{id}"));
    id
}

async fn look(instance: &Instance, id: &str) -> Value {
    instance.admin().get(&format!("/api/lab/runs/{id}")).await.json
}

/// Waits for the end of a run.
async fn ended(instance: &Instance, id: &str) -> Value {
    until(RUN_BOUND, || look(instance, id), |run| run["state"] != "running").await
}

async fn run(instance: &Instance, body: &Value) -> Value {
    let id = start(instance, body).await;
    ended(instance, &id).await
}

async fn cancel(client: &Client, id: &str) -> Answer {
    client.delete(&format!("/api/lab/runs/{id}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_naive_strategy_is_caught_alone_and_saved_by_the_arbiter() {
    let (shop, instance) = Shop::open().await;
    let body = wanted(&["mysql-naive", "mysql-atomic"], json!({ "arbiter": "both" }));
    let run = run(&instance, &body).await;
    assert_eq!(run["state"], "done", "{run}");
    let lanes = run["lanes"].as_array().expect("lanes");
    let brief = |it: &Value| json!([it["strategy"], it["arbiter"], it["verdict"], it["safe"]]);
    let told: Vec<_> = lanes.iter().map(brief).collect();
    let expected = [
        json!(["mysql-naive", "off", "oversold", false]),
        json!(["mysql-naive", "on", "clean", false]),
        json!(["mysql-atomic", "off", "clean", true]),
        json!(["mysql-atomic", "on", "clean", true]),
    ];
    assert_eq!(told, expected, "{run}");
    for lane in lanes {
        assert_eq!((&lane["state"], &lane["as_declared"]), (&json!("done"), &json!(true)));
        assert_eq!(lane["requests_done"], 120, "{lane}");
        let answers = ["accepted", "refused", "unavailable", "unknown"].map(|field| &lane[field]);
        let answered: i64 = answers.iter().filter_map(|count| count.as_i64()).sum();
        assert_eq!(answered, 120, "{lane}");
        for field in ["p50", "p90", "p99", "max"] {
            assert!(lane["latency_ms"][field].as_f64() > Some(0.0), "{lane}");
        }
        // What it says is what the ledger says.
        let (item, sold) = (lane["item_id"].as_i64().expect("an item"), &lane["sold"]);
        let orders = "SELECT COUNT(*) FROM orders WHERE item_id = ?";
        let orders: i64 = shop.read(sqlx::query_scalar(orders).bind(item)).await;
        assert_eq!(sold, &json!(orders));
        assert_has(lane, json!({ "accepted": orders, "oversold": (orders - 20).max(0) }));
        assert_eq!(lane["violations"].as_array().map(Vec::is_empty), Some(orders == 20));
        // Nobody buys it later.
        let late = instance.buyer(9_999).buy("mysql-atomic", item).await;
        assert_eq!(late.brief(), (409, "sale_ended"), "{}", late.text);
    }
    assert!(lanes[0]["refused_by"].is_object() && lanes[0]["oversold"].as_i64() > Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_rounds_and_several_units_are_understood() {
    let (_shop, instance) = Shop::open().await;
    let changes = json!({ "rounds": 2, "quantity": 3, "buyers": 5, "requests": 20,
        "concurrency": 10, "stock": 20 });
    let body = wanted(&["lock-redis?scope=market&store=redis", "redis-lua"], changes);
    let run = run(&instance, &body).await;
    let lanes = run["lanes"].as_array().expect("lanes");
    let names: Vec<_> = lanes.iter().map(|lane| (&lane["strategy"], &lane["round"])).collect();
    let (lock, lua) = (json!("lock-redis?scope=market&store=redis"), json!("redis-lua"));
    let (one, two) = (json!(1), json!(2));
    assert_eq!(names, [(&lock, &one), (&lua, &one), (&lua, &two), (&lock, &two)]);
    for lane in lanes {
        // Six times three units; two are left, which is too few for anybody.
        assert_eq!((&lane["sold"], &lane["undersold"]), (&json!(18), &json!(0)), "{lane}");
        assert_eq!((&lane["verdict"], &lane["accepted"]), (&json!("clean"), &json!(6)), "{lane}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_run_at_a_time_which_can_be_ended() {
    let (shop, instance) = Shop::open().await;
    let admin = instance.admin();
    // Losers sleep for two seconds, so it is still at it when it is ended.
    let changes = json!({ "requests": 100_000, "concurrency": 100, "stock": 10_000 });
    let long = wanted(&["lock-redis?wait=sleep-2000", "mysql-atomic"], changes);
    let id = start(&instance, &long).await;
    let busy = admin.post("/api/lab/runs", &wanted(&["mysql-atomic"], json!({}))).await;
    assert_problem(&busy, (409, "lab_busy"), "a second run");
    cancel(&admin, &id).await.assert_fields(200, json!({ "id": id }));
    let run = ended(&instance, &id).await;
    assert_eq!(run["state"], "cancelled", "{run}");
    assert!(run["finished_at"].is_string());
    for lane in run["lanes"].as_array().expect("lanes") {
        assert_eq!((&lane["state"], &lane["verdict"]), (&json!("skipped"), &Value::Null), "{lane}");
    }
    let open = "SELECT COUNT(*) FROM items WHERE ends_at > UTC_TIMESTAMP(6)";
    assert_eq!(shop.number(open).await, 0, "an item that was being made is still on sale");
    // Ending it again changes nothing, and the lab is free.
    assert_eq!(cancel(&admin, &id).await.json, run);
    let log = admin.get("/api/admin/actions").await.text;
    for action in ["lab_run_started", "lab_run_ended"] {
        assert!(log.contains(action), "{action}: {log}");
    }
    let next = start(&instance, &wanted(&["mysql-atomic"], json!({}))).await;
    assert_eq!(ended(&instance, &next).await["lanes"][0]["verdict"], "clean");
    let listed = admin.get("/api/lab/runs").await.json;
    let runs = listed["runs"].as_array().expect("runs").iter();
    let ids: Vec<_> = runs.map(|run| &run["id"]).collect();
    assert_eq!(ids, [&json!(next), &json!(id)]);
    // A run ends with its instance.
    let id = start(&instance, &long).await;
    let item = eventually(BOUND, || async {
        let run = look(&instance, &id).await;
        run["lanes"][0]["item_id"].as_i64().ok_or(run)
    })
    .await;
    assert_eq!(instance.stop().await, StopResult::Clean);
    let open = "SELECT ends_at > UTC_TIMESTAMP(6) FROM items WHERE id = ?";
    let open: bool = shop.read(sqlx::query_scalar(open).bind(item)).await;
    assert!(!open, "the lab's item is still on sale");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_told_as_it_goes() {
    let (_shop, instance) = Shop::open().await;
    let admin = instance.admin();
    // A lock on everything, which is slow enough to be seen at work.
    let body = wanted(&["lock-redis?scope=market&wait=sleep-200"], json!({ "buyers": 60 }));
    let id = start(&instance, &body).await;
    let events = format!("/api/lab/runs/{id}/events");
    let mut stream = admin.events(&events).await;
    let first = stream.seek(BOUND, |event| event.name == "run").await.expect("the run at first");
    assert_eq!(first.data["id"], json!(id));
    let progress = stream.seek(BOUND, |event| event.name == "progress").await.expect("progress");
    let fields = "index elapsed_ms requests_done accepted refused unavailable unknown available sold oversold";
    for field in fields.split(' ') {
        assert!(progress.data[field].is_i64(), "{field}: {}", progress.data);
    }
    let lane =
        stream.seek(RUN_BOUND, |event| event.name == "lane" && event.data["state"] == "done");
    let lane = lane.await.expect("the lane's end");
    let done = stream.seek(BOUND, |event| event.name == "done").await.expect("the run's end");
    assert_eq!((&done.data["state"], &done.data["lanes"][0]), (&json!("done"), &lane.data));
    assert_eq!(done.data, look(&instance, &id).await);
    assert!(stream.ends(BOUND).await, "it goes on after the end");
    // Who comes late is told how it ended.
    let mut late = admin.events(&events).await;
    late.seek(BOUND, |event| event.name == "run").await.expect("the run");
    let done = late.seek(BOUND, |event| event.name == "done").await.expect("its end");
    assert_eq!(done.data["state"], "done");
    assert!(late.ends(BOUND).await);
}

#[tokio::test]
async fn a_run_out_of_bounds_is_refused() {
    let (_shop, instance) = Shop::open().await;
    let too_many = vec!["mysql-atomic"; 501];
    for (changes, code) in [
        (json!({ "strategies": [] }), "lanes_out_of_range"),
        (json!({ "strategies": too_many }), "lanes_out_of_range"),
        (json!({ "strategies": ["nothing"] }), "unknown_strategy"),
        (json!({ "strategies": ["default"] }), "unknown_strategy"),
        (json!({ "strategies": ["mysql-atomic?scope=item"] }), "invalid_options"),
        (json!({ "strategies": ["lock-redis?scope=moon"] }), "invalid_options"),
        (json!({ "stock": 0 }), "stock_out_of_range"),
        (json!({ "stock": 10_001 }), "stock_out_of_range"),
        (json!({ "buyers": 0 }), "out_of_range"),
        (json!({ "buyers": 10_001 }), "out_of_range"),
        (json!({ "requests": 100_001 }), "out_of_range"),
        (json!({ "concurrency": 1_001 }), "out_of_range"),
        (json!({ "rounds": 6 }), "out_of_range"),
        (json!({ "quantity": 11 }), "quantity_out_of_range"),
        (json!({ "seconds_max": 121 }), "out_of_range"),
        (json!({ "seconds_max": "30" }), "invalid_type"),
        (json!({ "arbiter": "maybe" }), "invalid_type"),
        (json!({ "colour": "red" }), "unknown_field"),
    ] {
        let body = wanted(&["mysql-atomic"], changes.clone());
        let refused = instance.admin().post("/api/lab/runs", &body).await;
        assert_problem(&refused, (422, code), &changes.to_string());
    }
    let bare = json!({ "strategies": ["redis-lua"] });
    instance.admin().post("/api/lab/runs", &bare).await.expect_problem(422, "missing_field");
    assert_eq!(instance.admin().get("/api/lab/runs").await.json["runs"], json!([]));
    for path in ["/api/lab/runs/nothing", "/api/lab/runs/nothing/events"] {
        assert_problem(&instance.admin().get(path).await, (404, "run_not_found"), path);
    }
    assert_problem(&cancel(&instance.admin(), "nothing").await, (404, "run_not_found"), "ending");
}

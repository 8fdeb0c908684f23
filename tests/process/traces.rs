//! Traces: the tree of a purchase, who decides about sampling, and what a dead collector harms:
//! nothing.

mod tree;

use lifecycle::StopResult;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::process::program::LoggedService;
use crate::support::prelude::*;
use crate::support::trace_collector::Collector;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A shop that sends its spans to `url`, all that are begun.
async fn shop_with_traces(url: &str, ratio: f64) -> Shop {
    Shop::with(|config| {
        config.traces.endpoint = url.to_owned();
        config.traces.sample_ratio = ratio;
        config.traces.per_second_max = 1_000_000;
        config.traces.period_ms = 10;
    })
    .await
}

/// Buys with a `traceparent`.
async fn buy_with(client: &Client, strategy: &str, item: i64, traceparent: &str) -> Answer {
    let request = client.request(Method::POST, &purchase_path(strategy, item));
    Client::send(request.header("traceparent", traceparent)).await
}

fn traceparent(number: u8, flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}").replacen("0af7", &format!("{number:02x}f7"), 1)
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// The id of the trace that an answer names.
fn answered_trace(answer: &Answer) -> String {
    let text = answer.headers["traceresponse"].to_str().expect("text");
    text.split('-').nth(1).expect("an id").to_owned()
}

/// One call of the database's procedure is one span. Without the procedure, COMMIT has a span of its own.
#[tokio::test]
async fn a_purchase_is_a_tree_below_the_span_of_its_caller() {
    for (order_routine, parts) in [(true, ""), (false, "      COMMIT\n")] {
        let collector = Collector::start().await;
        let mut shop = shop_with_traces(collector.url(), 0.0).await;
        shop.config.mysql.order_routine = order_routine;
        let instance = shop.start().await;
        let item = instance.make_item(json!({})).await;
        let parent = format!("00-{TRACE}-{PARENT}-01");
        let answer = buy_with(&instance.buyer(7), "mysql-atomic", item, &parent).await;
        assert_eq!((answer.status, &*answered_trace(&answer)), (201, TRACE), "{}", answer.text);
        let spans = collector.whole_trace(TRACE).await;
        let tree = tree::lines(&spans, &spans[0].trace_id);
        let expected = "\
POST /api/seckill/{strategy}/{item_id}
  admission
  gate
    connection wait
    transaction
";
        assert_eq!(tree, format!("{expected}{parts}"));
        let root = named(&spans, "POST /api/seckill/{strategy}/{item_id}")[0];
        assert_eq!(hex::encode(&root.parent_span_id), PARENT);
        let response = answer.headers["traceresponse"].to_str().expect("text");
        assert!(response.contains(&hex::encode(&root.span_id)));
        let facts: Vec<&str> = root.attributes.iter().map(|fact| fact.key.as_str()).collect();
        assert_eq!(facts, ["item", "outcome", "http.response.status_code"]);
        assert!(collector.resource().contains(&"service.name=seckill".to_owned()));
    }
}

/// Orders that wait together are one batch. Its span links to each order's, and each order's to it.
#[tokio::test]
async fn a_batch_links_to_the_orders_in_it() {
    for strategy in ["mysql-batch", "lock-redis"] {
        let collector = Collector::start().await;
        let (shop, instance) = shop_with_traces(collector.url(), 0.0).await.opened().await;
        let item = instance.make_item(json!({ "stock": 100 })).await;
        let held = hold_stock_row(&shop.pool, item).await;
        let buyers = (1_u8..=12).map(|buyer| {
            let client = instance.buyer(buyer.into());
            // Some are not sampled.
            let flags = if buyer % 4 == 0 { "00" } else { "01" };
            async move { buy_with(&client, strategy, item, &traceparent(buyer, flags)).await }
        });
        let buyers = tokio::spawn(join_all(buyers.collect::<Vec<_>>()));
        until_in_flight(&instance, 12).await;
        held.rollback().await.expect("the row is free");
        for answer in buyers.await.expect("no panic") {
            assert_eq!(answer.status, 201, "{strategy}: {}", answer.text);
        }
        let sampled = [1_u8, 2, 3, 5, 6, 7, 9, 10, 11];
        for buyer in sampled {
            collector.whole_trace(&traceparent(buyer, "01")[3..35]).await;
        }
        let spans = collector.spans();
        let (shared, own): (Vec<&Span>, Vec<&Span>) =
            named(&spans, "batch").into_iter().partition(|span| span.parent_span_id.is_empty());
        let linked: usize = shared.iter().map(|batch| batch.links.len()).sum();
        assert!(linked >= 6, "{strategy}: orders that waited were written together: {spans:#?}");
        assert_eq!(linked, own.len(), "{strategy}: each order of a batch has its own span");
        for one in &own {
            let batch = shared.iter().find(|batch| batch.span_id == one.links[0].span_id);
            let batch = batch.expect("the batch that it names");
            assert!(batch.links.iter().any(|link| link.span_id == one.span_id));
        }
        let one = own.last().expect("a batch");
        let text = tree::lines(&spans, &one.trace_id);
        let wait = if strategy == "lock-redis" { "lock wait" } else { "batch wait" };
        for name in [wait, "batch", "transaction", "rows", "stock", "COMMIT"] {
            assert!(text.contains(name), "{strategy}: no {name:?} in\n{text}");
        }
    }
}

#[tokio::test]
async fn the_decision_of_the_caller_beats_the_ratio() {
    let collector = Collector::start().await;
    let buy = async |instance: &Instance, item: i64, buyer: u8, flags: &str| {
        let parent = traceparent(buyer, flags);
        buy_with(&instance.buyer(buyer.into()), "mysql-atomic", item, &parent).await
    };
    for (ratio, flags, is_traced) in
        [(0.0, "01", true), (1.0, "00", false), (0.0, "00", false), (1.0, "03", true)]
    {
        let (_shop, instance) = shop_with_traces(collector.url(), ratio).await.opened().await;
        let item = instance.make_item(json!({})).await;
        let answer = buy(&instance, item, 1, flags).await.expect_status(201);
        let answered = answer.headers.contains_key("traceresponse");
        assert_eq!(answered, is_traced, "ratio {ratio}, flags {flags}");
        // Without a caller's decision the ratio decides.
        let own = instance.buyer(2).buy("mysql-atomic", item).await;
        assert_eq!(own.headers.contains_key("traceresponse"), ratio > 0.5, "ratio {ratio}");
    }
    let mut shop = shop_with_traces(collector.url(), 0.0).await;
    shop.config.traces.accept_parents = false;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    let answer = buy(&instance, item, 1, "01").await;
    assert!(!answer.headers.contains_key("traceresponse"), "a stranger is not believed");
}

/// The decision about queued orders is a trace of its own.
#[tokio::test]
async fn a_queued_order_is_traced_into_the_queue_and_out_of_it() {
    let collector = Collector::start().await;
    let mut shop = shop_with_traces(collector.url(), 1.0).await;
    // A call of the database's procedure has no span for its COMMIT.
    shop.config.mysql.order_routine = false;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    instance.buyer(1).buy_for_good("redis-stream", item).await.expect_status(201);
    eventually("both traces", || async {
        let spans = collector.spans();
        let has = |name| !named(&spans, name).is_empty();
        let decided = named(&spans, "queued orders").first().map(|span| span.trace_id.clone());
        let commits = named(&spans, "COMMIT");
        let is_decided = commits.iter().any(|span| Some(&span.trace_id) == decided.as_ref());
        (has("queue push") && is_decided).then_some(())
    })
    .await;
}

/// A collector that is not there, and one that takes connections and answers nothing.
#[tokio::test]
async fn a_dead_collector_harms_no_purchase() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent_addr = silent.local_addr().expect("an address").to_string();
    for addr in [free_addr(), silent_addr] {
        let mut shop = shop_with_traces(&format!("http://{addr}/v1/traces"), 1.0).await;
        shop.config.traces.queue_max = 16;
        shop.config.traces.batch_max = 8;
        shop.config.traces.timeout_ms = 300;
        let instance = shop.start().await;
        let item = instance.make_item(json!({ "stock": 60 })).await;
        let buyers = (1..=60).map(|buyer| {
            let client = instance.buyer(buyer);
            async move { client.buy("mysql-batch", item).await.status }
        });
        assert_eq!(join_all(buyers).await, [201; 60]);
        let counts = eventually("spans that were not sent", || async {
            let metrics = instance.stranger().get("/metrics").await.text;
            let of = |result: &str| {
                let line = format!("seckill_trace_spans_total{{result=\"{result}\"}} ");
                metrics.lines().find_map(|text| text.strip_prefix(&line)?.parse::<u64>().ok())
            };
            (of("failed").zip(of("dropped"))).filter(|_| of("sent").is_none())
        })
        .await;
        assert!(counts.0 > 0 && counts.1 > 0, "{counts:?}");
        assert_eq!(instance.stop().await, StopResult::Clean, "the stop waits for no collector");
    }
}

/// What ends just before the stop is sent, too, with the headers of the settings.
#[tokio::test]
async fn a_stop_sends_the_last_spans() {
    let collector = Collector::start().await;
    let mut shop = shop_with_traces(collector.url(), 1.0).await;
    shop.config.traces.period_ms = 60_000;
    shop.config.traces.headers = Secret::new("x-token=secret-of-the-collector");
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    let answer = instance.buyer(1).buy("mysql-atomic", item).await;
    let trace = answered_trace(&answer);
    assert_eq!(instance.stop().await, StopResult::Clean);
    assert!(!collector.whole_trace(&trace).await.is_empty());
    assert_eq!(collector.header("x-token").as_deref(), Some("secret-of-the-collector"));
}

#[tokio::test]
async fn a_traced_line_of_the_log_names_its_trace() {
    let collector = Collector::start().await;
    let (shop, maker, item) = Shop::selling(json!({})).await;
    // Without an endpoint nothing is traced.
    let untraced = buy_with(&maker.buyer(3), "mysql-atomic", item, &traceparent(1, "01")).await;
    assert!(!untraced.expect_status(201).headers.contains_key("traceresponse"));
    for (buyer, format) in [(1, "text"), (2, "json")] {
        let token = maker.token(buyer, Role::Buyer);
        let mut serve = program(&shop, &["serve"]);
        serve.env("SECKILL_LOG_FILTER", "debug").env("SECKILL_LOG_FORMAT", format);
        serve.env("SECKILL_TRACES_ENDPOINT", collector.url());
        serve.env("SECKILL_TRACES_SAMPLE_RATIO", "0");
        // Statements with values in their text are not logged.
        serve.env("SECKILL_MYSQL_ORDER_ROUTINE", "false");
        let service = LoggedService::start(&mut serve).await;
        let client = service.stranger.with_token(&token);
        let parent = format!("00-{TRACE}-{PARENT}-01");
        buy_with(&client, "mysql-atomic", item, &parent).await.expect_status(201);
        let log = service.stop().await;
        let insert = log.lines().find(|line| line.contains("INSERT INTO orders"));
        let insert = insert.expect("statements are logged at this level");
        assert!(insert.contains(TRACE), "{format}: {insert}");
        let others = log.lines().filter(|line| line.contains("SELECT"));
        assert!(others.clone().count() > 0 && others.clone().any(|line| !line.contains(TRACE)));
    }
}

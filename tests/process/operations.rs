//! What operators use is checked against the service: alert rules, dashboards and the compose file
//! against the metrics and the settings.

use std::fs;
use std::process::Command;

use events::metrics::EventMetrics;
use seckill::config::DEFAULTS;
use shop_metrics::LockTime;

use crate::house::docs::{read, root};
use crate::support::crowd::{metric, until_figure};
use crate::support::prelude::*;

const RULES: &str = "deploy/prometheus/rules.yml";
const RULES_TEST: &str = "deploy/prometheus/rules_test.yml";
const RUNBOOK: &str = "docs/operations.md";
/// What OpenMetrics appends to the name of a metric.
const SUFFIXES: [&str; 4] = ["_total", "_bucket", "_count", "_sum"];

/// The names of all metrics, as the service writes them. A metric with labels is written when it
/// has a value.
fn metrics() -> BTreeSet<String> {
    let metrics = Metrics::new();
    metrics.purchase_ended("lock-redis", "sold", 0.1);
    metrics.arbiter_refused("lock-redis", "sold_out");
    metrics.queue_decided("sold");
    metrics.request_answered("GET", 200);
    metrics.rate_limited("user");
    metrics.waiting_room_answered("waiting");
    metrics.waiting_room_left("bought", 1);
    metrics.waiting.changed("offered");
    metrics.breaker_is_open("redis", true);
    metrics.job_ran("expire", "ok");
    metrics.audit.found("I1", 0);
    metrics.trace_spans("sent", 1);
    let events = EventMetrics::default();
    metrics.add(|registry| events.register(registry));
    events.failed(true);
    events.set_lag(1, 0, 0);
    let _ = payment::open_refunds(&metrics);
    metrics.lock_counted("token", "redis", "acquired", 1);
    for time in [LockTime::Wait, LockTime::Hold, LockTime::RenewalLag] {
        metrics.lock_took("token", "redis", time, [(1_000, 1)].into_iter(), 1, 500);
    }
    let text = metrics.render();
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: BTreeSet<String> =
        names.map(|rest| rest.split(' ').next().expect("a name").to_owned()).collect();
    let source = read("crates/shop-metrics/src/lib.rs");
    let table = source.split_once("\nmetrics! {").and_then(|(_, rest)| rest.split_once("\n}\n"));
    let quoted = table.expect("the table of the metrics").0.split('"').skip(1).step_by(2);
    let is_name = |text: &&str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    for name in quoted.filter(is_name) {
        let known = names.iter().any(|known| known.starts_with(&format!("seckill_{name}")));
        assert!(known, "let this test give {name} a value");
    }
    names
}

/// The metrics of the service that a text names, without their suffixes.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let names = words.filter(|word| word.starts_with("seckill_"));
    let bare = |name: &str| {
        SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).map(str::to_owned)
    };
    names.map(|name| bare(name).unwrap_or_else(|| name.to_owned())).collect()
}

/// The texts of all dashboards, by their names.
fn dashboards() -> Vec<(String, String)> {
    let folder = root().join("deploy/grafana");
    let entries = fs::read_dir(folder).expect("the folder of the dashboards").flatten();
    let files = entries.map(|entry| entry.file_name().into_string().expect("a name"));
    let files = files.filter(|name| name.ends_with(".json"));
    files.map(|name| (name.clone(), read(format!("deploy/grafana/{name}")))).collect()
}

#[test]
fn rules_dashboards_and_runbook_name_the_metrics_of_the_service() {
    let metrics = metrics();
    assert!(metrics.len() > 30, "{metrics:?}");
    let dashboards = dashboards();
    let mut shown = BTreeSet::new();
    for (name, text) in &dashboards {
        let dashboard: Value = serde_json::from_str(text).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        assert!(!panels.is_empty(), "{name} has no panels");
        let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("queries"));
        for query in queries {
            shown.extend(named(query["expr"].as_str().expect("a query")));
        }
    }
    let mut texts = vec![(RULES.to_owned(), read(RULES)), (RUNBOOK.to_owned(), read(RUNBOOK))];
    texts.push(("README.md".to_owned(), read("README.md")));
    texts.extend(dashboards);
    for (file, text) in texts {
        for name in named(&text) {
            assert!(metrics.contains(&name), "{file}: the service has no metric {name}");
        }
    }
    let hidden: Vec<_> = metrics.difference(&shown).collect();
    assert!(hidden.is_empty(), "no dashboard shows {hidden:?}");
    let runbook = named(&read(RUNBOOK));
    let missing: Vec<_> = metrics.difference(&runbook).collect();
    assert!(missing.is_empty(), "the list of metrics in {RUNBOOK} has no {missing:?}");
}

/// The names of the alerts in the rules.
fn alerts() -> Vec<String> {
    let rules = read(RULES);
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

#[test]
fn each_alert_has_a_test_and_an_entry_in_the_runbook() {
    let (tests, runbook) = (read(RULES_TEST), read(RUNBOOK));
    let alerts = alerts();
    assert!(alerts.len() >= 15, "{alerts:?}");
    for alert in alerts {
        assert!(tests.contains(&format!("- name: {alert}\n")), "{RULES_TEST} has no {alert}");
        assert!(runbook.contains(&format!("\n### {alert}\n")), "{RUNBOOK} has no {alert}");
        let anchor = format!("{RUNBOOK}#{}", alert.to_lowercase());
        assert!(read(RULES).contains(&anchor), "{alert} does not lead to {anchor}");
    }
}

/// The program `promtool`: one's own, or the one that scripts/prometheus-program has fetched.
fn promtool() -> PathBuf {
    if let Some(own) = std::env::var_os("SECKILL_PROMTOOL") {
        return own.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let fetched = cache.map(|cache| cache.join("seckill/promtool"));
    fetched.filter(|path| path.is_file()).unwrap_or_else(|| "promtool".into())
}

#[test]
fn each_alert_fires_and_clears() {
    let mut command = Command::new(promtool());
    command.args(["test", "rules"]).arg(root().join(RULES_TEST));
    let tested = command.output();
    let tested = tested.expect("promtool runs: scripts/prometheus-program fetches it");
    let text =
        String::from_utf8_lossy(&[&tested.stdout[..], &tested.stderr[..]].concat()).into_owned();
    assert!(tested.status.success() && text.contains("SUCCESS"), "{text}");
}

/// The lines that a compose file or a manifest has for each setting.
#[test]
fn compose_forwards_every_setting() {
    let defaults: toml::Table = toml::from_str(&DEFAULTS).expect("defaults.toml is TOML");
    let compose = read("docker-compose.yml");
    let mut missing = Vec::new();
    for (key, value) in &defaults {
        let names: Vec<String> = match value.as_table() {
            Some(section) => section.keys().map(|inner| format!("SECKILL_{key}_{inner}")).collect(),
            None if key.ends_with("_url") => vec![key.clone()],
            None => vec![format!("SECKILL_{key}")],
        };
        for name in names.iter().map(|name| name.to_uppercase()) {
            // By its own name alone: forwarded when it is set, and left out when it is not.
            let forwarded = compose.lines().any(|line| {
                let line = line.trim();
                line == format!("{name}:") || line.starts_with(&format!("{name}: "))
            });
            if !forwarded {
                missing.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "docker-compose.yml does not forward {missing:#?}");
}

/// The base image has none, and without them nothing is sent by https.
#[test]
fn each_image_has_the_authorities_of_other_systems() {
    let dockerfile = read("Dockerfile");
    let stages = dockerfile.split("\nFROM ").filter(|stage| stage.starts_with("${BASE_IMAGE}"));
    let stages: Vec<&str> = stages.collect();
    assert_eq!(stages.len(), 2, "{stages:?}");
    for stage in stages {
        assert!(
            stage.contains("\nCOPY --from=build /etc/ssl/certs/ca-certificates.crt"),
            "{stage}"
        );
    }
}

#[tokio::test]
async fn the_audit_job_finds_a_broken_invariant_and_its_repair() {
    let (shop, instance) = Shop::open_with(|config| config.job.audit_period_ms = 50).await;
    let body = json!({ "kind": "shop", "stock": 7, "strategy": "mysql-atomic" });
    let item = instance.make_item(body.clone()).await;
    let seen = async |series: &str, value: &str| {
        until_metric(&instance.stranger(), &format!("{series} {value}")).await;
    };
    seen("seckill_sales_with_stock", "1").await;
    seen(r#"seckill_audit_broken_items{invariant="I1"}"#, "0").await;
    let change = async |delta: i64| {
        let statement = "UPDATE stock SET available = available + ? WHERE item_id = ?";
        shop.change(sqlx::query(statement).bind(delta).bind(item)).await;
    };
    change(-2).await;
    seen(r#"seckill_audit_broken_items{invariant="I1"}"#, "1").await;
    change(2).await;
    seen(r#"seckill_audit_broken_items{invariant="I1"}"#, "0").await;
    seen(r#"seckill_audit_broken_items{invariant="I14"}"#, "0").await;
    // A unit that is offered to nobody.
    let offer = "UPDATE stock SET available = available - 1, offered = 1 WHERE item_id = ?";
    shop.change(sqlx::query(offer).bind(item)).await;
    seen(r#"seckill_audit_broken_items{invariant="I13"}"#, "1").await;
    // Both items have lines of an order that lacks its third one.
    let other = instance.make_item(body).await;
    let cart = json!({ "lines": [{ "item_id": item }, { "item_id": other }] });
    assert_eq!(instance.buyer(1).post("/api/reservations", &cart).await.status, 201);
    seen(r#"seckill_audit_broken_items{invariant="I20"}"#, "0").await;
    shop.change(sqlx::query("UPDATE orders SET line_count = 3")).await;
    seen(r#"seckill_audit_broken_items{invariant="I20"}"#, "2").await;
    seen(r#"seckill_audit_broken_items{invariant="I1"}"#, "0").await;
    shop.change(sqlx::query("DELETE FROM stock WHERE item_id = ?").bind(item)).await;
    seen(r#"seckill_audit_broken_items{invariant="I1"}"#, "1").await;
}

/// The damaged sale is the first of each pass.
#[tokio::test]
async fn a_sale_that_cannot_be_audited_hides_no_other() {
    let (shop, instance) = Shop::open_with(|config| config.job.audit_period_ms = 50).await;
    let body = json!({ "kind": "shop", "stock": 7, "strategy": "mysql-atomic" });
    let damaged = instance.make_item(body.clone()).await;
    let behind = instance.make_item(body).await;
    assert_eq!(instance.buyer(1).buy("mysql-atomic", damaged).await.status, 201);
    let damage = sqlx::query("UPDATE orders SET id = 'damaged', line_count = 2 WHERE item_id = ?");
    assert_eq!(shop.change(damage.bind(damaged)).await, 1);
    let surplus = sqlx::query("UPDATE stock SET available = available + 1 WHERE item_id = ?");
    assert_eq!(shop.change(surplus.bind(behind)).await, 1);
    let broken = r#"seckill_audit_broken_items{invariant="I1"} 1"#;
    until_metric(&instance.stranger(), broken).await;
    let part = "1 of 2 sales not audited";
    let failed = |job: &Value| job["ok"] == false && job["said"].to_string().contains(part);
    instance.stranger().until_job("audit", failed).await;
}

#[tokio::test]
async fn an_expiry_says_how_late_it_was() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201);
    shop.let_holds_pass(100_000).await;
    let name = "seckill_expiry_lag_seconds_sum";
    let seconds = until_figure(&instance, name, |sum| sum > 0.0).await;
    // The hold of 15 minutes had ended long before.
    assert!((90_000.0..100_100.0).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn connections_in_use_are_counted() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    let holder = hold_stock_row(&shop.pool, item).await;
    // Each purchase waits for the row until its time is over; then it is sent again.
    let press = async {
        loop {
            let _ = instance.buyer(1).buy("mysql-atomic", item).await;
        }
    };
    let seen = eventually(BOUND, || async {
        let busy = metric(&instance, "seckill_ledger_connections_busy").await;
        let most = metric(&instance, "seckill_ledger_connections_max").await;
        when(busy >= 1.0 && busy <= most, (busy, most))
    });
    tokio::select! {
        () = press => {}
        _ = seen => {}
    }
    holder.rollback().await.expect("ended");
}

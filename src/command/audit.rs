//! `seckill audit`: verifies the invariants on the ledger.

use std::path::Path;
use std::process::ExitCode;

use crate::audit::audit;
use crate::config::Config;
use gates::redis_store::{Counters, RedisClient};
use ledger::rows;
use mysql_connection::{Database, Fault};
use shop_domain::ItemId;
use shop_domain::audit::Report;
use shop_metrics::Metrics;

use super::output::{counted, print_line};
use super::{ExitResult, parse_item};

/// The arguments: which items are audited.
#[derive(clap::Args)]
pub struct Arguments {
    /// One item; all of them if it is left out.
    #[arg(long, value_parser = parse_item)]
    item: Option<ItemId>,
}

/// Prints the audit. Exit 1 when an invariant is broken; else a sentence and exit 2 when an item could not be read, or
/// there is none, since an audit without items proves nothing.
pub async fn run(file: Option<&Path>, arguments: &Arguments) -> ExitResult {
    let config = super::settings(file)?;
    let pool = mysql_connection::pool(&config)?;
    audit_items(&config, &pool, arguments.item).await
}

/// Audits one item, or all of them, and prints the result like [`run`].
pub(super) async fn audit_items(
    config: &Config,
    pool: &Database,
    item: Option<ItemId>,
) -> ExitResult {
    let unreadable = |error: ledger::Error| format!("the ledger could not be read: {error}");
    let items = match item {
        Some(item) => vec![item],
        None => rows::audit::item_ids(pool).await.map_err(unreadable)?,
    };
    // Redis only adds I7, so the audit runs without it. But when Redis answers and refuses the
    // password, the command fails instead of leaving I7 out.
    let redis = RedisClient::new(config).ok();
    if let Some(redis) = &redis {
        redis.takes_password().await?;
    }
    let counters = redis.map(|redis| Counters::new(redis, pool.clone(), Metrics::new()));
    if items.is_empty() {
        return Err("there is no item to audit".to_owned());
    }
    let mut broken = 0;
    let mut unread = 0;
    let mut progress = super::progress::Progress::new("auditing", items.len());
    for (done, id) in items.iter().enumerate() {
        progress.show(done);
        match audit(pool, counters.as_ref(), *id).await {
            Ok(Some(report)) => {
                print(&report);
                broken += usize::from(!report.is_clean());
            }
            Ok(None) if item.is_some() => return Err(format!("there is no item {id}")),
            Ok(None) => {
                print_line(format_args!(
                    "item {id}: BROKEN, without a row in `items` or in `stock`"
                ));
                broken += 1;
            }
            // Such as a damaged row: the other items can be read.
            Err(error) if item.is_none() && Fault::of(&error) == Fault::Other => {
                print_line(format_args!("item {id}: not audited, {error}"));
                unread += 1;
            }
            Err(error) => return Err(unreadable(error)),
        }
    }
    drop(progress);
    let audited = counted(items.len() - unread, "item");
    print_line(format_args!("{audited} audited, {broken} broken"));
    match (broken, unread) {
        (0, 0) => Ok(ExitCode::SUCCESS),
        (0, _) => Err(format!("{} could not be read", counted(unread, "item"))),
        _ => Ok(ExitCode::from(1)),
    }
}

/// Prints a table in which each invariant has a row, and its figures stand below it.
fn print(report: &Report) {
    let state = if report.is_clean() { "clean" } else { "BROKEN" };
    let item = report.facts.item_id;
    print_line(format_args!(
        "item {item}: {state}, {} oversold",
        counted(report.units_oversold(), "unit")
    ));
    let row = |name: &str, result: &str, text: &str| {
        print_line(format_args!("  {name:<4}  {result:<10}  {text}"));
    };
    row("name", "result", "invariant, with its figures below");
    for finding in &report.findings {
        let result = match finding.holds {
            Some(true) => "holds",
            Some(false) => "BROKEN",
            None => "not judged",
        };
        row(finding.invariant, result, finding.claim);
        row("", "", &finding.detail);
    }
}

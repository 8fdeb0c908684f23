//! `seckill doctor`: says what is wrong with an installation.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::app::lock_server_probes;
use crate::config::Config;
use gates::redis_store::RedisClient;
use ledger::rows::{items, operators};
use mysql_connection::Database;
use serde_json::json;
use shop_domain::ItemId;

use super::ExitResult;
use super::check::{self, Finding, State};
use super::output::{counted, print_line};

/// How long a lock server may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Keys of Redis that are looked at, also those of other applications: a second's work.
const KEYS_MAX: u64 = 200_000;

/// The arguments: how the findings are printed.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs every check and prints the findings. Exit 0 when `serve` would start, 1 when it would not.
pub async fn run(file: Option<&Path>, arguments: &Arguments) -> ExitResult {
    let findings = match super::settings(file) {
        Ok(config) => examine(&config).await,
        Err(sentence) => {
            let remedy = "correct the setting; src/config/defaults.toml and extensions/*/src/defaults.toml describe each, in the Debian package /usr/share/doc/seckill/defaults.toml";
            vec![Finding::bad("settings", State::Failed, sentence, remedy)]
        }
    };
    let healthy =
        !findings.iter().any(|finding| matches!(finding.state, State::Failed | State::Waiting));
    if arguments.json {
        print_line(json!({ "healthy": healthy, "checks": findings }));
    } else {
        print(&findings);
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = check::settings::check(config);
    if config.data.dir.is_dir() {
        findings.push(check::machine::check_free_space(&config.data.dir));
    }
    let mut usable_ledger = None;
    match mysql_connection::pool(config) {
        Ok(pool) => {
            let ledger = check::mysql::check(config, &pool).await;
            let usable = ledger.iter().all(|finding| finding.state < State::Waiting);
            findings.extend(ledger);
            if usable {
                findings.push(check_operators(&pool).await);
                usable_ledger = Some(pool);
            }
        }
        Err(sentence) => {
            let remedy = "set DATABASE_URL";
            findings.push(Finding::bad("ledger.reachable", State::Failed, sentence, remedy));
        }
    }
    match RedisClient::new(config) {
        Ok(redis) => {
            findings.extend(check::redis::check(config, &redis).await);
            if let Some(pool) = &usable_ledger {
                findings.extend(check_known_items(pool, &redis).await);
            }
        }
        Err(sentence) => {
            let remedy = "set REDIS_URL";
            findings.push(Finding::bad("redis.reachable", State::Failed, sentence, remedy));
        }
    }
    if let Some(pool) = usable_ledger {
        pool.close().await;
    }
    findings.extend(check_lock_servers(config).await);
    findings
}

async fn check_operators(pool: &Database) -> Finding {
    let check = "ledger.operators";
    let remedy = "run `seckill operator create NAME`";
    match operators::list(pool).await {
        Ok(listed) if listed.is_empty() => Finding::bad(
            check,
            State::Warning,
            "there is no operator but a demo account, if any",
            remedy,
        ),
        Ok(listed) => Finding::ok(check, counted(listed.len(), "operator")),
        Err(error) => {
            let found = format!("the operators could not be listed: {error}");
            Finding::bad(check, State::Warning, found, "check the account of DATABASE_URL")
        }
    }
}

/// Compares the items of which Redis has keys with those of the ledger, which may have gone back to an older copy. Says
/// nothing when it cannot tell.
async fn check_known_items(pool: &Database, redis: &RedisClient) -> Option<Finding> {
    let check = "redis.items";
    let known = redis.known_items(KEYS_MAX).await.ok()?;
    let listed: Vec<ItemId> = known.items.into_iter().collect();
    let unknown = items::unknown(pool, &listed).await.ok()?;
    let Some(first) = unknown.first() else {
        let mut found = "the ledger has all items of which Redis has keys".to_owned();
        if !known.is_complete {
            found += &format!("; only the first {KEYS_MAX} keys were looked at");
        }
        return Some(Finding::ok(check, found));
    };
    let found = format!(
        "Redis has keys of {} items that the ledger does not have, such as {first}: the ledger went back to an older copy, or the items were deleted",
        unknown.len()
    );
    let remedy = "run `seckill restored`; docs/operations.md, the backup drill";
    Some(Finding::bad(check, State::Warning, found, remedy))
}

/// Asks the lock servers beside Redis and MySQL that are configured. Without one of them, only the
/// strategies that lock there stand still.
async fn check_lock_servers(config: &Config) -> Vec<Finding> {
    let check = "locks.servers";
    let probes = match lock_server_probes(config) {
        Ok(probes) => probes,
        Err(sentence) => {
            return vec![Finding::bad(check, State::Failed, sentence, "correct the setting")];
        }
    };
    let mut findings = Vec::new();
    for (dependency, probe) in probes {
        let name = dependency.as_str();
        let remedy = "start it, or leave its setting in [lock] empty";
        let found = match tokio::time::timeout(PROBE_TIMEOUT, probe()).await {
            Ok(Ok(())) => {
                findings.push(Finding::ok(check, format!("{name} answers")));
                continue;
            }
            Ok(Err(error)) => format!("{name} does not answer: {error}"),
            Err(_) => format!("{name} does not answer in time"),
        };
        findings.push(Finding::bad(check, State::Warning, found, remedy));
    }
    findings
}

fn print(findings: &[Finding]) {
    for finding in findings {
        let state = match finding.state {
            State::Ok => "ok     ",
            State::Warning => "warning",
            State::Waiting => "waiting",
            State::Failed => "FAILED ",
        };
        print_line(format_args!("{state}  {:<26}  {}", finding.check, finding.found));
        if let Some(remedy) = &finding.remedy {
            print_line(format_args!("{:37}{remedy}", ""));
        }
    }
}

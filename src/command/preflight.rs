//! Checks before `serve` starts. A risk stops the start unless the setting `accept_risks` names it:
//! a published secret, a server without a password, a server that loses confirmed writes. A
//! database that does not enforce CHECK constraints is always refused.

use std::net::IpAddr;
use std::time::Duration;

use redis_connection::Address;
use seckill::arbiter::checks;
use seckill::config::{Config, Risk};
use seckill::lifecycle::Lifecycle;
use seckill::store::mysql::{self, Durability};
use seckill::store::redis::{DENIED, RedisClient, is_denial};
use sqlx::MySqlPool;

/// The secrets that are published in this project's files.
const PUBLISHED: [&str; 1] = ["demo-only-demo-only-demo-only-demo-only"];
/// The least number of different characters in a random secret.
const DIFFERENT_MIN: usize = 8;
/// How long the start waits for the servers' settings.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// The message about a database that accepts a forbidden row.
const CHECKS_IGNORED: &str = "MySQL accepted a row that the CHECK constraints of the ledger forbid, so buyers could exceed their limit: use MySQL >= 8.0.16 or MariaDB >= 10.2.1 with check_constraint_checks=ON, and tables that were made there";
/// The pause before a server that did not answer is asked again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Checks the service's own settings.
///
/// # Errors
/// A sentence for the operator.
pub fn settings(config: &Config) -> Result<(), String> {
    let secret = config.secret.reveal();
    let mut letters: Vec<char> = secret.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    let guessable = letters.len() < DIFFERENT_MIN && !config.http.addr.ip().is_loopback();
    if PUBLISHED.contains(&secret) || guessable {
        let sentence = "SECKILL_SECRET is a published sample or easy to guess";
        refuse(config, Risk::SampleSecret, sentence)?;
    }
    for (name, open) in [
        ("DATABASE_URL", database_is_open(config.database_url.reveal())),
        ("REDIS_URL", redis_is_open(config.redis_url.reveal())),
    ] {
        if open {
            let sentence = format!("{name} has no password, and the server is not on this machine");
            refuse(config, Risk::EmptyPassword, &sentence)?;
        }
    }
    Ok(())
}

/// Checks the settings of the database and of Redis. When one of them does not answer, a worker of
/// `lifecycle` keeps asking, and stops the service if the check fails.
///
/// # Errors
/// A sentence for the operator.
pub async fn servers(
    config: &Config,
    pool: MySqlPool,
    lifecycle: &Lifecycle,
) -> Result<(), String> {
    let redis = RedisClient::new(config)?;
    let asked = tokio::time::timeout(ANSWER_TIMEOUT, check_servers(config, &pool, &redis)).await;
    match asked {
        Ok(Some(checked)) => return checked,
        Ok(None) | Err(_) => {
            tracing::warn!("MySQL or Redis does not answer yet; its settings are checked later");
        }
    }
    let (config, drained) = (config.clone(), lifecycle.drained());
    lifecycle.worker("preflight", async move {
        loop {
            match check_servers(&config, &pool, &redis).await {
                Some(Ok(())) => return drained.cancelled().await,
                Some(Err(sentence)) => {
                    tracing::error!("{sentence}");
                    return;
                }
                None => {}
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                () = drained.cancelled() => return,
            }
        }
    });
    Ok(())
}

/// Checks both servers; `None` when one does not answer, or MySQL does not allow the check.
async fn check_servers(
    config: &Config,
    pool: &MySqlPool,
    redis: &RedisClient,
) -> Option<Result<(), String>> {
    let durability = mysql::durability(pool).await.ok()?;
    let evicts = match redis.evicts().await {
        Ok(evicts) => evicts,
        // The server answers, and a second try would not change its answer.
        Err(error) if is_denial(&error) => return Some(Err(DENIED.to_owned())),
        Err(_) => return None,
    };
    tell_redis(redis).await;
    if let Err(sentence) = check_durability(config, durability, evicts) {
        return Some(Err(sentence));
    }
    let enforced = checks::are_enforced(pool).await.ok()?;
    Some(if enforced { Ok(()) } else { Err(CHECKS_IGNORED.to_owned()) })
}

/// Logs what stands behind the address of Redis, and what a failover may cost.
async fn tell_redis(redis: &RedisClient) {
    let (Ok(topology), Ok(to_write)) = tokio::join!(redis.topology(), redis.replicas_to_write())
    else {
        return;
    };
    let encrypted = if redis.is_encrypted() { "TLS" } else { "no TLS" };
    let to_write = to_write.map_or("not told".to_owned(), |replicas| replicas.to_string());
    tracing::info!("Redis: {topology}, {encrypted}, min-replicas-to-write: {to_write}");
    if topology.replicas > 0 && to_write == "0" {
        tracing::warn!(
            "Redis takes writes without a replica (min-replicas-to-write 0): a primary that is cut off goes on, and what it took is lost when a replica takes over"
        );
    }
}

fn check_durability(
    config: &Config,
    durability: Durability,
    evicts: Option<String>,
) -> Result<(), String> {
    let Durability { flush_at_commit, binlog_unsynced } = durability;
    if flush_at_commit != 1 {
        let sentence = format!(
            "MySQL runs with innodb_flush_log_at_trx_commit={flush_at_commit}: orders that were answered 201 are lost when the machine stops"
        );
        refuse(config, Risk::VolatileDatabase, &sentence)?;
    }
    if binlog_unsynced {
        let sentence = "MySQL writes a binary log with sync_binlog other than 1: after a power cut its replicas may have other orders than the database";
        refuse(config, Risk::VolatileDatabase, sentence)?;
    }
    if let Some(policy) = evicts {
        let sentence = format!(
            "Redis runs with maxmemory-policy {policy}: when memory is short it deletes locks and counters"
        );
        refuse(config, Risk::EvictingRedis, &sentence)?;
    }
    Ok(())
}

fn refuse(config: &Config, risk: Risk, sentence: &str) -> Result<(), String> {
    if config.accepts(risk) {
        tracing::warn!("{sentence}");
        return Ok(());
    }
    Err(format!("{sentence}; set SECKILL_ACCEPT_RISKS={} to start nevertheless", risk.as_str()))
}

/// Whether the database of a URL is on another machine and has no password. A URL that cannot be
/// read is refused elsewhere.
fn database_is_open(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let password = user.split_once(':').map_or("", |(_, password)| password);
    password.is_empty() && !query.contains("socket=") && !is_here(host_of(host))
}

fn redis_is_open(url: &str) -> bool {
    let Ok(address) = Address::parse(url) else { return false };
    !address.has_password() && !address.hosts().into_iter().all(is_here)
}

fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_here(host: &str) -> bool {
    host.is_empty()
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_elsewhere_needs_a_password() {
        for (url, open) in [
            ("mysql://root@db.example/seckill", true),
            ("mysql://root:@10.0.0.1:3306/seckill", true),
            ("mysql://db.example/seckill", true),
            ("mysql://root:secret@db.example/seckill", false),
            ("mysql://root@localhost/seckill", false),
            ("mysql://root@[::1]:3306/seckill", false),
            ("mysql://root@127.0.0.1:3306/seckill", false),
            ("mysql://root@localhost/seckill?socket=/run/mysqld.sock", false),
        ] {
            assert_eq!(database_is_open(url), open, "{url}");
        }
        for (url, open) in [
            ("redis://cache.example:6379", true),
            ("redis://:secret@cache.example:6379", false),
            ("redis://127.0.0.1:6379", false),
            ("redis+cluster://127.0.0.1:6379,10.0.0.2", true),
            ("redis+cluster://:secret@10.0.0.1,10.0.0.2", false),
            ("redis+sentinel://10.0.0.1/name", true),
            ("redis+unix:///run/redis.sock", false),
        ] {
            assert_eq!(redis_is_open(url), open, "{url}");
        }
    }

    #[test]
    fn servers_that_lose_data_are_refused_unless_the_risk_is_accepted() {
        let mut config = Config::defaults();
        let durability =
            |flush_at_commit, binlog_unsynced| Durability { flush_at_commit, binlog_unsynced };
        assert_eq!(check_durability(&config, durability(1, false), None), Ok(()));
        for (found, evicts, word) in [
            (durability(2, false), None, "volatile-database"),
            (durability(0, false), None, "volatile-database"),
            (durability(1, true), None, "volatile-database"),
            (durability(1, false), Some("allkeys-lru".to_owned()), "evicting-redis"),
        ] {
            let sentence = check_durability(&config, found, evicts).expect_err("refused");
            assert!(sentence.contains(&format!("SECKILL_ACCEPT_RISKS={word}")), "{sentence}");
        }
        config.accept_risks = "volatile-database,evicting-redis".to_owned();
        let forgetful =
            check_durability(&config, durability(0, true), Some("volatile-ttl".to_owned()));
        assert_eq!(forgetful, Ok(()));
    }

    #[test]
    fn a_sample_secret_is_refused() {
        let mut config = Config::defaults();
        let checked_secret = |config: &Config, secret: &str| {
            let secret = seckill::config::Secret::new(secret);
            settings(&Config { secret, ..config.clone() })
        };
        assert!(checked_secret(&config, PUBLISHED[0]).is_err());
        let random = "7f1c02a9be44d3568e0b17c2fa9d6635";
        assert_eq!(checked_secret(&config, random), Ok(()));
        assert_eq!(
            checked_secret(&config, &"x".repeat(40)),
            Ok(()),
            "a loopback address is reachable from this machine only"
        );
        config.http.addr = "0.0.0.0:8080".parse().expect("an address");
        assert!(checked_secret(&config, &"x".repeat(40)).is_err());
        assert_eq!(checked_secret(&config, random), Ok(()));
        config.accept_risks = "sample-secret".to_owned();
        assert_eq!(checked_secret(&config, PUBLISHED[0]), Ok(()));
    }
}

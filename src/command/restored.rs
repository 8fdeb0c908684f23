//! `seckill restored`: the last step after a ledger went back to an older copy, before it sells again.

use std::path::Path;
use std::process::ExitCode;

use crate::config::Config;
use gates::redis_store::RedisClient;
use ledger::rows::sessions;
use mysql_connection::Database;
use web::token::Tokens;

use super::output::print_line;
use super::{ExitResult, audit};

/// Keys of Redis that are looked at, also those of other applications: more than fit into the memory of most servers.
const KEYS_MAX: u64 = 1_000_000_000;

/// Checks the secret, Redis and the ledger. Exit 1 when something has to be done first.
pub async fn run(file: Option<&Path>) -> ExitResult {
    let config = super::settings(file)?;
    let pool = mysql_connection::pool(&config)?;
    let redis = RedisClient::new(&config)?;
    redis.takes_password().await?;
    let secret = check_secret(&config, &pool).await?;
    let redis = check_redis(&redis).await?;
    let mut is_ready = true;
    for (about, found) in [("secret", secret), ("redis", redis)] {
        match found {
            None => print_line(format_args!("{about}: ok")),
            Some(to_do) => {
                is_ready = false;
                print_line(format_args!("{about}: {to_do}"));
            }
        }
    }
    let audited = audit::audit_items(&config, &pool, None).await?;
    pool.close().await;
    is_ready &= audited == ExitCode::SUCCESS;
    if !is_ready {
        print_line("the ledger must not sell yet");
        return Ok(ExitCode::from(1));
    }
    print_line("the ledger may sell: start the instances with this secret");
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with the secrets: the copy has lost sign-outs, so each token of before must be refused.
async fn check_secret(config: &Config, pool: &Database) -> Result<Option<String>, String> {
    let keys = Tokens::new(&config.secret, &config.secret_previous).key_ids();
    if keys.is_empty() {
        return Err("SECKILL_SECRET is not set".to_owned());
    }
    let used = sessions::used_keys(pool).await;
    let used = used.map_err(|error| format!("the ledger could not be read: {error}"))?;
    let is_used = keys.iter().any(|key| used.contains(key));
    Ok(is_used.then(|| {
        "SECKILL_SECRET or SECKILL_SECRET_PREVIOUS has signed tokens of this ledger, and sign-outs after the copy are \
         lost: set a new SECKILL_SECRET and leave the previous one empty"
            .to_owned()
    }))
}

/// What is wrong with Redis, whose counters and queues may be newer than the copy.
async fn check_redis(redis: &RedisClient) -> Result<Option<String>, String> {
    let known = redis.known_items(KEYS_MAX).await;
    let known = known.map_err(|error| format!("Redis could not be read: {error}"))?;
    let prefix = redis.prefix();
    if known.items.is_empty() && known.is_complete {
        return Ok(None);
    }
    Ok(Some(match known.items.len() {
        0 => format!(
            "it has more than {KEYS_MAX} keys, and not all were looked at: use a Redis of its own, without keys that begin with {prefix}"
        ),
        items => format!(
            "it still has keys of {items} items, which may be newer than the ledger: remove the keys that begin with {prefix}"
        ),
    }))
}

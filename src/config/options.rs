//! The options of the crates below, made from the settings.

use gates::redis_store::RedisOptions;
use ledger::LedgerOptions;

use super::Config;

impl From<&Config> for LedgerOptions {
    fn from(config: &Config) -> Self {
        Self {
            url: config.database_url.reveal().to_owned(),
            pool_connections_max: config.mysql.pool_max,
            lock_wait_timeout_seconds: config.mysql.lock_wait_timeout_seconds,
            one_shard: false,
            acquire_timeout_ms: config.mysql.acquire_timeout_ms,
            order_routine: config.mysql.order_routine,
            currency: config.payment.currency.clone(),
        }
    }
}

impl From<&Config> for RedisOptions {
    fn from(config: &Config) -> Self {
        Self {
            url: config.redis_url.reveal().to_owned(),
            prefix: config.redis.prefix.clone(),
            command_timeout_ms: config.redis.command_timeout_ms,
            retry_ms_max: config.redis.retry_ms_max,
            root_file: config.redis.root_file.clone(),
            client_file: config.redis.client_file.clone(),
            client_key_file: config.redis.client_key_file.clone(),
        }
    }
}

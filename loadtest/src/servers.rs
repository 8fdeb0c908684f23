//! Connections to the servers of a shop.

use std::fs;
use std::time::Duration;

use ledger_audit::writer_of;
use redis_connection::{Address, Certificates, Options, SharedConnection};
use sqlx::mysql::MySqlConnection;
use tokio::time::timeout;

use crate::environment::Environment;
use crate::failure::{CannotJudge, OrCannotJudge};

/// Connecting to the database or to Redis, and one answer of Redis, must end within this.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A connection to the database of `DATABASE_URL`. The address is not printed: it holds a password.
pub async fn database(environment: &Environment) -> Result<MySqlConnection, CannotJudge> {
    let url = environment.get("DATABASE_URL").unwrap_or_default();
    timeout(ANSWER_MAX, writer_of(&url))
        .await
        .map_err(|_| CannotJudge::new("the database does not answer"))?
}

/// A connection to the Redis of `REDIS_URL`, with the certificates that the service uses.
pub async fn redis(environment: &Environment) -> Result<SharedConnection, CannotJudge> {
    let file = |name: &str| {
        let Some(path) = environment.get(name) else { return Ok(None) };
        let read = fs::read(&path);
        read.map(Some).map_err(|error| CannotJudge(format!("{path} cannot be read: {error}")))
    };
    let roots = file("SECKILL_REDIS_ROOT_FILE")?;
    let client = file("SECKILL_REDIS_CLIENT_FILE")?.zip(file("SECKILL_REDIS_CLIENT_KEY_FILE")?);
    let certificates = Certificates { roots, client };
    let url = environment.get("REDIS_URL").unwrap_or_default();
    // The address is not printed: it holds a password.
    let unreadable = |_| CannotJudge::new("REDIS_URL is not an address of Redis");
    let address = Address::parse(&url).map_err(unreadable)?;
    let address = address.with_certificates(&certificates).map_err(unreadable)?;
    let options = Options { command_timeout: ANSWER_MAX, ..Options::default() };
    let shared = SharedConnection::new(&address, options).map_err(unreadable)?;
    timeout(ANSWER_MAX, shared.primaries())
        .await
        .map_err(|_| CannotJudge::new("Redis does not answer"))?
        .or_cannot_judge("Redis cannot be reached")?;
    Ok(shared)
}

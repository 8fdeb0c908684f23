//! The account that sets replication up and changes the roles of servers, and how it is used.

use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{ConnectOptions, Executor};
use tokio::time::{Instant, sleep, timeout};

use crate::error::StartError;

/// The account's name. It may do everything.
pub const OPERATOR: &str = "operator";
/// How long a server may take to reach a state, such as the end of its relay log.
const STATE_MAX: Duration = Duration::from_secs(60);
/// How long a server may take to answer a question about its state.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The pause before a state is asked for again.
const STATE_POLL: Duration = Duration::from_millis(50);

/// The statements that make an account with its rights.
pub(super) fn account(
    user: &str,
    password: &str,
    rights: impl Fn(&str) -> String,
) -> impl Iterator<Item = String> {
    ["localhost", "127.0.0.1"].into_iter().flat_map(move |host| {
        let account = format!("'{user}'@'{host}'");
        [
            format!("CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{password}'"),
            format!("ALTER USER {account} IDENTIFIED BY '{password}'"),
            rights(&account),
        ]
    })
}

/// The URL of a database on a server, for the operator.
pub(super) fn url(port: u16, password: &str, database: &str) -> String {
    format!("mysql://{OPERATOR}:{password}@127.0.0.1:{port}/{database}")
}

/// Connects to a server as the operator.
///
/// # Errors
/// It does not answer in time.
pub(super) async fn connect(port: u16, password: &str) -> Result<MySqlConnection, StartError> {
    let options = MySqlConnectOptions::new()
        .host("127.0.0.1")
        .port(port)
        .username(OPERATOR)
        .password(password)
        .ssl_mode(MySqlSslMode::Disabled)
        .disable_statement_logging();
    timeout(ANSWER_MAX, options.connect())
        .await
        .map_err(failed("connect"))?
        .map_err(failed("connect"))
}

/// Runs statements; `action` says what for.
pub(super) async fn run(
    connection: &mut MySqlConnection,
    action: &'static str,
    statements: &str,
) -> Result<(), StartError> {
    connection.execute(sqlx::raw_sql(statements)).await.map(drop).map_err(failed(action))
}

/// Waits until `look` finds nothing missing; the error is what it missed last. A look that takes too
/// long counts as an answer that is missing.
pub(super) async fn until<T>(
    action: &'static str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, StartError> {
    let deadline = Instant::now() + STATE_MAX;
    loop {
        let seen = timeout(ANSWER_MAX, look()).await;
        match seen.unwrap_or_else(|_| Err("no answer".to_owned())) {
            Ok(found) => return Ok(found),
            Err(missing) if Instant::now() >= deadline => return Err(failed(action)(missing)),
            Err(_) => sleep(STATE_POLL).await,
        }
    }
}

/// The error of a set of servers that did not do what it was told.
pub(super) fn failed<E: std::fmt::Display>(action: &'static str) -> impl FnOnce(E) -> StartError {
    move |error| StartError::refused("the set of database servers", action, error)
}

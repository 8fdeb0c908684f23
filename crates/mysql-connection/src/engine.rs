//! The database server: its version, and the settings on which promises rest.

use std::fmt;

use sqlx::MySqlConnection;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::replication::{self, Replication};
use crate::{Database, answered, hosts};

/// A database server and the settings on which the promises of a COMMIT rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// The server's own version text.
    pub version: String,
    /// Host and port, or the socket.
    pub address: String,
    /// `innodb_flush_log_at_trx_commit`; 1 is durable.
    pub flush_at_commit: i64,
    /// `sync_binlog`; 1 is durable. Without meaning when there is no binary log.
    pub sync_binlog: i64,
    /// Whether there is a binary log.
    pub has_binlog: bool,
    /// The isolation level of the service's sessions.
    pub isolation: String,
    /// The version of TLS and the cipher of the service's connections, or what is known of it; `None` is plain text.
    pub tls: Option<String>,
    /// What a commit waits for.
    pub replication: Replication,
}

impl Engine {
    /// Reads the settings of the server behind a pool.
    pub async fn read(pool: &Database) -> sqlx::Result<Self> {
        let read = async {
            let mut connection = pool.acquire().await?;
            let (version, flush_at_commit, sync_binlog, has_binlog) = sqlx::query_as(
                "SELECT CAST(VERSION() AS CHAR), \
                 CAST(@@innodb_flush_log_at_trx_commit AS SIGNED), \
                 CAST(@@sync_binlog AS SIGNED), CAST(@@log_bin AS SIGNED) <> 0",
            )
            .fetch_one(&mut *connection)
            .await?;
            let shown = "SHOW SESSION VARIABLES \
                 WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')";
            let isolation = value(&mut connection, shown).await?;
            let replication = replication::read(&mut connection).await?;
            let tls = match replication {
                Replication::Vitess { .. } => tls_of(&pool.connect_options()),
                _ => tls(&mut connection).await?,
            };
            Ok(Self {
                version,
                address: hosts::name(&pool.connect_options()),
                flush_at_commit,
                sync_binlog,
                has_binlog,
                isolation,
                tls,
                replication,
            })
        };
        answered(read).await
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, address, flush_at_commit, sync_binlog, isolation, .. } = self;
        let tls = self.tls.as_deref().unwrap_or("no TLS");
        write!(
            formatter,
            "{version} on {address}, {tls}, isolation {isolation}, innodb_flush_log_at_trx_commit={flush_at_commit}, sync_binlog={sync_binlog}, {}",
            self.replication
        )
    }
}

/// The version of TLS and the cipher of a connection; `None` is plain text.
async fn tls(connection: &mut MySqlConnection) -> sqlx::Result<Option<String>> {
    let protocol = value(connection, "SHOW SESSION STATUS LIKE 'Ssl_version'").await?;
    let cipher = value(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'").await?;
    Ok((!cipher.is_empty()).then(|| format!("{protocol} {cipher}")))
}

/// The TLS that a URL asks for. A vtgate answers for the connections of its tablets, and not for ours.
fn tls_of(options: &MySqlConnectOptions) -> Option<String> {
    match options.get_ssl_mode() {
        MySqlSslMode::Disabled => None,
        // The connection falls back to plain text, and does not tell.
        MySqlSslMode::Preferred => Some("TLS not known (ssl-mode Preferred)".to_owned()),
        mode @ (MySqlSslMode::Required | MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity) => {
            Some(format!("TLS by ssl-mode {mode:?}"))
        }
    }
}

/// The value of the first row of a SHOW statement; empty without a row.
async fn value(connection: &mut MySqlConnection, statement: &str) -> sqlx::Result<String> {
    let row: Option<(String, String)> =
        sqlx::query_as(statement).fetch_optional(connection).await?;
    Ok(row.map(|(_, value)| value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_on_vitess_is_named_only_where_the_url_demands_it() {
        let shown = |mode| tls_of(&MySqlConnectOptions::new().ssl_mode(mode)).unwrap_or_default();
        assert_eq!(shown(MySqlSslMode::Disabled), "");
        assert!(shown(MySqlSslMode::Preferred).starts_with("TLS not known"));
        for mode in [MySqlSslMode::Required, MySqlSslMode::VerifyCa, MySqlSslMode::VerifyIdentity] {
            assert!(shown(mode).starts_with("TLS by ssl-mode"), "{mode:?}");
        }
    }
}

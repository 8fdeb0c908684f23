//! The one account of a private database server, and the ways to it.

use std::str::FromStr;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{ConnectOptions, Connection};

use super::Mysql;
use super::flavour::{DATABASE, Flavour, USER};
use crate::ports;
use crate::server::NotReady;

impl Mysql {
    /// See [`super::MysqlServer::url_of`].
    pub(super) fn url(&self, port: u16, database: &str) -> String {
        if self.flavour == Flavour::Mysql {
            return self.tcp_url(port, database);
        }
        self.socket_url(database)
    }

    /// See [`super::MysqlServer::socket_url_of`].
    pub(super) fn socket_url(&self, database: &str) -> String {
        let password = &self.password;
        let socket = ports::url_path(&self.socket);
        let tls = if self.flavour == Flavour::Mysql { "&ssl-mode=REQUIRED" } else { "" };
        format!("mysql://{USER}:{password}@localhost/{database}?socket={socket}{tls}")
    }

    /// See [`super::MysqlServer::tcp_url_of`].
    pub(super) fn tcp_url(&self, port: u16, database: &str) -> String {
        let password = &self.password;
        format!("mysql://{USER}:{password}@127.0.0.1:{port}/{database}")
    }

    /// Logs in once.
    pub(super) async fn login(&self, port: u16) -> Result<(), sqlx::Error> {
        let options = MySqlConnectOptions::from_str(&self.url(port, DATABASE))?
            .ssl_mode(MySqlSslMode::Disabled)
            .disable_statement_logging();
        MySqlConnection::connect_with(&options).await?.close().await
    }
}

/// A running server that refuses our account will not change its mind.
pub(super) fn not_ready(error: &sqlx::Error) -> NotReady {
    let code = error.as_database_error().and_then(|error| error.code());
    let answer = error.to_string();
    if code.as_deref() == Some("28000") { NotReady::Ever(answer) } else { NotReady::Yet(answer) }
}

//! A private Redis that may be killed, cut off and promoted.

use std::time::Duration;

use dev_servers::{AppendFsync, RedisOptions, RedisServer as Server};
use redis::{FromRedisValue, IntoConnectionInfo};
use redis_connection::SharedConnection;
use tokio::time::{Instant, sleep};

use crate::failure::{CannotJudge, OrCannotJudge};
use crate::servers::redis_at;

/// A replica that has not got everything after this time does not get it.
const SYNC_MAX: Duration = Duration::from_secs(20);
const SYNC_POLL: Duration = Duration::from_millis(20);
const NOT_STARTED: &str = "a Redis of our own";
/// Nothing listens there: a replica of it is cut off.
const NOBODY_PORT: u16 = 1;

/// When a server writes to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    Never,
    BeforeEveryAnswer,
}

/// A running server; it ends when it is dropped, and its data are removed.
pub struct RedisServer(Server);

impl RedisServer {
    /// Starts a server in a new folder.
    pub async fn start(persistence: Persistence) -> Result<Self, CannotJudge> {
        let mut options = RedisOptions::temporary();
        options.extra_lines =
            ["repl-diskless-sync yes", "repl-diskless-sync-delay 0"].map(str::to_owned).into();
        match persistence {
            Persistence::Never => options.extra_lines.push("appendonly no".to_owned()),
            Persistence::BeforeEveryAnswer => options.append_fsync = AppendFsync::Always,
        }
        Server::start(options).await.map(Self).or_cannot_judge(NOT_STARTED)
    }

    /// Its address, with the password.
    pub fn url(&self) -> String {
        self.0.tcp_url()
    }

    /// A connection.
    pub async fn connect(&self) -> Result<SharedConnection, CannotJudge> {
        redis_at(&self.url()).await
    }

    /// Ends the process at once, as a power cut would.
    pub async fn kill(&self) {
        self.0.kill().await;
    }

    /// Kills it and starts it again on the same port, with what it had written.
    pub async fn restart(&mut self) -> Result<(), CannotJudge> {
        self.kill().await;
        self.0.restart().await.or_cannot_judge(NOT_STARTED)
    }

    /// Follows another server and waits until it has everything.
    pub async fn follow(&self, master: &Self) -> Result<(), CannotJudge> {
        let address = master.url().into_connection_info();
        let address = address.or_cannot_judge("Redis")?;
        let password = address.redis_settings().password().unwrap_or_default();
        self.ask::<()>(&["CONFIG", "SET", "masterauth", password]).await?;
        self.ask::<()>(&["REPLICAOF", "127.0.0.1", &master.0.port().to_string()]).await?;
        let until = Instant::now() + SYNC_MAX;
        loop {
            let info: String = self.ask(&["INFO", "replication"]).await.unwrap_or_default();
            if info.contains("master_link_status:up") {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(CannotJudge::new("the replica of Redis did not get in step"));
            }
            sleep(SYNC_POLL).await;
        }
    }

    /// Cuts a replica off: it keeps answering with what it has.
    pub async fn cut_off(&self) -> Result<(), CannotJudge> {
        self.ask::<()>(&["REPLICAOF", "127.0.0.1", &NOBODY_PORT.to_string()]).await
    }

    /// Makes a replica a master.
    pub async fn promote(&self) -> Result<(), CannotJudge> {
        self.ask::<()>(&["REPLICAOF", "NO", "ONE"]).await
    }

    /// Sends one command.
    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> Result<T, CannotJudge> {
        let mut connection = self.connect().await?;
        let answer = redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await;
        answer.or_cannot_judge(format_args!("Redis: {}", words[0]))
    }
}

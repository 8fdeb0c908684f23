//! A Redis of our own that may be killed, cut off and promoted.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::failure::CannotJudge;
use crate::launcher::free_port;
use crate::testbed::redis_at;

/// A server that does not answer after so long has failed.
const START_MAX: Duration = Duration::from_secs(20);
const START_POLL: Duration = Duration::from_millis(20);
/// A replica that has not got everything after so long does not get it.
const SYNC_MAX: Duration = Duration::from_secs(20);
/// Nothing listens there: a replica of it is cut off.
const NOBODY_PORT: u16 = 1;

/// When a server writes to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    Never,
    BeforeEveryAnswer,
}

/// A running server; it is killed when it is dropped.
pub struct RedisServer {
    child: Child,
    program: PathBuf,
    folder: PathBuf,
    persistence: Persistence,
    port: u16,
}

impl RedisServer {
    /// Starts a server with its data in a folder of its own below `parent`.
    pub async fn start(parent: &Path, persistence: Persistence) -> Result<Self, CannotJudge> {
        let port = free_port()?;
        let folder = parent.join(format!("redis-{port}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)
            .map_err(|error| CannotJudge(format!("cannot make {}: {error}", folder.display())))?;
        let program = program(&folder)?;
        let child = spawn(&program, &folder, persistence, port)?;
        let server = Self { child, program, folder, persistence, port };
        server.answers().await?;
        Ok(server)
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection.
    pub async fn connect(&self) -> Result<MultiplexedConnection, CannotJudge> {
        redis_at(&self.url()).await
    }

    /// Ends the process at once, as a power cut would.
    pub async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }

    /// Kills it and starts it again on the same port, with what it had written.
    pub async fn restart(&mut self) -> Result<(), CannotJudge> {
        self.kill().await;
        self.child = spawn(&self.program, &self.folder, self.persistence, self.port)?;
        self.answers().await
    }

    /// Follows another server and waits until it has everything.
    pub async fn follow(&self, master: &Self) -> Result<(), CannotJudge> {
        self.command(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]).await?;
        let until = Instant::now() + SYNC_MAX;
        let mut connection = self.connect().await?;
        loop {
            let info: String = redis::cmd("INFO")
                .arg("replication")
                .query_async(&mut connection)
                .await
                .unwrap_or_default();
            if info.contains("master_link_status:up") {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(CannotJudge("the replica of Redis did not get in step".to_owned()));
            }
            sleep(START_POLL).await;
        }
    }

    /// Cuts a replica off: it keeps answering with what it has.
    pub async fn cut_off(&self) -> Result<(), CannotJudge> {
        self.command(&["REPLICAOF", "127.0.0.1", &NOBODY_PORT.to_string()]).await
    }

    /// Makes a replica a master.
    pub async fn promote(&self) -> Result<(), CannotJudge> {
        self.command(&["REPLICAOF", "NO", "ONE"]).await
    }

    async fn command(&self, words: &[&str]) -> Result<(), CannotJudge> {
        let mut connection = self.connect().await?;
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| {
            command.arg(word);
        });
        command
            .query_async::<()>(&mut connection)
            .await
            .map_err(|error| CannotJudge(format!("{}: {error}", words.join(" "))))
    }

    async fn answers(&self) -> Result<(), CannotJudge> {
        let until = Instant::now() + START_MAX;
        loop {
            if let Ok(mut connection) = self.connect().await
                && redis::cmd("PING").query_async::<String>(&mut connection).await.is_ok()
            {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(CannotJudge("a Redis of our own did not start".to_owned()));
            }
            sleep(START_POLL).await;
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Its own child, by its own handle; kill_on_drop waits for nobody.
        let _ = self.child.start_kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn spawn(
    program: &Path,
    folder: &Path,
    persistence: Persistence,
    port: u16,
) -> Result<Child, CannotJudge> {
    let mut command = Command::new(program);
    command
        .args(["--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder)
        .args(["--port", &port.to_string()])
        .args(["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
    match persistence {
        Persistence::Never => command.args(["--appendonly", "no"]),
        Persistence::BeforeEveryAnswer => {
            command.args(["--appendonly", "yes", "--appendfsync", "always"])
        }
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| CannotJudge(format!("{} did not start: {error}", program.display())))
}

/// Redis is one program that plays the part of its name; Debian's redis-tools has it as another.
fn program(folder: &Path) -> Result<PathBuf, CannotJudge> {
    let named = env::var_os("SECKILL_REDIS_SERVER").filter(|name| !name.is_empty());
    let path = env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| {
        let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        folders.map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    let found = named
        .map(PathBuf::from)
        .or_else(|| find("redis-server"))
        .or_else(|| find("redis-check-rdb"))
        .ok_or_else(|| CannotJudge("there is no Redis server program here".to_owned()))?;
    let found = found.canonicalize().unwrap_or(found);
    let link = folder.join("redis-server");
    std::os::unix::fs::symlink(&found, &link)
        .map_err(|error| CannotJudge(format!("cannot make {}: {error}", link.display())))?;
    Ok(link)
}

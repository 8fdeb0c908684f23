//! A private Redis server, alone or as a member of a group.

mod certificates;
mod cluster;
mod group;
mod sentinel;
#[cfg(test)]
mod tests;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use self::group::{failed, field, until};
use crate::error::StartError;
use crate::home::{Home, ignore_missing};
use crate::ports;
use crate::program;
use crate::server::{NotReady, ReadyServer, Recipe, Server};

pub use self::certificates::Certificates;
pub use self::cluster::{RedisCluster, RedisClusterOptions};
pub use self::sentinel::{PRIMARY, RedisSentinels};

const SERVER: &str = "Redis";

/// What to start, and where.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    /// The directory for data, log, socket and password, made when it is missing; `None` makes a
    /// new one that is removed when the server is dropped or this process ends.
    pub data_dir: Option<PathBuf>,
    /// The server's binary; `None` searches for `redis-server`, then for the server that Debian's
    /// `redis-tools` carries under another name.
    pub program: Option<PathBuf>,
    /// The TCP port on 127.0.0.1; `None` takes last time's if it is free, else any free one.
    pub port: Option<u16>,
    /// A program and its arguments that start what follows them, such as `env NAME=value`; none
    /// starts the server itself. For tests.
    pub launcher: Vec<String>,
    /// Further lines for the configuration file, such as `appendfsync always`: a later line holds.
    pub extra_lines: Vec<String>,
    /// The password; `None` takes that of the directory, or makes one.
    pub password: Option<String>,
    /// Certificates: then the server listens on its TCP port with TLS alone.
    pub certificates: Option<Certificates>,
    /// Its part in a group of servers.
    pub part: Part,
}

/// The part of a server in a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// A server alone.
    #[default]
    Alone,
    /// A server with data. The others may tell it to change its configuration.
    Member,
    /// A Sentinel, which watches over the others.
    Sentinel,
}

/// A running private Redis server.
pub type RedisServer = Server<Redis>;

/// How to run Redis, and how to log in.
#[derive(Debug)]
pub struct Redis {
    program: PathBuf,
    options: RedisOptions,
    socket: PathBuf,
    password: String,
}

impl RedisOptions {
    /// A server whose data stay in `data_dir`; its binary is that of `SECKILL_REDIS_SERVER` or
    /// `VALKEY_SERVER` if one is set.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(data_dir.into()), ..Self::temporary() }
    }

    /// A server in a new directory that is removed afterwards, for tests; its binary is that of
    /// `SECKILL_REDIS_SERVER` or `VALKEY_SERVER` if one is set.
    pub fn temporary() -> Self {
        let named = program::named("SECKILL_REDIS_SERVER");
        Self { program: named.or_else(|| program::named("VALKEY_SERVER")), ..Self::default() }
    }
}

impl RedisServer {
    /// Starts a server and returns when it answers, with the data of the last start loaded.
    ///
    /// # Errors
    /// A sentence that says what to do: no binary, directory in use, or the end of the server's log.
    pub async fn start(options: RedisOptions) -> Result<Self, StartError> {
        let port = options.port;
        Self::boot(prepare(options).await?, port).await
    }

    /// The URL over the unix socket.
    pub fn url(&self) -> String {
        self.recipe.url()
    }

    /// The URL over TCP on 127.0.0.1.
    pub fn tcp_url(&self) -> String {
        let password = &self.recipe.password;
        let port = self.port();
        let scheme = if self.recipe.options.certificates.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://:{password}@127.0.0.1:{port}")
    }

    /// The files with its root, a client's certificate and the key of that, if it listens with TLS.
    pub fn certificate_files(&self) -> Option<[PathBuf; 3]> {
        self.recipe.options.certificates.as_ref()?;
        Some(["root.crt", "client.crt", "client.key"].map(|name| self.home.path(name)))
    }

    /// Sends a command over the unix socket, and reads its answer.
    ///
    /// # Errors
    /// The server's or the connection's.
    pub async fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await
    }

    /// Makes this server a replica of another, and returns when it has the other's data. `port` leads
    /// to the other: it is the other's own, or that of a proxy.
    ///
    /// # Errors
    /// When it has not got the data within a minute.
    pub async fn follow(&self, primary: &Self, port: u16) -> Result<(), StartError> {
        // As a member of a group does it.
        let at_once = ["CONFIG", "SET", "repl-diskless-sync-delay", "0"];
        let () = primary.run(&at_once).await.map_err(failed)?;
        let password = ["CONFIG", "SET", "masterauth", &primary.recipe.password];
        let () = self.run(&password).await.map_err(failed)?;
        let () = self.run(&["REPLICAOF", "127.0.0.1", &port.to_string()]).await.map_err(failed)?;
        until("Redis with a replica", || async {
            let info = self.info(&["INFO", "replication"]).await?;
            if field(&info, "master_link_status") == Some("up") { Ok(()) } else { Err(info) }
        })
        .await
    }

    /// What it says about itself, for a look at its state.
    async fn info(&self, words: &[&str]) -> Result<String, String> {
        self.run(words).await.map_err(|error| error.to_string())
    }
}

async fn prepare(mut options: RedisOptions) -> Result<ReadyServer<Redis>, StartError> {
    let binary = find(options.program.as_deref())?;
    let (home, mut temporary) = Home::open_or_make(SERVER, options.data_dir.take()).await?;
    let program = named_server(&home, &binary)?;
    let version = program::version(SERVER, &program)?;
    home.data()?;
    let (socket, short) = home.socket("redis.sock")?;
    temporary.extend(short);
    let password = match options.password.take() {
        Some(password) => password,
        None => home.password()?,
    };
    let recipe = Redis { program, options, socket, password };
    Ok(ReadyServer { recipe, home, temporary, version })
}

impl Recipe for Redis {
    fn command(&self, home: &Home, port: u16) -> Result<Vec<String>, StartError> {
        // A member rewrites its configuration when the others tell it another part: the new one holds.
        if self.options.part == Part::Alone || !home.has("redis.conf") {
            let mut lines = self.configuration(home, port)?;
            lines.extend(self.options.extra_lines.iter().cloned());
            home.write("redis.conf", &(lines.join("\n") + "\n"))?;
        }
        let mut command = self.options.launcher.clone();
        let program = [self.program.clone(), home.path("redis.conf")];
        command.extend(program.map(|path| path.display().to_string()));
        if self.options.part == Part::Sentinel {
            command.push("--sentinel".into());
        }
        Ok(command)
    }

    /// Not ready while the server loads its data.
    async fn ask(&self, _: u16) -> Result<(), NotReady> {
        let ping = async {
            let client = redis::Client::open(self.url())?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            redis::cmd("PING").query_async(&mut connection).await
        };
        ping.await.map_err(|error: redis::RedisError| NotReady::Yet(error.to_string()))
    }
}

impl Redis {
    fn url(&self) -> String {
        let password = &self.password;
        let socket = ports::url_path(&self.socket);
        format!("redis+unix://{socket}?pass={password}")
    }

    /// The lines of the configuration file. A file, so that the password is on no command line.
    fn configuration(&self, home: &Home, port: u16) -> Result<Vec<String>, StartError> {
        let mut lines = vec![
            "bind 127.0.0.1".into(),
            format!("unixsocket {}", quoted(&self.socket)),
            "unixsocketperm 700".into(),
            format!("requirepass {}", self.password),
            "daemonize no".into(),
            format!("dir {}", quoted(&home.path("data"))),
        ];
        match &self.options.certificates {
            Some(certificates) => lines.extend(certificates.configuration(home, port)?),
            None => lines.push(format!("port {port}")),
        }
        if self.options.part == Part::Sentinel {
            return Ok(lines);
        }
        lines.extend([
            "appendonly yes".into(),
            // A power cut loses at most the last second, a `kill -9` nothing.
            "appendfsync everysec".into(),
            "save \"\"".into(),
            // A counter that was silently evicted would open a sold-out sale again.
            "maxmemory-policy noeviction".into(),
        ]);
        if self.options.part == Part::Member {
            lines.push(format!("masterauth {}", self.password));
            // A replica that joins does not wait for others to join with it.
            lines.push("repl-diskless-sync-delay 0".into());
        }
        Ok(lines)
    }
}

fn find(asked: Option<&Path>) -> Result<PathBuf, StartError> {
    if let Some(path) = asked {
        return path.canonicalize().map_err(StartError::io("find the Redis server", path));
    }
    program::find("redis-server")
        .or_else(|| program::find("redis-check-rdb"))
        .ok_or_else(|| StartError::missing("Redis server", "redis-tools", "SECKILL_REDIS_SERVER"))
}

/// Redis is one binary that plays the part of its name, and the package that calls it
/// `redis-server` also starts a system service. A link of that name makes any copy the server.
fn named_server(home: &Home, binary: &Path) -> Result<PathBuf, StartError> {
    let link = home.path("redis-server");
    fs::remove_file(&link).or_else(ignore_missing).map_err(StartError::io("replace", &link))?;
    symlink(binary, &link).map_err(StartError::io("make", &link))?;
    Ok(link)
}

fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

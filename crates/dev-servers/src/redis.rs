//! A private Redis server.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::StartError;
use super::home::Home;
use super::ports;
use super::program;
use super::server::{NotReady, Prepared, Recipe, Server};

const SERVER: &str = "Redis";

/// When the append-only file is flushed to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppendFsync {
    /// Before every answer.
    Always,
    /// Once a second: a power cut loses at most the last second, a `kill -9` nothing.
    #[default]
    EverySecond,
    /// When the kernel likes.
    No,
}

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
    /// When writes reach the disk.
    pub append_fsync: AppendFsync,
    /// Further lines for the configuration file, for tests that need them.
    pub extra_lines: Vec<String>,
}

/// A running private Redis server.
pub type RedisServer = Server<Redis>;

/// How to run Redis, and how to log in.
#[derive(Debug)]
pub struct Redis {
    program: PathBuf,
    launcher: Vec<String>,
    append_fsync: AppendFsync,
    extra_lines: Vec<String>,
    socket: PathBuf,
    port: u16,
    password: String,
}

impl RedisOptions {
    /// A server whose data stay in `data_dir`; its binary is `SECKILL_REDIS_SERVER` if that is set.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(data_dir.into()), ..Self::temporary() }
    }

    /// A server in a new directory that is removed afterwards, for tests; its binary is
    /// `SECKILL_REDIS_SERVER` if that is set.
    #[must_use]
    pub fn temporary() -> Self {
        let program = env::var_os("SECKILL_REDIS_SERVER").filter(|value| !value.is_empty());
        Self { program: program.map(PathBuf::from), ..Self::default() }
    }
}

impl RedisServer {
    /// Starts a server and returns when it answers, with the data of the last start loaded.
    ///
    /// # Errors
    /// A sentence that says what to do: no binary, directory or port in use, or the end of the
    /// server's log.
    pub async fn start(options: RedisOptions) -> Result<Self, StartError> {
        let binary = find(options.program.as_deref())?;
        let (home, mut temporary) = Home::open_or_make(SERVER, options.data_dir).await?;
        let program = named_server(&home, &binary)?;
        let version = program::version(SERVER, &program)?;
        let data = home.path("data");
        fs::create_dir_all(&data).map_err(StartError::io("make", &data))?;
        let (socket, short) = home.socket("redis.sock")?;
        temporary.extend(short);
        let recipe = Redis {
            program,
            launcher: options.launcher,
            append_fsync: options.append_fsync,
            extra_lines: options.extra_lines,
            socket,
            port: 0,
            password: home.password()?,
        };
        Self::boot(Prepared { recipe, home, temporary, version }, options.port).await
    }

    /// The URL over the unix socket.
    #[must_use]
    pub fn url(&self) -> String {
        self.recipe.url()
    }

    /// The URL over TCP on 127.0.0.1.
    #[must_use]
    pub fn tcp_url(&self) -> String {
        let (password, port) = (&self.recipe.password, self.recipe.port);
        format!("redis://:{password}@127.0.0.1:{port}")
    }
}

impl Recipe for Redis {
    /// A long append-only file takes its time to load.
    const START_MAX: Duration = Duration::from_secs(60);

    fn name(&self) -> &'static str {
        SERVER
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn command(&mut self, home: &Home, port: u16) -> Result<Vec<String>, StartError> {
        self.port = port;
        let mut lines = self.configuration(&home.path("data"));
        lines.extend(self.extra_lines.iter().cloned());
        home.write("redis.conf", &lines.join("\n"))?;
        let mut command = self.launcher.clone();
        let program = [self.program.clone(), home.path("redis.conf")];
        command.extend(program.map(|path| path.display().to_string()));
        Ok(command)
    }

    /// Not ready while the server loads its data.
    async fn ask(&self) -> Result<(), NotReady> {
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
        let (password, socket) = (&self.password, ports::url_path(&self.socket));
        format!("redis+unix://{socket}?pass={password}")
    }

    /// The lines of the configuration file. A file, so that the password is on no command line.
    fn configuration(&self, data: &Path) -> Vec<String> {
        let append_fsync = match self.append_fsync {
            AppendFsync::Always => "always",
            AppendFsync::EverySecond => "everysec",
            AppendFsync::No => "no",
        };
        vec![
            "bind 127.0.0.1".into(),
            format!("port {}", self.port),
            format!("unixsocket {}", quoted(&self.socket)),
            "unixsocketperm 700".into(),
            format!("requirepass {}", self.password),
            "daemonize no".into(),
            format!("dir {}", quoted(data)),
            "appendonly yes".into(),
            format!("appendfsync {append_fsync}"),
            "save \"\"".into(),
            // A counter that was silently evicted would open a sold-out sale again.
            "maxmemory-policy noeviction".into(),
        ]
    }
}

fn find(asked: Option<&Path>) -> Result<PathBuf, StartError> {
    if let Some(path) = asked {
        return path.canonicalize().map_err(StartError::io("find the Redis server", path));
    }
    program::find("redis-server").or_else(|| program::find("redis-check-rdb")).ok_or(
        StartError::ProgramMissing {
            server: "Redis server",
            package: "redis-tools",
            variable: "SECKILL_REDIS_SERVER",
        },
    )
}

/// Redis is one binary that plays the part of its name, and the package that calls it
/// `redis-server` also starts a system service. A link of that name makes any copy the server.
fn named_server(home: &Home, binary: &Path) -> Result<PathBuf, StartError> {
    let link = home.path("redis-server");
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StartError::io("replace", &link)(error));
        }
        _ => {}
    }
    symlink(binary, &link).map_err(StartError::io("make", &link))?;
    Ok(link)
}

fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

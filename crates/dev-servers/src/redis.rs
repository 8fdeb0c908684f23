//! A private Redis server.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::error::StartError;
use super::guardian::Guardian;
use super::home::Home;
use super::ports;
use super::program;
use super::temporary::TemporaryDirectory;

const SERVER: &str = "Redis";

/// How long a server may load its append-only file before it answers.
const START_MAX: Duration = Duration::from_secs(60);
/// How long one attempt to connect may take.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How often a starting server is asked whether it is ready.
const READY_POLL: Duration = Duration::from_millis(20);
/// How often another port is tried when ours was taken between our look and the server's bind.
const PORT_ATTEMPTS_MAX: u32 = 3;

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

/// A running private Redis server. Dropping it stops it in the background.
#[derive(Debug)]
pub struct RedisServer {
    guardian: Guardian,
    command: Vec<String>,
    access: Access,
    version: String,
    // Dropped last, so that the directory is unlocked and removed after the server was told to end.
    home: Home,
    _temporary: Vec<TemporaryDirectory>,
}

/// How to log in.
#[derive(Debug)]
struct Access {
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
        let mut access = Access { socket, port: 0, password: home.password()? };
        let configuration = home.path("redis.conf");
        let mut command = options.launcher;
        command.extend([program, configuration].map(|path| path.display().to_string()));
        let mut attempt = 1;
        let guardian = loop {
            access.port = ports::choose(SERVER, options.port, &home.path("port"))?;
            let mut lines = access.configuration(&data, options.append_fsync);
            lines.extend(options.extra_lines.iter().cloned());
            home.write("redis.conf", &lines.join("\n"))?;
            match launch(&home, &command, &access).await {
                Ok(guardian) => break guardian,
                Err(error)
                    if options.port.is_some()
                        || attempt == PORT_ATTEMPTS_MAX
                        || !ports::lost_the_race(&error) =>
                {
                    return Err(error);
                }
                Err(_) => attempt += 1,
            }
        };
        tracing::info!("{SERVER} answers on 127.0.0.1:{}", access.port);
        Ok(Self { guardian, command, access, version, home, _temporary: temporary })
    }

    /// The URL over the unix socket.
    #[must_use]
    pub fn url(&self) -> String {
        self.access.url()
    }

    /// The URL over TCP on 127.0.0.1.
    #[must_use]
    pub fn tcp_url(&self) -> String {
        let (password, port) = (&self.access.password, self.access.port);
        format!("redis://:{password}@127.0.0.1:{port}")
    }

    /// The TCP port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.access.port
    }

    /// The process number of the server itself.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.guardian.pid()
    }

    /// What the binary says about its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Asks the server to end, kills it if it takes longer than ten seconds, and returns when it
    /// has ended. Its directory is free for another start once this value is dropped.
    pub async fn stop(&self) {
        self.guardian.stop().await;
    }

    /// Kills the server at once, and returns when it is gone; for fault tests.
    pub async fn kill_hard(&self) {
        self.guardian.kill().await;
    }

    /// Freezes the server: connections stay open and nothing is answered. `false` when it ended.
    pub fn pause(&self) -> bool {
        self.guardian.signal("STOP")
    }

    /// Lets a frozen server go on. `false` when it ended.
    pub fn resume(&self) -> bool {
        self.guardian.signal("CONT")
    }

    /// Starts the server again on the same directory, socket and port, after [`Self::stop`] or
    /// [`Self::kill_hard`]; a running one is stopped first.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.stop().await;
        self.guardian = launch(&self.home, &self.command, &self.access).await?;
        Ok(())
    }

    /// Waits until the server has ended and tells how, with the end of its log.
    pub async fn ended(&self) -> StartError {
        let status = self.guardian.exited().await;
        self.home.ended(&status.to_string())
    }
}

impl Access {
    fn url(&self) -> String {
        let (password, socket) = (&self.password, ports::url_path(&self.socket));
        format!("redis+unix://{socket}?pass={password}")
    }

    /// The lines of the configuration file. A file, so that the password is on no command line.
    fn configuration(&self, data: &Path, append_fsync: AppendFsync) -> Vec<String> {
        let append_fsync = match append_fsync {
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

/// Runs the server and waits until it answers. On an error it has been stopped again.
async fn launch(home: &Home, command: &[String], access: &Access) -> Result<Guardian, StartError> {
    let guardian = Guardian::spawn(command, home.directory(), home.log())
        .map_err(StartError::io("run", Path::new(&command[0])))?;
    let begin = Instant::now();
    loop {
        if let Some(status) = guardian.exit_status() {
            return Err(home.ended(&status.to_string()));
        }
        let answer = match timeout(CONNECT_MAX, ping(&access.url())).await {
            Ok(Ok(())) => return Ok(guardian),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", CONNECT_MAX.as_secs()),
        };
        if begin.elapsed() >= START_MAX {
            guardian.stop().await;
            return Err(home.silent(begin.elapsed(), answer));
        }
        sleep(READY_POLL).await;
    }
}

/// Also an error while the server loads its data.
async fn ping(url: &str) -> redis::RedisResult<()> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    redis::cmd("PING").query_async(&mut connection).await
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

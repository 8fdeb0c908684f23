//! Private ZooKeeper servers: one alone, or an ensemble that keeps a quorum.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::error::StartError;
use super::guardian::Guardian;
use super::home::Home;
use super::ports;
use super::program;
use super::temporary::TemporaryDirectory;

const SERVER: &str = "ZooKeeper";

/// Where Debian's `libzookeeper-java` puts the server; its manifest names what else it needs.
const DEBIAN_JAR: &str = "/usr/share/java/zookeeper.jar";
/// Writes what the server logs to its standard error.
const DEBIAN_LOGGER: &str = "/usr/share/java/slf4j-simple.jar";
const MAIN_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// How long a server may load its data, or an ensemble elect its leader, before it answers.
const START_MAX: Duration = Duration::from_secs(60);
/// How long one question to a server may take.
const ASK_MAX: Duration = Duration::from_secs(2);
/// How often a starting server is asked whether it is ready.
const READY_POLL: Duration = Duration::from_millis(30);
/// How often other ports are tried when one of ours was taken between our look and the server's bind.
const PORT_ATTEMPTS_MAX: u32 = 3;

/// The server's unit of time. Sessions end at its multiples, and none is shorter than two of it.
pub const TICK_MS: u32 = 200;
/// The longest session that a client may ask for.
const SESSION_MS_MAX: u32 = 1_000_000;
/// How many ticks a member may take to join the ensemble, and to answer its leader.
const LIMIT_TICKS: u32 = 50;

/// What to start, and where.
#[derive(Clone, Debug, Default)]
pub struct ZookeeperOptions {
    /// The directory for data and log, made when it is missing; `None` makes a new one that is
    /// removed when the server is dropped or this process ends.
    pub data_dir: Option<PathBuf>,
    /// The Java class path with the server; `None` takes the one of Debian's `libzookeeper-java`.
    pub class_path: Option<String>,
    /// A program and its arguments that start what follows them, such as `env NAME=value`; none
    /// starts the server itself. For tests.
    pub launcher: Vec<String>,
    /// Whether a change is on the disk before it is answered. Tests do without.
    pub synced: bool,
}

/// A running private ZooKeeper server. Dropping it stops it in the background.
///
/// It has no password, since the locks' client would have to send it in clear: it listens on
/// loopback only, and holds nothing but locks.
#[derive(Debug)]
pub struct ZookeeperServer {
    guardian: Guardian,
    command: Vec<String>,
    port: u16,
    // Dropped last, so that the directory is unlocked and removed after the server was told to end.
    home: Home,
    _temporary: Vec<TemporaryDirectory>,
}

/// Servers that elect a leader and go on while most of them live. For tests.
#[derive(Debug)]
pub struct ZookeeperEnsemble {
    /// The members, in the order of their numbers.
    pub members: Vec<ZookeeperServer>,
}

impl ZookeeperOptions {
    /// A server whose data stay in `data_dir`; `SECKILL_ZOOKEEPER_CLASSPATH` names another server.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(data_dir.into()), synced: true, ..Self::temporary() }
    }

    /// A server in a new directory that is removed afterwards, for tests.
    #[must_use]
    pub fn temporary() -> Self {
        let class_path = env::var("SECKILL_ZOOKEEPER_CLASSPATH").ok();
        Self { class_path: class_path.filter(|path| !path.is_empty()), ..Self::default() }
    }
}

/// A member's ports for the others, by its number.
type Peers = [(u16, u16)];

/// A server that is ready to be launched.
struct Prepared {
    home: Home,
    temporary: Vec<TemporaryDirectory>,
    command: Vec<String>,
    port: u16,
}

impl ZookeeperServer {
    /// Starts a server of its own and returns when it answers.
    ///
    /// # Errors
    /// A sentence that says what to do: no Java, no server, a directory in use, or the end of the
    /// server's log.
    pub async fn start(options: ZookeeperOptions) -> Result<Self, StartError> {
        let (mut home, mut temporary) =
            Home::open_or_make(SERVER, options.data_dir.clone()).await?;
        let mut attempt = 1;
        loop {
            let port = ports::choose(SERVER, None, &home.path("port"))?;
            let prepared = prepare(home, temporary, &options, port, None)?;
            match launch(&prepared.home, &prepared.command, prepared.port).await {
                Ok(guardian) => return Ok(prepared.running(guardian)),
                Err(error) if attempt == PORT_ATTEMPTS_MAX || !ports::lost_the_race(&error) => {
                    return Err(error);
                }
                Err(_) => attempt += 1,
            }
            (home, temporary) = (prepared.home, prepared.temporary);
        }
    }

    /// The address for clients, `host:port`.
    #[must_use]
    pub fn hosts(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What the server says about its version.
    pub async fn version(&self) -> String {
        let answer = ask(self.port, "srvr").await.unwrap_or_default();
        let line = answer.lines().next().unwrap_or_default();
        let version = line.trim_start_matches("Zookeeper version:").trim();
        format!("{SERVER} {}", version.split(['-', ',']).next().unwrap_or_default())
    }

    /// Whether it answers and leads its ensemble.
    pub async fn leads(&self) -> bool {
        ask(self.port, "srvr").await.is_ok_and(|answer| answer.contains("Mode: leader"))
    }

    /// A number that the server counts, by its name in the command `mntr`.
    pub async fn counted(&self, name: &str) -> Option<i64> {
        let answer = ask(self.port, "mntr").await.ok()?;
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        value?.trim().parse().ok()
    }

    /// The process number of the server itself.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.guardian.pid()
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

    /// Starts the server again on the same directory and port, after [`Self::stop`] or
    /// [`Self::kill_hard`]; a running one is stopped first.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.stop().await;
        self.guardian = launch(&self.home, &self.command, self.port).await?;
        Ok(())
    }

    /// Waits until the server has ended and tells how, with the end of its log.
    pub async fn ended(&self) -> StartError {
        let status = self.guardian.exited().await;
        self.home.ended(&status.to_string())
    }
}

impl ZookeeperEnsemble {
    /// Starts `size` servers in throw-away directories and returns when all of them serve.
    ///
    /// # Errors
    /// As for [`ZookeeperServer::start`]; the other members are stopped again.
    pub async fn start_temporary(size: usize) -> Result<Self, StartError> {
        let mut attempt = 1;
        loop {
            match Self::try_start(size).await {
                Err(error) if attempt < PORT_ATTEMPTS_MAX && ports::lost_the_race(&error) => {
                    attempt += 1;
                }
                started => return started,
            }
        }
    }

    async fn try_start(size: usize) -> Result<Self, StartError> {
        let options = ZookeeperOptions::temporary();
        let free = ports::several_free(3 * size)
            .map_err(StartError::io("find free ports for", Path::new(SERVER)))?;
        let peers: Vec<(u16, u16)> = free[size..].chunks(2).map(|two| (two[0], two[1])).collect();
        let starts = (0..size).map(|index| {
            let (options, peers, port) = (&options, &peers, free[index]);
            async move {
                let (home, temporary) = Home::open_or_make(SERVER, None).await?;
                let prepared = prepare(home, temporary, options, port, Some((index, peers)))?;
                let guardian = launch(&prepared.home, &prepared.command, port).await?;
                Ok::<_, StartError>(prepared.running(guardian))
            }
        });
        Ok(Self { members: try_join_all(starts).await? })
    }

    /// The addresses of all members, as clients want them.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.members.iter().map(ZookeeperServer::hosts).collect::<Vec<_>>().join(",")
    }

    /// The place of the leader among the members, if there is one now.
    pub async fn leader(&self) -> Option<usize> {
        let leads = join_all(self.members.iter().map(ZookeeperServer::leads)).await;
        leads.into_iter().position(|leads| leads)
    }
}

impl Prepared {
    fn running(self, guardian: Guardian) -> ZookeeperServer {
        let Self { home, temporary, command, port } = self;
        ZookeeperServer { guardian, command, port, home, _temporary: temporary }
    }
}

/// Writes the configuration, and for a member of an ensemble its number.
fn prepare(
    home: Home,
    temporary: Vec<TemporaryDirectory>,
    options: &ZookeeperOptions,
    port: u16,
    member: Option<(usize, &Peers)>,
) -> Result<Prepared, StartError> {
    let command = command(options, &home)?;
    let data = home.path("data");
    fs::create_dir_all(&data).map_err(StartError::io("make", &data))?;
    let mut lines = vec![
        format!("tickTime={TICK_MS}"),
        format!("maxSessionTimeout={SESSION_MS_MAX}"),
        format!("dataDir={}", data.display()),
        "clientPortAddress=127.0.0.1".into(),
        format!("clientPort={port}"),
        "maxClientCnxns=0".into(),
        "admin.enableServer=false".into(),
        "4lw.commands.whitelist=ruok,srvr,mntr,cons".into(),
    ];
    if let Some((index, peers)) = member {
        lines.push(format!("initLimit={LIMIT_TICKS}\nsyncLimit={LIMIT_TICKS}"));
        for (number, (quorum, election)) in (1..).zip(peers) {
            lines.push(format!("server.{number}=127.0.0.1:{quorum}:{election}"));
        }
        let path = data.join("myid");
        fs::write(&path, format!("{}\n", index + 1)).map_err(StartError::io("write", &path))?;
    }
    home.write("zoo.cfg", &lines.join("\n"))?;
    Ok(Prepared { home, temporary, command, port })
}

fn command(options: &ZookeeperOptions, home: &Home) -> Result<Vec<String>, StartError> {
    let missing = |server, package| StartError::ProgramMissing {
        server,
        package,
        variable: "SECKILL_ZOOKEEPER_CLASSPATH",
    };
    let java = program::find("java").ok_or(missing("Java", "default-jre-headless"))?;
    let class_path = match &options.class_path {
        Some(path) => path.clone(),
        None if Path::new(DEBIAN_JAR).exists() => format!("{DEBIAN_JAR}:{DEBIAN_LOGGER}"),
        None => return Err(missing("ZooKeeper server", "libzookeeper-java")),
    };
    let mut command = options.launcher.clone();
    command.push(java.display().to_string());
    // Small and soon ready: it holds locks, and shares the machine with everything else.
    command.extend(["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"].map(str::to_owned));
    command.push("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn".into());
    if !options.synced {
        command.push("-Dzookeeper.forceSync=no".into());
    }
    command.extend(["-cp".into(), class_path, MAIN_CLASS.into()]);
    command.push(home.path("zoo.cfg").display().to_string());
    Ok(command)
}

/// Runs the server and waits until it serves. On an error it has been stopped again.
async fn launch(home: &Home, command: &[String], port: u16) -> Result<Guardian, StartError> {
    let guardian = Guardian::spawn(command, home.directory(), home.log())
        .map_err(StartError::io("run", Path::new(&command[0])))?;
    let begin = Instant::now();
    loop {
        if let Some(status) = guardian.exit_status() {
            return Err(home.ended(&status.to_string()));
        }
        let answer = match ask(port, "srvr").await {
            // Without a quorum it answers, but does not serve.
            Ok(answer) if answer.contains("Mode: ") => {
                tracing::info!("{SERVER} answers on 127.0.0.1:{port}");
                return Ok(guardian);
            }
            Ok(answer) => answer,
            Err(error) => error.to_string(),
        };
        if begin.elapsed() >= START_MAX {
            guardian.stop().await;
            return Err(home.silent(begin.elapsed(), answer));
        }
        sleep(READY_POLL).await;
    }
}

/// The answer to one of the server's four-letter commands.
async fn ask(port: u16, word: &str) -> std::io::Result<String> {
    let talk = async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    timeout(ASK_MAX, talk).await?
}

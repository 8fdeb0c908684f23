//! Private ZooKeeper servers: one alone, or an ensemble that keeps a quorum.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use futures::future::{join_all, try_join_all};

use super::error::StartError;
use super::home::Home;
use super::ports;
use super::program;
use super::server::{NotReady, ReadyServer, Recipe, Server, say};

const SERVER: &str = "ZooKeeper";

/// Where Debian's `libzookeeper-java` puts the server; its manifest names what else it needs.
const DEBIAN_JAR: &str = "/usr/share/java/zookeeper.jar";
/// Writes what the server logs to its standard error.
const DEBIAN_LOGGER: &str = "/usr/share/java/slf4j-simple.jar";
const MAIN_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// The server's unit of time. Sessions end at its multiples, and none is shorter than two of it.
const TICK_MS: u32 = 200;
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
    /// A program and its arguments that start what follows them, such as `env NAME=value`; none
    /// starts the server itself. For tests.
    pub launcher: Vec<String>,
    /// Whether a change is on the disk before it is answered. Tests do without.
    pub synced: bool,
}

/// A running private ZooKeeper server.
///
/// It has no password, since the locks' client would have to send it in clear: it listens on
/// loopback only, and holds nothing but locks.
pub type ZookeeperServer = Server<Zookeeper>;

/// How to run ZooKeeper.
#[derive(Debug)]
pub struct Zookeeper {
    options: ZookeeperOptions,
    /// In an ensemble: the index of this member, and the ports of all members for each other.
    member: Option<(usize, Vec<(u16, u16)>)>,
}

/// Servers that elect a leader and go on while most of them live. For tests.
#[derive(Debug)]
pub struct ZookeeperEnsemble {
    /// The members, in the order of their numbers.
    pub members: Vec<ZookeeperServer>,
}

impl ZookeeperOptions {
    /// A server whose data stay in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(data_dir.into()), synced: true, ..Self::temporary() }
    }

    /// A server in a new directory that is removed afterwards, for tests.
    pub fn temporary() -> Self {
        Self::default()
    }
}

impl ZookeeperServer {
    /// Starts a server of its own and returns when it answers.
    ///
    /// # Errors
    /// A sentence that says what to do: no Java, no server, a directory in use, or the end of the
    /// server's log.
    pub async fn start(options: ZookeeperOptions) -> Result<Self, StartError> {
        Self::boot(prepare(options, None).await?, None).await
    }

    /// The address for clients, `host:port`.
    pub fn hosts(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Whether it answers and leads its ensemble.
    pub async fn leads(&self) -> bool {
        say(self.port(), "srvr").await.is_ok_and(|answer| answer.contains("Mode: leader"))
    }

    /// A number that the server counts, by its name in the command `mntr`.
    pub async fn counted(&self, name: &str) -> Option<i64> {
        let answer = say(self.port(), "mntr").await.ok()?;
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        value?.trim().parse().ok()
    }
}

impl ZookeeperEnsemble {
    /// Starts `size` servers in throw-away directories and returns when all of them serve.
    ///
    /// # Errors
    /// As for [`ZookeeperServer::start`]; the other members are stopped again.
    pub async fn start_temporary(size: usize) -> Result<Self, StartError> {
        ports::start_again(|| Self::try_start(size)).await
    }

    async fn try_start(size: usize) -> Result<Self, StartError> {
        let free = ports::several_free(SERVER, 3 * size)?;
        let peers: Vec<(u16, u16)> = free[size..].chunks(2).map(|two| (two[0], two[1])).collect();
        let starts = (0..size).map(|index| {
            let member = (index, peers.clone());
            let port = free[index];
            async move {
                let prepared = prepare(ZookeeperOptions::temporary(), Some(member)).await?;
                ZookeeperServer::boot(prepared, Some(port)).await
            }
        });
        Ok(Self { members: try_join_all(starts).await? })
    }

    /// The addresses of all members, as clients want them.
    pub fn hosts(&self) -> String {
        self.members.iter().map(ZookeeperServer::hosts).collect::<Vec<_>>().join(",")
    }

    /// The place of the leader among the members, if there is one now.
    pub async fn leader(&self) -> Option<usize> {
        let leads = join_all(self.members.iter().map(ZookeeperServer::leads)).await;
        leads.into_iter().position(|leads| leads)
    }
}

/// The recipe, and the directory to run it in.
async fn prepare(
    mut options: ZookeeperOptions,
    member: Option<(usize, Vec<(u16, u16)>)>,
) -> Result<ReadyServer<Zookeeper>, StartError> {
    let (home, temporary) = Home::open_or_make(SERVER, options.data_dir.take()).await?;
    let recipe = Zookeeper { options, member };
    Ok(ReadyServer { recipe, home, temporary, version: SERVER.to_owned() })
}

impl Recipe for Zookeeper {
    fn command(&self, home: &Home, port: u16) -> Result<Vec<String>, StartError> {
        let data = home.data()?;
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
        if let Some((index, peers)) = &self.member {
            lines.push(format!("initLimit={LIMIT_TICKS}\nsyncLimit={LIMIT_TICKS}"));
            for (number, (quorum, election)) in (1..).zip(peers) {
                lines.push(format!("server.{number}=127.0.0.1:{quorum}:{election}"));
            }
            let path = data.join("myid");
            fs::write(&path, format!("{}\n", index + 1)).map_err(StartError::io("write", &path))?;
        }
        home.write("zoo.cfg", &lines.join("\n"))?;
        command(&self.options, home)
    }

    /// Without a quorum it answers, but does not serve.
    async fn ask(&self, port: u16) -> Result<(), NotReady> {
        match say(port, "srvr").await {
            Ok(answer) if answer.contains("Mode: ") => Ok(()),
            Ok(answer) => Err(NotReady::Yet(answer)),
            Err(error) => Err(NotReady::Yet(error.to_string())),
        }
    }
}

fn command(options: &ZookeeperOptions, home: &Home) -> Result<Vec<String>, StartError> {
    let missing =
        |server, package| StartError::missing(server, package, "SECKILL_ZOOKEEPER_CLASSPATH");
    let java = program::find("java").ok_or_else(|| missing("Java", "default-jre-headless"))?;
    let class_path = match env::var("SECKILL_ZOOKEEPER_CLASSPATH").ok() {
        Some(path) if !path.is_empty() => path,
        _ if Path::new(DEBIAN_JAR).exists() => format!("{DEBIAN_JAR}:{DEBIAN_LOGGER}"),
        _ => return Err(missing("ZooKeeper server", "libzookeeper-java")),
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

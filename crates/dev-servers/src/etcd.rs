//! Private etcd servers: one, or the members of a cluster.

use std::path::{Path, PathBuf};

use futures::future::try_join_all;

use super::error::StartError;
use super::home::Home;
use super::ports;
use super::program;
use super::server::{NotReady, ReadyServer, Recipe, Server, say};

const SERVER: &str = "etcd";

/// How often a leader shows that it is there, and after how much silence the others elect a new
/// one. Half of etcd's own figures: everything is on one machine, and the shortest lease that a
/// server grants is one and a half times the second figure.
const HEARTBEAT_MS: u32 = 50;
const ELECTION_TIMEOUT_MS: u32 = 500;

/// The request of a server's health. The server ends the connection with its answer.
const HEALTH: &str = "GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n";

/// What to start, and where.
#[derive(Clone, Debug, Default)]
pub struct EtcdOptions {
    /// The directory for data and log, made when it is missing; `None` makes a new one that is
    /// removed when the server is dropped or this process ends.
    pub data_dir: Option<PathBuf>,
    /// The server's binary; `None` searches for `etcd`, then for the one that
    /// `scripts/install-packages etcd` has unpacked.
    pub program: Option<PathBuf>,
}

/// A running private etcd server.
pub type EtcdServer = Server<Etcd>;

/// How to run etcd.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    /// Its name in the cluster.
    member: String,
    peer_port: u16,
    /// Names and addresses of all members, as etcd wants them.
    cluster: String,
}

impl EtcdOptions {
    /// A server whose data stay in `data_dir`; its binary is `SECKILL_ETCD` if that is set.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(data_dir.into()), ..Self::temporary() }
    }

    /// A server in a new directory that is removed afterwards, for tests; its binary is
    /// `SECKILL_ETCD` if that is set.
    pub fn temporary() -> Self {
        Self { program: program::named("SECKILL_ETCD"), ..Self::default() }
    }
}

impl EtcdServer {
    /// Starts one server and returns when it answers, with the data of the last start.
    ///
    /// # Errors
    /// A sentence that says what to do: no binary, directory in use, or the end of the server's log.
    pub async fn start(options: EtcdOptions) -> Result<Self, StartError> {
        Ok(Self::start_together(vec![options]).await?.remove(0))
    }

    /// Starts a new cluster of this many members in throw-away directories, for tests.
    pub async fn start_cluster(members: usize) -> Result<Vec<Self>, StartError> {
        Self::start_together(vec![EtcdOptions::temporary(); members]).await
    }

    /// Starts members that know each other, again with other ports when one of them was taken.
    async fn start_together(options: Vec<EtcdOptions>) -> Result<Vec<Self>, StartError> {
        ports::start_again(|| Self::start_members(options.clone())).await
    }

    async fn start_members(options: Vec<EtcdOptions>) -> Result<Vec<Self>, StartError> {
        let mut prepared = Vec::new();
        let mut ports = Vec::new();
        for (number, options) in options.into_iter().enumerate() {
            let program = find(options.program.as_deref())?;
            let version = program::version(SERVER, &program)?;
            let (home, temporary) = Home::open_or_make(SERVER, options.data_dir).await?;
            ports.push(ports::choose(&home.path("port"))?);
            let recipe = Etcd {
                program,
                member: format!("member-{number}"),
                peer_port: ports::choose(&home.path("peer-port"))?,
                cluster: String::new(),
            };
            prepared.push(ReadyServer { recipe, home, temporary, version });
        }
        let cluster: Vec<String> = prepared
            .iter()
            .map(|ReadyServer { recipe, .. }| {
                format!("{}={}", recipe.member, url(recipe.peer_port))
            })
            .collect();
        for member in &mut prepared {
            member.recipe.cluster = cluster.join(",");
        }
        // Together, since a member serves only when enough others run.
        let starts = prepared.into_iter().zip(ports);
        try_join_all(starts.map(|(member, port)| Self::boot(member, Some(port)))).await
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        url(self.port())
    }
}

impl Recipe for Etcd {
    fn command(&self, home: &Home, port: u16) -> Result<Vec<String>, StartError> {
        let data = home.data()?;
        let peer = url(self.peer_port);
        let flags = [
            ("name", self.member.clone()),
            ("data-dir", data.display().to_string()),
            ("listen-client-urls", url(port)),
            ("advertise-client-urls", url(port)),
            ("listen-peer-urls", peer.clone()),
            ("initial-advertise-peer-urls", peer),
            ("initial-cluster", self.cluster.clone()),
            ("heartbeat-interval", HEARTBEAT_MS.to_string()),
            ("election-timeout", ELECTION_TIMEOUT_MS.to_string()),
            // Every lock leaves revisions behind, and nobody asks for old ones.
            ("auto-compaction-mode", "periodic".to_owned()),
            ("auto-compaction-retention", "10m".to_owned()),
            ("logger", "zap".to_owned()),
            ("log-outputs", "stderr".to_owned()),
            ("log-level", "warn".to_owned()),
        ];
        let mut command = vec![self.program.display().to_string()];
        command.extend(flags.map(|(flag, value)| format!("--{flag}={value}")));
        Ok(command)
    }

    /// Ready once it knows a leader.
    async fn ask(&self, port: u16) -> Result<(), NotReady> {
        match say(port, HEALTH).await {
            Ok(answer) if answer.contains("\"true\"") => Ok(()),
            Ok(answer) => Err(NotReady::Yet(answer)),
            Err(error) => Err(NotReady::Yet(error.to_string())),
        }
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn find(asked: Option<&Path>) -> Result<PathBuf, StartError> {
    if let Some(path) = asked {
        return path.canonicalize().map_err(StartError::io("find the etcd server", path));
    }
    let unpacked = || program::unpacked("etcd").filter(|path| path.is_file());
    program::find("etcd")
        .or_else(unpacked)
        .ok_or_else(|| StartError::missing("etcd server", "etcd-server", "SECKILL_ETCD"))
}

//! Private etcd servers: one, or the members of a cluster.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::{Instant, sleep, timeout};

use super::error::StartError;
use super::guardian::Guardian;
use super::home::Home;
use super::ports;
use super::program;
use super::temporary::TemporaryDirectory;

const SERVER: &str = "etcd";

/// How long a server may take until it has a leader and answers.
const START_MAX: Duration = Duration::from_secs(60);
/// How long one question whether it is well may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How often a starting server is asked.
const READY_POLL: Duration = Duration::from_millis(20);
/// How often other ports are tried when ours were taken between our look and the server's bind.
const PORT_ATTEMPTS_MAX: u32 = 3;

/// How often a leader shows that it is there, and after how much silence the others elect a new
/// one. Half of etcd's own figures: everything is on one machine, and the shortest lease that a
/// server grants is one and a half times the second figure.
const HEARTBEAT_MS: u32 = 50;
const ELECTION_TIMEOUT_MS: u32 = 500;

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

/// A running private etcd server. Dropping it stops it in the background.
#[derive(Debug)]
pub struct EtcdServer {
    guardian: Guardian,
    command: Vec<String>,
    client_port: u16,
    version: String,
    // Dropped last, so that the directory is unlocked and removed after the server was told to end.
    home: Home,
    _temporary: Vec<TemporaryDirectory>,
}

impl EtcdOptions {
    /// A server whose data stay in `data_dir`; its binary is `SECKILL_ETCD` if that is set.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(data_dir.into()), ..Self::temporary() }
    }

    /// A server in a new directory that is removed afterwards, for tests; its binary is
    /// `SECKILL_ETCD` if that is set.
    #[must_use]
    pub fn temporary() -> Self {
        let program = env::var_os("SECKILL_ETCD").filter(|value| !value.is_empty());
        Self { program: program.map(PathBuf::from), ..Self::default() }
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

    /// Starts a new cluster of so many members in throw-away directories, for tests.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub async fn start_cluster(members: usize) -> Result<Vec<Self>, StartError> {
        Self::start_together(vec![EtcdOptions::temporary(); members]).await
    }

    /// Starts members that know each other, again with other ports when one of them was taken.
    async fn start_together(options: Vec<EtcdOptions>) -> Result<Vec<Self>, StartError> {
        let mut attempt = 1;
        loop {
            match Self::start_members(options.clone()).await {
                Err(error) if attempt < PORT_ATTEMPTS_MAX && ports::lost_the_race(&error) => {
                    attempt += 1;
                }
                started => return started,
            }
        }
    }

    async fn start_members(options: Vec<EtcdOptions>) -> Result<Vec<Self>, StartError> {
        let mut prepared = Vec::new();
        for (number, options) in options.into_iter().enumerate() {
            let binary = find(options.program.as_deref())?;
            let version = program::version(SERVER, &binary)?;
            let (home, temporary) = Home::open_or_make(SERVER, options.data_dir).await?;
            let client_port = ports::choose(SERVER, None, &home.path("port"))?;
            let peer_port = ports::choose(SERVER, None, &home.path("peer-port"))?;
            let name = format!("member-{number}");
            prepared.push((name, binary, version, home, temporary, client_port, peer_port));
        }
        let cluster: Vec<String> = prepared
            .iter()
            .map(|(name, .., peer_port)| format!("{name}=http://127.0.0.1:{peer_port}"))
            .collect();
        let cluster = cluster.join(",");
        let mut servers = Vec::new();
        for (name, binary, version, home, temporary, client_port, peer_port) in prepared {
            let data = home.path("data");
            fs::create_dir_all(&data).map_err(StartError::io("make", &data))?;
            let client = format!("http://127.0.0.1:{client_port}");
            let peer = format!("http://127.0.0.1:{peer_port}");
            let mut command = vec![binary.display().to_string()];
            let flags = [
                ("name", name),
                ("data-dir", data.display().to_string()),
                ("listen-client-urls", client.clone()),
                ("advertise-client-urls", client),
                ("listen-peer-urls", peer.clone()),
                ("initial-advertise-peer-urls", peer),
                ("initial-cluster", cluster.clone()),
                ("heartbeat-interval", HEARTBEAT_MS.to_string()),
                ("election-timeout", ELECTION_TIMEOUT_MS.to_string()),
                // Every lock leaves revisions behind, and nobody asks for old ones.
                ("auto-compaction-mode", "periodic".to_owned()),
                ("auto-compaction-retention", "10m".to_owned()),
                ("logger", "zap".to_owned()),
                ("log-outputs", "stderr".to_owned()),
                ("log-level", "warn".to_owned()),
            ];
            command.extend(flags.map(|(flag, value)| format!("--{flag}={value}")));
            let guardian = spawn(&home, &command)?;
            servers.push(Self {
                guardian,
                command,
                client_port,
                version,
                home,
                _temporary: temporary,
            });
        }
        // A member of a cluster is well only when enough others run.
        for server in &servers {
            server.until_well().await?;
        }
        Ok(servers)
    }

    /// The address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port)
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

    /// Starts the server again on the same directory and ports, after [`Self::stop`] or
    /// [`Self::kill_hard`]; a running one is stopped first.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.stop().await;
        self.guardian = spawn(&self.home, &self.command)?;
        self.until_well().await
    }

    /// Waits until the server has ended and tells how, with the end of its log.
    pub async fn ended(&self) -> StartError {
        let status = self.guardian.exited().await;
        self.home.ended(&status.to_string())
    }

    /// Waits until the server knows a leader and answers. On an error it has been stopped.
    async fn until_well(&self) -> Result<(), StartError> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.guardian.exit_status() {
                return Err(self.home.ended(&status.to_string()));
            }
            let answer = match timeout(ANSWER_MAX, health(&self.url())).await {
                Ok(Ok(answer)) if answer.contains("\"true\"") => return Ok(()),
                Ok(Ok(answer) | Err(answer)) => answer,
                Err(_) => format!("no answer within {} s", ANSWER_MAX.as_secs()),
            };
            if begin.elapsed() >= START_MAX {
                self.guardian.stop().await;
                return Err(self.home.silent(begin.elapsed(), answer));
            }
            sleep(READY_POLL).await;
        }
    }
}

fn spawn(home: &Home, command: &[String]) -> Result<Guardian, StartError> {
    Guardian::spawn(command, home.directory(), home.log())
        .map_err(StartError::io("run", Path::new(&command[0])))
}

async fn health(url: &str) -> Result<String, String> {
    let address = format!("{url}/health").parse().map_err(|_| "a bad address".to_owned())?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let answer = client.get(address).await.map_err(|error| error.to_string())?;
    let body = answer.into_body().collect().await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

fn find(asked: Option<&Path>) -> Result<PathBuf, StartError> {
    if let Some(path) = asked {
        return path.canonicalize().map_err(StartError::io("find the etcd server", path));
    }
    program::find("etcd").or_else(unpacked).ok_or(StartError::ProgramMissing {
        server: "etcd server",
        package: "etcd-server",
        variable: "SECKILL_ETCD",
    })
}

/// Debian's package starts a system service, so `scripts/install-packages` takes the program alone
/// out of it and keeps it here.
fn unpacked() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty());
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let path = cache.map(PathBuf::from).or_else(home)?.join("seckill/etcd");
    path.is_file().then_some(path)
}

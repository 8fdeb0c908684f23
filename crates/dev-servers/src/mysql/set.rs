//! Database servers that replicate to each other, in one of the ways that the ledger supports.
//!
//! What the ways share is here: the members, their folder, the URL with all hosts, and which of them
//! is the writer. What differs is one file each: [`semisync`], [`group`] and [`galera`].

use std::fs;
use std::path::{Path, PathBuf};

use futures::future::{join_all, select_all};
use sqlx::mysql::MySqlConnection;

use super::flavour::{self, Flavour};
use super::{DATABASE, MysqlOptions, MysqlServer, galera, group, operator, semisync};
use crate::error::StartError;
use crate::ports;

/// The file with the number of the writer, from 1, beside the members' folders.
const WRITER: &str = "primary";
/// The file with the ports on which the members speak to each other.
const PORTS: &str = "ports";

/// A way to replicate the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicated {
    /// Two MariaDB servers; the primary answers a commit after the replica has it in its relay log.
    SemiSync,
    /// Three MySQL servers with Group Replication and a single primary.
    Group,
    /// Three nodes of MariaDB with Galera.
    Galera,
}

/// Servers that replicate to each other, one of which is the writer.
#[derive(Debug)]
pub struct MysqlSet {
    engine: Replicated,
    members: Members,
    writer: usize,
}

/// The servers of a set.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) servers: Vec<MysqlServer>,
    pub(super) shared: Shared,
}

/// Where a set keeps its data, and what its members share.
#[derive(Debug)]
pub(super) struct Shared {
    program: PathBuf,
    /// `None` for throw-away servers.
    directory: Option<PathBuf>,
    /// Of the operator's account, and of the shop's.
    pub(super) password: String,
    /// The ports on which the members speak to each other.
    pub(super) ports: Vec<u16>,
}

impl MysqlSet {
    /// Starts a set, with the data of its members in folders below `directory`, and returns once
    /// commits are replicated. A second start finds the data and the roles again.
    ///
    /// # Errors
    /// The error of a server that did not start, or did not replicate.
    pub async fn start(engine: Replicated, directory: &Path) -> Result<Self, StartError> {
        let remembered = fs::read_to_string(directory.join(WRITER)).unwrap_or_default();
        let remembered = remembered.trim().parse().unwrap_or(1_usize);
        let writer = remembered.saturating_sub(1).min(engine.count() - 1);
        Self::start_in(engine, Some(directory), writer).await
    }

    /// Starts a set in throw-away directories, for tests.
    pub async fn start_temporary(engine: Replicated) -> Result<Self, StartError> {
        Self::start_in(engine, None, 0).await
    }

    async fn start_in(
        engine: Replicated,
        directory: Option<&Path>,
        writer: usize,
    ) -> Result<Self, StartError> {
        let shared = Shared::open(directory, engine)?;
        let (members, writer) = match engine {
            Replicated::SemiSync => (semisync::start(shared, writer).await?, writer),
            Replicated::Group => group::start(shared).await?,
            Replicated::Galera => (galera::start(shared, writer).await?, 0),
        };
        let set = Self { engine, members, writer };
        set.remember()?;
        Ok(set)
    }

    /// The URL of the database [`DATABASE`] with all hosts.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The URL of another database with all hosts, whose name begins with [`DATABASE`].
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        let servers = &self.members.servers;
        let hosts = servers.iter().map(|server| format!("127.0.0.1:{}", server.port()));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let first = format!("127.0.0.1:{}/", servers[0].port());
        servers[0].tcp_url_of(database).replace(&first, &format!("{hosts}/"))
    }

    /// The way in which this set replicates.
    #[must_use]
    pub fn engine(&self) -> Replicated {
        self.engine
    }

    /// The index of the writer in the URL, from 0.
    #[must_use]
    pub fn writer(&self) -> usize {
        self.writer
    }

    /// A member, to kill, freeze and restart.
    pub fn member(&mut self, index: usize) -> &mut MysqlServer {
        &mut self.members.servers[index]
    }

    /// A connection with all privileges to a member.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn operator(&self, index: usize) -> Result<MySqlConnection, StartError> {
        self.members.operator(index).await
    }

    /// Returns once another member is the writer; the old one must be gone, frozen or demoted. The
    /// replica of a semi-synchronous pair is promoted; other engines choose the next writer, and
    /// this waits for it.
    ///
    /// # Errors
    /// No other member becomes the writer.
    pub async fn take_over(&mut self) -> Result<(), StartError> {
        self.writer = match self.engine {
            Replicated::SemiSync => semisync::promote(&self.members, self.writer).await?,
            Replicated::Group => group::until_primary(&self.members, self.writer).await?,
            Replicated::Galera => galera::until_writer(&self.members, self.writer).await?,
        };
        self.remember()
    }

    /// Lets another member become the writer while the old one runs, as before a maintenance.
    ///
    /// # Errors
    /// The writer does not give up its part, or no other member takes it.
    pub async fn switch_over(&mut self) -> Result<(), StartError> {
        match self.engine {
            Replicated::SemiSync | Replicated::Galera => {
                let mut writer = self.operator(self.writer).await?;
                operator::run(&mut writer, "demote", "SET GLOBAL read_only = 1").await?;
            }
            Replicated::Group => group::hand_over(&self.members, self.writer).await?,
        }
        self.take_over().await
    }

    /// Starts a writer that was killed and replaced, read-only, with all that it has committed. So it can be asked which
    /// commits its replica never received.
    ///
    /// # Errors
    /// It does not start.
    pub async fn restart_former(&mut self, index: usize) -> Result<(), StartError> {
        match self.engine {
            Replicated::SemiSync => semisync::restart_former(&mut self.members, index).await,
            Replicated::Group | Replicated::Galera => self.members.servers[index].restart().await,
        }
    }

    /// Lets a running member replicate again. What the old primary of a pair had committed and
    /// never sent is lost.
    ///
    /// # Errors
    /// It does not replicate.
    pub async fn rejoin(&mut self, index: usize) -> Result<(), StartError> {
        match self.engine {
            Replicated::SemiSync => semisync::replicate(&self.members, self.writer, index).await,
            Replicated::Group => group::join(&self.members, index).await,
            Replicated::Galera => {
                galera::until_synced(&self.members, index).await?;
                let mut node = self.operator(index).await?;
                operator::run(&mut node, "let it write", "SET GLOBAL read_only = 0").await
            }
        }
    }

    /// Stops all members, the writer last, and returns when they have ended.
    pub async fn stop(&self) {
        let servers = &self.members.servers;
        let others = (0..servers.len()).filter(|index| *index != self.writer);
        join_all(others.map(|index| servers[index].stop())).await;
        servers[self.writer].stop().await;
    }

    /// Waits until commits are not replicated any more, because one member of a pair or two of three
    /// have ended, and tells how the last of them ended.
    pub async fn ended(&self) -> StartError {
        let ends = self.members.servers.iter().map(|server| Box::pin(server.ended()));
        let (error, _, others) = select_all(ends).await;
        match self.engine {
            Replicated::SemiSync => error,
            // Two of three go on.
            Replicated::Group | Replicated::Galera => select_all(others).await.0,
        }
    }

    /// What the servers say about their version.
    #[must_use]
    pub fn version(&self) -> &str {
        self.members.servers[0].version()
    }

    fn remember(&self) -> Result<(), StartError> {
        let Some(directory) = &self.members.shared.directory else { return Ok(()) };
        let path = directory.join(WRITER);
        fs::write(&path, format!("{}\n", self.writer + 1)).map_err(StartError::io("write", &path))
    }
}

impl Replicated {
    /// Finds the server's program.
    ///
    /// # Errors
    /// It is not on this machine, or something that it needs is not; the sentence says what to do.
    pub fn program(self) -> Result<PathBuf, StartError> {
        match self {
            Self::SemiSync => flavour::find_only(Flavour::Mariadb),
            Self::Group => flavour::find_only(Flavour::Mysql),
            Self::Galera => {
                galera::programs()?;
                flavour::find_only(Flavour::Mariadb)
            }
        }
    }

    /// The number of servers.
    fn count(self) -> usize {
        if self == Self::SemiSync { semisync::COUNT } else { 3 }
    }

    /// The number of ports on which the members speak to each other.
    fn ports(self) -> usize {
        match self {
            Self::SemiSync => 0,
            Self::Group => group::PORTS,
            Self::Galera => galera::PORTS,
        }
    }
}

impl Members {
    pub(super) async fn operator(&self, index: usize) -> Result<MySqlConnection, StartError> {
        operator::connect(self.servers[index].port(), &self.shared.password).await
    }
}

impl Shared {
    /// Takes the ports of an earlier start on this folder, or chooses new ones.
    fn open(directory: Option<&Path>, engine: Replicated) -> Result<Self, StartError> {
        let (program, ports) = (engine.program()?, engine.ports());
        let password = format!("{:032x}", rand::random::<u128>());
        let remembered = directory.and_then(|directory| read_ports(directory, ports));
        let ports = match remembered {
            Some(remembered) => remembered,
            None => {
                let free = ports::several_free(ports);
                let free =
                    free.map_err(StartError::io("find free ports for", Path::new("mysql")))?;
                write_ports(directory, &free)?;
                free
            }
        };
        Ok(Self { program, directory: directory.map(Path::to_path_buf), password, ports })
    }

    /// The folder of a member, if it is kept.
    pub(super) fn folder(&self, index: usize) -> Option<PathBuf> {
        self.directory.as_ref().map(|path| path.join(format!("member-{}", index + 1)))
    }

    /// The options of a member, with the operator's account.
    pub(super) fn options(&self, index: usize) -> MysqlOptions {
        let mut options = match self.folder(index) {
            Some(folder) => MysqlOptions::new(folder),
            None => MysqlOptions::temporary(),
        };
        options.program = Some(self.program.clone());
        options.extra_arguments.push(format!("--server-id={}", index + 1));
        options.extra_statements = operator::account(&self.password);
        options.password = Some(self.password.clone());
        options
    }
}

fn read_ports(directory: &Path, count: usize) -> Option<Vec<u16>> {
    let text = fs::read_to_string(directory.join(PORTS)).ok()?;
    let ports: Vec<u16> = text.lines().map_while(|line| line.parse().ok()).collect();
    (ports.len() == count).then_some(ports)
}

fn write_ports(directory: Option<&Path>, ports: &[u16]) -> Result<(), StartError> {
    let Some(directory) = directory else { return Ok(()) };
    fs::create_dir_all(directory).map_err(StartError::io("make", directory))?;
    let text: String = ports.iter().map(|port| format!("{port}\n")).collect();
    let path = directory.join(PORTS);
    fs::write(&path, text).map_err(StartError::io("write", &path))
}

//! Database servers that replicate to each other, in one of the ways that the ledger supports.
//!
//! What the ways share is here: the members, their folder, the URL with all hosts, and which of them
//! is the writer. What differs is one file each: [`semisync`], [`group`] and [`galera`].

use std::fs;
use std::path::{Path, PathBuf};

use futures::future::{join_all, select_all};
use sqlx::mysql::MySqlConnection;

use super::flavour::{self, Flavour};
use super::members::{Members, Shared};
use super::{DATABASE, MysqlServer, galera, group, operator, semisync};
use crate::error::StartError;
use crate::ports;

/// The file with the number of the writer, from 1, beside the members' folders.
const WRITER: &str = "primary";
/// A way to replicate the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
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
    engine: Replication,
    members: Members,
    writer: usize,
}

impl MysqlSet {
    /// Starts a set, with the data of its members in folders below `directory`, and returns once
    /// commits are replicated. A second start finds the data and the roles again.
    ///
    /// # Errors
    /// The error of a server that did not start, or did not replicate.
    pub async fn start(engine: Replication, directory: &Path) -> Result<Self, StartError> {
        let remembered = fs::read_to_string(directory.join(WRITER)).unwrap_or_default();
        let remembered = remembered.trim().parse().unwrap_or(1_usize);
        let writer = remembered.saturating_sub(1).min(engine.count() - 1);
        Self::start_in(engine, Some(directory), writer).await
    }

    /// Starts a set in throw-away directories, for tests.
    pub async fn start_temporary(engine: Replication) -> Result<Self, StartError> {
        ports::start_again(|| Self::start_in(engine, None, 0)).await
    }

    async fn start_in(
        engine: Replication,
        directory: Option<&Path>,
        writer: usize,
    ) -> Result<Self, StartError> {
        let shared = Shared::open(directory, engine.program()?, engine.ports())?;
        let (members, writer) = match engine {
            Replication::SemiSync => (semisync::start(shared, writer).await?, writer),
            Replication::Group => group::start(shared).await?,
            Replication::Galera => (galera::start(shared, writer).await?, 0),
        };
        let set = Self { engine, members, writer };
        set.remember()?;
        Ok(set)
    }

    /// The URL of the database [`DATABASE`] with all hosts.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The URL of another database with all hosts, whose name begins with [`DATABASE`].
    pub fn url_of(&self, database: &str) -> String {
        let servers = &self.members.servers;
        let hosts = servers.iter().map(|server| format!("127.0.0.1:{}", server.port()));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let first = format!("127.0.0.1:{}/", servers[0].port());
        servers[0].tcp_url_of(database).replace(&first, &format!("{hosts}/"))
    }

    /// The way in which this set replicates.
    pub fn engine(&self) -> Replication {
        self.engine
    }

    /// The index of the writer in the URL, from 0.
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
        let members = &self.members;
        let writer = self.writer;
        let of_group = async |index| group::takes_writes(members, index).await;
        let of_galera = async |index| galera::takes_writes(members, index).await;
        self.writer = match self.engine {
            Replication::SemiSync => semisync::promote(members, writer).await?,
            Replication::Group => members.until_another(writer, of_group).await?,
            Replication::Galera => members.until_another(writer, of_galera).await?,
        };
        self.remember()
    }

    /// Lets another member become the writer while the old one runs, as before a maintenance.
    ///
    /// # Errors
    /// The writer does not give up its part, or no other member takes it.
    pub async fn switch_over(&mut self) -> Result<(), StartError> {
        match self.engine {
            Replication::SemiSync | Replication::Galera => {
                let mut writer = self.operator(self.writer).await?;
                operator::run(&mut writer, "demote", "SET GLOBAL read_only = 1").await?;
            }
            Replication::Group => group::hand_over(&self.members, self.writer).await?,
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
            Replication::SemiSync => semisync::restart_former(&mut self.members, index).await,
            Replication::Group | Replication::Galera => self.members.servers[index].restart().await,
        }
    }

    /// Lets a running member replicate again. What the old primary of a pair had committed and
    /// never sent is lost.
    ///
    /// # Errors
    /// It does not replicate.
    pub async fn rejoin(&mut self, index: usize) -> Result<(), StartError> {
        match self.engine {
            Replication::SemiSync => semisync::replicate(&self.members, self.writer, index).await,
            Replication::Group => group::join(&self.members, index).await,
            Replication::Galera => {
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
            Replication::SemiSync => error,
            // Two of three go on.
            Replication::Group | Replication::Galera => select_all(others).await.0,
        }
    }

    /// What the servers say about their version.
    pub fn version(&self) -> &str {
        self.members.servers[0].version()
    }

    fn remember(&self) -> Result<(), StartError> {
        let Some(directory) = &self.members.shared.directory else { return Ok(()) };
        let path = directory.join(WRITER);
        fs::write(&path, format!("{}\n", self.writer + 1)).map_err(StartError::io("write", &path))
    }
}

impl Replication {
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

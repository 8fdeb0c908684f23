//! The servers of a set, and what they share.

use std::path::{Path, PathBuf};

use sqlx::mysql::MySqlConnection;

use super::{MysqlOptions, MysqlServer, operator};
use crate::error::StartError;
use crate::home::new_password;
use crate::ports;

/// The file with the ports on which the members speak to each other.
const PORTS: &str = "ports";

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
    /// The folder of the set; `None` for throw-away servers.
    pub(super) directory: Option<PathBuf>,
    /// Of the operator's account, and of the shop's.
    pub(super) password: String,
    /// The ports on which the members speak to each other.
    pub(super) ports: Vec<u16>,
}

impl Members {
    pub(super) async fn operator(&self, index: usize) -> Result<MySqlConnection, StartError> {
        operator::connect(self.servers[index].port(), &self.shared.password).await
    }

    /// Waits until the first member in the URL that is not `but` takes writes, and returns its index.
    /// Where `takes_writes` fails, its error says the member's state.
    pub(super) async fn until_another(
        &self,
        but: usize,
        takes_writes: impl AsyncFn(usize) -> Result<(), String>,
    ) -> Result<usize, StartError> {
        operator::until("wait for another member that takes writes", async || {
            let mut states = Vec::new();
            for index in (0..self.servers.len()).filter(|index| *index != but) {
                match takes_writes(index).await {
                    Ok(()) => return Ok(index),
                    Err(state) => states.push(state),
                }
            }
            Err(states.join("; "))
        })
        .await
    }
}

impl Shared {
    /// Takes the ports of an earlier start on this folder, or chooses new ones.
    pub(super) fn open(
        directory: Option<&Path>,
        program: PathBuf,
        ports: usize,
    ) -> Result<Self, StartError> {
        let file = directory.map(|directory| directory.join(PORTS));
        let (_, ports) = ports::remembered("mysql", file, Vec::new(), ports)?;
        let password = new_password();
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
        options.password = Some(self.password.clone());
        options.with_operator(&self.password)
    }
}

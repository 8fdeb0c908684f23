//! The servers of a set, and what they share.

use std::fs;
use std::path::{Path, PathBuf};

use sqlx::mysql::MySqlConnection;

use super::{MysqlOptions, MysqlServer, operator};
use crate::error::StartError;
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
    /// `None` for throw-away servers.
    directory: Option<PathBuf>,
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
        let password = format!("{:032x}", rand::random::<u128>());
        let remembered = directory.and_then(|directory| read_ports(directory, ports));
        let ports = match remembered {
            Some(remembered) => remembered,
            None => {
                let free = ports::several_free("mysql", ports)?;
                write_ports(directory, &free)?;
                free
            }
        };
        Ok(Self { program, directory: directory.map(Path::to_path_buf), password, ports })
    }

    /// The folder of the set, if it is kept.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
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

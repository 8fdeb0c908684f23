//! Vitess' programs: where they are, as whom they run, and what each tablet and its MySQL server need.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use tokio::net::TcpStream;

use super::flavour::{self, Flavour};
use super::{MysqlOptions, operator};
use crate::error::StartError;
use crate::home::{Home, write_private};
use crate::ports;
use crate::program;
use crate::server::{NotReady, ReadyServer, Recipe, Server};
use crate::temporary::TemporaryDirectory;

/// The name for people.
pub(super) const SERVER: &str = "Vitess";
/// The socket of a MySQL server in the folder of its tablet.
pub(super) const SOCKET: &str = "mysql.sock";
/// The address on which all of them listen.
const LOOPBACK: &str = "127.0.0.1";
/// The folder that `scripts/vitess-program` fills, with the version that is pinned there.
const FOLDER: &str = "vitess-v0.24.4";
/// Runs a program as a user that it accepts; see its first lines.
const SCRIPT: &str = include_str!("vitess.sh");
/// The user and the group that [`SCRIPT`] takes when we are root.
const NOBODY: u32 = 65_534;
/// What shops give to the MySQL server of a tablet, and to a tablet.
const OF_MYSQL: &str = include_str!("../../../../deploy/vitess/mysqld.cnf");
const OF_TABLET: &str = include_str!("../../../../deploy/vitess/vttablet.flags");
/// The file with the account of the tablets on the MySQL server.
const TABLETS: &str = "tablets.json";

/// How to run one of Vitess' programs in a cluster.
#[derive(Debug)]
pub struct VitessProgram {
    pub(super) program: PathBuf,
    /// A folder of its own user.
    pub(super) root: PathBuf,
    /// The flag with the port that clients connect to.
    pub(super) port_flag: &'static str,
    /// All other flags.
    pub(super) flags: Vec<String>,
}

impl VitessProgram {
    /// Starts a program in its folder, and returns when it listens.
    pub(super) async fn start(
        name: &'static str,
        port_flag: &'static str,
        root: &Path,
        own_flags: Vec<String>,
    ) -> Result<Server<Self>, StartError> {
        let program = find(name)?;
        let version = program::version(SERVER, &program)?;
        let (home, temporary) = Home::open_or_make(name, None).await?;
        let mut flags = vec![
            format!("--bind-address={LOOPBACK}"),
            "--log-format=text".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        flags.extend(own_flags);
        let root = root.to_path_buf();
        let recipe = Self { program, root, port_flag, flags };
        Server::boot(ReadyServer { recipe, home, temporary, version }, None).await
    }
}

impl Recipe for VitessProgram {
    fn command(&self, home: &Home, port: u16) -> Result<Vec<String>, StartError> {
        let mut flags = self.flags.clone();
        flags.push(format!("--port={}", web_port(home)?));
        flags.push(format!("--{}={port}", self.port_flag));
        Ok(as_its_user(&self.root, &self.program, flags))
    }

    /// Each of them listens when it is ready.
    async fn ask(&self, port: u16) -> Result<(), NotReady> {
        let connected = TcpStream::connect((LOOPBACK, port)).await;
        connected.map(drop).map_err(|error| NotReady::Yet(error.to_string()))
    }
}

/// The port on which a program shows its state to people. It is chosen at each try of a start, since another process may
/// have taken it before.
pub(super) fn web_port(home: &Home) -> Result<u16, StartError> {
    ports::choose(&home.path("web-port"))
}

/// Finds a program in the folder of `SECKILL_VITESS`, else in the one that `scripts/vitess-program` fills.
pub(super) fn find(name: &str) -> Result<PathBuf, StartError> {
    let folder = program::named("SECKILL_VITESS").or_else(|| program::unpacked(FOLDER));
    let program = folder.map(|folder| folder.join(name));
    program.filter(|program| program.is_file()).ok_or_else(|| {
        let answer = "its programs were not found; run `scripts/vitess-program`, which needs a Go toolchain, or set SECKILL_VITESS";
        StartError::refused(SERVER, "start it", answer)
    })
}

/// The command that runs a program in its folder as a user that it accepts.
pub(super) fn as_its_user(root: &Path, program: &Path, flags: Vec<String>) -> Vec<String> {
    let mut command = ["/bin/sh", "-c", SCRIPT, "sh"].map(str::to_owned).to_vec();
    command.extend([root.display().to_string(), program.display().to_string()]);
    command.extend(flags);
    command
}

/// The flags of a tablet whose server's socket and account are in its folder.
pub(super) fn tablet_flags(root: &Path) -> Vec<String> {
    let file = |name: &str| root.join(name).display().to_string();
    let mut flags = vec![
        // A program for tests would set up a replication among its tablets if they came by TCP.
        format!("--db-socket={}", file(SOCKET)),
        format!("--db-credentials-file={}", file(TABLETS)),
    ];
    let accounts = ["app", "appdebug", "allprivs", "dba", "filtered", "repl"];
    flags.extend(accounts.map(|of| format!("--db-{of}-user={}", operator::OPERATOR)));
    flags.extend(OF_TABLET.lines().filter(|line| line.starts_with("--")).map(str::to_owned));
    flags
}

/// Makes a folder of the programs' user, with the account of the tablets in it, which goes when its server has ended.
pub(super) fn make_root(lock: &Path, password: &str) -> Result<TemporaryDirectory, StartError> {
    let root = TemporaryDirectory::make(lock)?;
    let accounts = root.path().join(TABLETS);
    write_private(&accounts, &format!(r#"{{"{}":["{password}"]}}"#, operator::OPERATOR))?;
    give_to_nobody(&accounts)?;
    give_to_nobody(root.path())?;
    Ok(root)
}

/// The options of a tablet's MySQL server, with an account that may do everything and a socket in the tablet's folder.
pub(super) fn mysql_options(
    data_dir: Option<&Path>,
    password: &str,
    root: &Path,
    server_id: u32,
) -> Result<MysqlOptions, StartError> {
    let mut options = match data_dir {
        Some(folder) => MysqlOptions::new(folder),
        None => MysqlOptions::temporary(),
    };
    options.program = Some(flavour::find_only(Flavour::Mysql)?);
    options.extra_arguments.extend(OF_MYSQL.lines().filter_map(argument));
    if data_dir.is_none() {
        // For tests, which kill servers and never cut the power: what a dead server has written stays.
        options.extra_arguments.push("--innodb-flush-method=nosync".to_owned());
    }
    let socket = root.join(SOCKET);
    options.extra_arguments.push(format!("--socket={}", socket.display()));
    options.extra_arguments.push(format!("--server-id={server_id}"));
    Ok(options.with_operator(password))
}

/// A line of an option file as an argument; `None` if it sets nothing.
fn argument(line: &str) -> Option<String> {
    let (name, value) = line.split_once(" = ").filter(|_| !line.starts_with('#'))?;
    Some(format!("--{}={value}", name.replace('_', "-")))
}

/// Gives a file or a folder to the user that the programs get when we are root.
pub(super) fn give_to_nobody(path: &Path) -> Result<(), StartError> {
    if !program::is_root() {
        return Ok(());
    }
    chown(path, Some(NOBODY), Some(NOBODY)).map_err(StartError::io("give away", path))
}

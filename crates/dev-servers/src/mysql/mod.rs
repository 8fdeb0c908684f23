//! A private MariaDB or MySQL server.

mod access;
mod flavour;
mod galera;
mod group;
mod members;
mod operator;
mod semisync;
pub(crate) mod set;
pub(crate) mod vitess;
pub(crate) mod vitess_cluster;
mod vitess_programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;

use self::access::not_ready;
pub use self::flavour::DATABASE;
use self::flavour::Flavour;
pub use self::operator::OPERATOR;
use super::error::StartError;
use super::guardian::Guardian;
use super::home::{Home, ignore_missing};
use super::program;
use super::server::{NotReady, ReadyServer, Recipe, Server};

/// Written before the data directory is made, removed when it is complete.
const INITIALISING: &str = "initialising";
/// Written when the data directory is complete; says by which kind of server.
const READY: &str = "ready";

/// How long the making of an empty database may take.
const MAKE_MAX: Duration = Duration::from_secs(300);

/// For data that stay and grow: room for a million orders in memory, and a redo log large enough that a sale
/// does not force page flushes. Between sales the pages are written at the speed of a solid-state disk:
/// MariaDB's default of 200 a second is for a rotating one. A server ignores the name of the log's size that
/// it does not know.
const FOR_LONG: [&str; 4] = [
    "--innodb-buffer-pool-size=1G",
    "--loose-innodb-log-file-size=512M",
    "--loose-innodb-redo-log-capacity=512M",
    "--innodb-io-capacity=2000",
];

/// What to start, and where.
#[derive(Clone, Debug, Default)]
pub struct MysqlOptions {
    /// The directory for data, log, socket and password, made when it is missing; `None` makes a
    /// new one that is removed when the server is dropped or this process ends.
    pub data_dir: Option<PathBuf>,
    /// The server's binary, or a wrapper that ends in `exec`ing it; `None` searches for `mariadbd`,
    /// then `mysqld`. Whether it is MariaDB or MySQL is read from its `--version`.
    pub program: Option<PathBuf>,
    /// Further statements that every start runs with all privileges, for tests that need them.
    pub extra_statements: Vec<String>,
    /// Further arguments for the server, such as those of replication or TLS.
    pub extra_arguments: Vec<String>,
    /// The password of the account; `None` keeps the one in the directory, or makes one.
    pub(crate) password: Option<String>,
    /// Lines of an option file, which its set may replace before a restart.
    pub(crate) option_lines: Option<String>,
    /// Statements before those that make the accounts.
    pub(crate) first_statements: Vec<String>,
    /// A program with its arguments, which runs the server's command that follows them.
    pub(crate) launcher: Vec<String>,
    pub(crate) origin: Origin,
}

/// Where the data of a new server come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The server makes an empty database.
    #[default]
    Made,
    /// Another member of its set sends them.
    Received,
}

/// A running private database server.
pub type MysqlServer = Server<Mysql>;

/// How to run MariaDB or MySQL.
#[derive(Debug)]
pub struct Mysql {
    program: PathBuf,
    launcher: Vec<String>,
    extra_arguments: Vec<String>,
    flavour: Flavour,
    socket: PathBuf,
    password: String,
}

impl MysqlOptions {
    /// A server whose data stay in `data_dir`; its binary is `SECKILL_MYSQLD` if that is set.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(data_dir.into()), ..Self::temporary() }.for_long()
    }

    /// On MySQL, and on no MariaDB: `SECKILL_MYSQLD` if it is one, else one on this machine, or the one that
    /// `scripts/mysql-sid` has fetched.
    ///
    /// # Errors
    /// There is none.
    pub fn on_mysql(self) -> Result<Self, StartError> {
        Ok(Self { program: Some(flavour::find_only(Flavour::Mysql)?), ..self })
    }

    /// With the memory for data that stay and grow.
    #[must_use]
    pub fn for_long(mut self) -> Self {
        self.extra_arguments.extend(FOR_LONG.map(str::to_owned));
        self
    }

    /// With the account [`OPERATOR`] of this password, which may do everything.
    #[must_use]
    pub fn with_operator(mut self, password: &str) -> Self {
        self.extra_statements.extend(operator::account(OPERATOR, password, |account| {
            format!("GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION")
        }));
        self
    }

    /// A server in a new directory that is removed afterwards, for tests; its binary is
    /// `SECKILL_MYSQLD` if that is set.
    pub fn temporary() -> Self {
        Self { program: program::named("SECKILL_MYSQLD"), ..Self::default() }
    }
}

impl MysqlServer {
    /// Starts a server and returns when it answers. The first start on a directory makes the
    /// database, which takes seconds; later ones find it again.
    ///
    /// # Errors
    /// A sentence that says what to do: no binary, directory in use or not complete, or the end of
    /// the server's log.
    pub async fn start(options: MysqlOptions) -> Result<Self, StartError> {
        let (program, flavour, version) = flavour::find(options.program.as_deref())?;
        let server = flavour.name();
        let (home, mut temporary) = Home::open_or_make(server, options.data_dir).await?;
        let temporary_tables = home.path(flavour::TEMPORARY);
        fs::create_dir_all(&temporary_tables).map_err(StartError::io("make", &temporary_tables))?;
        initialise(&home, flavour, &program, options.origin).await?;

        let password = match options.password {
            Some(password) => password,
            None => home.password()?,
        };
        if let Some(lines) = options.option_lines {
            home.write(flavour::OPTION_FILE, &lines)?;
        }
        let mut statements = options.first_statements;
        // A replica has the accounts of its own start; the writer's would meet them.
        statements.push("SET SESSION sql_log_bin = 0".to_owned());
        statements.extend(flavour.accounts(&password));
        statements.extend(options.extra_statements);
        home.write("init.sql", &(statements.join(";\n") + ";\n"))?;
        let (socket, short) = home.socket("mysql.sock")?;
        temporary.extend(short);
        let MysqlOptions { launcher, extra_arguments, .. } = options;
        let recipe = Mysql { program, launcher, extra_arguments, flavour, socket, password };
        let server = Self::boot(ReadyServer { recipe, home, temporary, version }, None).await?;
        mark_ready(&server.home, flavour)?;
        Ok(server)
    }

    /// The URL of the database [`DATABASE`] on the shortest way: MariaDB's unix socket, or TCP for
    /// MySQL, because sqlx cannot do MySQL's default authentication on a socket: it asks for a
    /// public key where the server takes the connection for secure and expects the password.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// As [`Self::url`], of another database. The account may create and drop databases whose
    /// names begin with [`DATABASE`].
    pub fn url_of(&self, database: &str) -> String {
        self.recipe.url(self.port(), database)
    }

    /// The URL of a database on the unix socket, for MySQL with TLS: see [`Self::url`].
    pub fn socket_url_of(&self, database: &str) -> String {
        self.recipe.socket_url(database)
    }

    /// The URL of the database [`DATABASE`] over TCP on 127.0.0.1.
    pub fn tcp_url(&self) -> String {
        self.tcp_url_of(DATABASE)
    }

    /// The URL of another database over TCP on 127.0.0.1.
    pub fn tcp_url_of(&self, database: &str) -> String {
        self.recipe.tcp_url(self.port(), database)
    }
}

impl Recipe for Mysql {
    /// A large redo log takes its time to recover.
    const START_MAX: Duration = Duration::from_secs(120);

    fn command(&self, home: &Home, port: u16) -> Result<Vec<String>, StartError> {
        let Self { program, extra_arguments, socket, .. } = self;
        let mut command = self.launcher.clone();
        command.extend(self.flavour.serve(program, home, socket, port, extra_arguments));
        Ok(command)
    }

    async fn ask(&self, port: u16) -> Result<(), NotReady> {
        self.login(port).await.map_err(|error| not_ready(&error))
    }
}

/// Makes the data directory unless it is complete. One whose making was interrupted never held
/// anything, so it is made again; one of unknown origin is left alone.
async fn initialise(
    home: &Home,
    flavour: Flavour,
    program: &Path,
    origin: Origin,
) -> Result<(), StartError> {
    let data = home.path("data");
    if let Some(made_by) = home.read(READY)? {
        if made_by != flavour.name() {
            return Err(StartError(format!(
                "{} was made by {made_by}, but {} is {}; choose another directory with \
                 SECKILL_DATA_DIR, or delete this one to begin with an empty database",
                home.directory.display(),
                program.display(),
                flavour.name(),
            )));
        }
        if !data.join("mysql").is_dir() {
            return Err(home.half_written("its system tables are missing"));
        }
        return Ok(());
    }
    if home.has(INITIALISING) {
        tracing::info!(
            "the database in {} was never completed; making it again",
            home.directory.display()
        );
        fs::remove_dir_all(&data)
            .or_else(ignore_missing)
            .map_err(StartError::io("remove", &data))?;
    } else if data.exists() {
        return Err(home.half_written("data without the marker of a finished start"));
    }
    tracing::info!("making a new {} database in {}", flavour.name(), home.directory.display());
    home.write(INITIALISING, flavour.name())?;
    fs::create_dir(&data).map_err(StartError::io("make", &data))?;
    if origin == Origin::Received {
        return Ok(());
    }
    let command = flavour.initialise(program, home)?;
    let maker = Guardian::spawn(&command, &home.directory, &home.log)
        .map_err(StartError::io("run", program))?;
    match timeout(MAKE_MAX, maker.exited()).await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(home.ended(&format!("while making the database, {status}"))),
        Err(_) => {
            maker.kill().await;
            Err(home.silent(MAKE_MAX, "the database is being made"))
        }
    }
}

/// From now on the directory is complete, and a start that finds it so keeps it.
fn mark_ready(home: &Home, flavour: Flavour) -> Result<(), StartError> {
    if home.has(READY) {
        return Ok(());
    }
    home.write(READY, flavour.name())?;
    let marker = home.path(INITIALISING);
    fs::remove_file(&marker).map_err(StartError::io("remove", &marker))
}

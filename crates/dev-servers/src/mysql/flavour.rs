//! What differs between MariaDB and MySQL: how a database is made, and how a server is run.

use std::fs;
use std::path::{Path, PathBuf};

use super::operator;
use crate::error::StartError;
use crate::home::Home;
use crate::program;

/// The database that every private server has, empty at first.
pub const DATABASE: &str = "seckill";

/// The only account that may log in. It owns every database whose name begins with [`DATABASE`],
/// and may look at all processes.
pub(super) const USER: &str = "seckill";

/// MariaDB's scripts that make an empty server, in their order; all but the help texts. `*` is
/// `mariadb` since version 11 and was `mysql` before.
const SYSTEM_TABLES: [&str; 5] = [
    "*_system_tables.sql",
    "*_performance_tables.sql",
    "*_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "*_sys_schema.sql",
];

/// The file in the server's directory that is made of them.
const BOOTSTRAP: &str = "bootstrap.sql";

/// The file of options that may change from start to start, if the server has any.
pub(super) const OPTION_FILE: &str = "server.cnf";

/// The folder for temporary tables. Not the system's: a starting MariaDB deletes every temporary
/// table that it finds there, also those of other servers.
pub(super) const TEMPORARY: &str = "tmp";

/// Where `scripts/mysql-sid` puts MySQL, in the folder of the project.
const FETCHED: &str = ".data/mysql-sid/mysqld";

/// What is looked for when either will do.
const EITHER: &str = "MariaDB or MySQL server";

/// The two families of servers that speak this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    /// MariaDB 10.6 or later.
    Mariadb,
    /// MySQL 8.0 or later.
    Mysql,
}

/// Finds the server's binary and reads from its version what it is.
///
/// # Errors
/// There is none, or it is neither MariaDB nor MySQL.
pub(super) fn find(asked: Option<&Path>) -> Result<(PathBuf, Flavour, String), StartError> {
    let found = match asked {
        Some(path) => {
            Some(path.canonicalize().map_err(StartError::io("find the database server", path))?)
        }
        None => program::find("mariadbd").or_else(|| program::find("mysqld")),
    };
    let missing = || StartError::missing(EITHER, "mariadb-server-core", "SECKILL_MYSQLD");
    let program = found.ok_or_else(missing)?;
    let version = program::version(EITHER, &program)?;
    let flavour = if version.contains("MariaDB") {
        Flavour::Mariadb
    } else if version.contains("mysqld") || version.contains("MySQL") {
        Flavour::Mysql
    } else {
        let reason = format!("it calls itself {version:?}");
        return Err(StartError::unusable(EITHER, &program, reason));
    };
    Ok((program, flavour, version))
}

/// Finds a server of one flavour, for a recipe that is for no other: `SECKILL_MYSQLD` if it is one,
/// else one on this machine, or the one that `scripts/mysql-sid` has fetched.
///
/// # Errors
/// There is none.
pub(super) fn find_only(wanted: Flavour) -> Result<PathBuf, StartError> {
    let (name, remedy) = match wanted {
        Flavour::Mariadb => ("mariadbd", "run `scripts/install-packages run`"),
        Flavour::Mysql => ("mysqld", "run `scripts/mysql-sid`"),
    };
    let places = [program::named("SECKILL_MYSQLD"), program::find(name), Some(FETCHED.into())];
    let mut programs = places.into_iter().flatten().filter(|program| program.exists());
    let found = programs.find_map(|program| {
        let (program, flavour, _) = find(Some(&program)).ok()?;
        (flavour == wanted).then_some(program)
    });
    found.ok_or_else(|| {
        let answer = format!("no such program was found; {remedy}, or set SECKILL_MYSQLD");
        StartError::refused(wanted.name(), "start these servers", answer)
    })
}

impl Flavour {
    /// The name for people, and in the marker of a complete directory.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "MariaDB",
            Self::Mysql => "MySQL",
        }
    }

    /// The command that makes the system tables in the empty directory `data` of `home`.
    ///
    /// # Errors
    /// MariaDB's scripts for that are missing.
    pub(super) fn initialise(self, program: &Path, home: &Home) -> Result<Vec<String>, StartError> {
        let data = argument("--datadir", &home.path("data"));
        let mut command = match self {
            Self::Mariadb => {
                home.write(BOOTSTRAP, &system_tables(program)?)?;
                let mut command = vec![
                    "/bin/sh".into(),
                    "-c".into(),
                    format!("exec \"$@\" <{BOOTSTRAP}"),
                    "sh".into(),
                ];
                command.extend([text(program), "--no-defaults".into()]);
                command.extend(["--bootstrap".into(), "--silent-startup".into(), data]);
                command
            }
            Self::Mysql => {
                vec![text(program), "--no-defaults".into(), "--initialize-insecure".into(), data]
            }
        };
        command.push(argument("--tmpdir", &home.path(TEMPORARY)));
        command.extend(as_root());
        Ok(command)
    }

    /// The command that serves the data of `home` on a socket and a loopback port, with `further`
    /// arguments.
    pub(super) fn serve(
        self,
        program: &Path,
        home: &Home,
        socket: &Path,
        port: u16,
        further: &[String],
    ) -> Vec<String> {
        let mut command = vec![
            text(program),
            // Must come first. The machine's own configuration belongs to another server.
            if home.has(OPTION_FILE) {
                argument("--defaults-file", &home.path(OPTION_FILE))
            } else {
                "--no-defaults".into()
            },
            argument("--datadir", &home.path("data")),
            argument("--socket", socket),
            argument("--tmpdir", &home.path(TEMPORARY)),
            argument("--pid-file", &home.path("server.pid")),
            argument("--init-file", &home.path("init.sql")),
            format!("--port={port}"),
            "--bind-address=127.0.0.1".into(),
            "--skip-name-resolve".into(),
            // What was answered is on the disk.
            "--innodb-flush-log-at-trx-commit=1".into(),
            "--innodb-buffer-pool-size=256M".into(),
            "--max-connections=1000".into(),
            "--performance-schema=OFF".into(),
            "--local-infile=0".into(),
            "--character-set-server=utf8mb4".into(),
        ];
        if !further.iter().any(|argument| argument.starts_with("--log-bin")) {
            // One server, no replica: a second log would only halve the commits.
            command.push("--skip-log-bin".into());
        }
        if self == Self::Mysql {
            // Both default to places outside our directory.
            command.push("--secure-file-priv=NULL".into());
            command.push("--loose-mysqlx=OFF".into());
        }
        command.extend(as_root());
        command.extend_from_slice(further);
        command
    }

    /// The statements that every start runs before it listens: one account with this password,
    /// for its own databases only, and nobody else.
    pub(super) fn accounts(self, password: &str) -> Vec<String> {
        // The right to ask how far a replica is behind.
        let replica = match self {
            Self::Mysql => "REPLICATION CLIENT",
            Self::Mariadb => "REPLICA MONITOR",
        };
        // The right to read the text of a procedure that the account has made from the other host.
        let routines = match self {
            Self::Mysql => "SHOW_ROUTINE ON *.*",
            Self::Mariadb => "SELECT ON mysql.proc",
        };
        let mut sql =
            vec![format!("CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")];
        sql.extend(operator::account(USER, password, |account| {
            format!(
                "GRANT ALL PRIVILEGES ON `{DATABASE}%`.* TO {account};\n\
                 GRANT PROCESS, {replica} ON *.* TO {account};\n\
                 GRANT {routines} TO {account}"
            )
        }));
        if self == Self::Mysql {
            // It was made without a password.
            sql.push("ALTER USER 'root'@'localhost' ACCOUNT LOCK".to_owned());
        }
        sql
    }
}

/// What `mariadb-install-db` would feed to the server: the system tables and a root account that
/// only the system's root reaches, over the socket. That script itself is not used: it needs a
/// program of another package, and as root it changes the owner of the machine's own plugins.
fn system_tables(program: &Path) -> Result<String, StartError> {
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    let (folder, era) = ["share/mariadb", "share/mysql", "share"]
        .iter()
        .flat_map(|folder| ["mariadb", "mysql"].map(|era| (prefix.join(folder), era)))
        .find(|(folder, era)| folder.join(SYSTEM_TABLES[0].replace('*', era)).is_file())
        .ok_or_else(|| {
            let place = prefix.display();
            let reason = format!("the scripts of its system tables are not in {place}/share");
            StartError::unusable("MariaDB server", program, reason)
        })?;
    let mut sql =
        String::from("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket='root';\n");
    for name in SYSTEM_TABLES {
        let path = folder.join(name.replace('*', era));
        sql.push_str(&fs::read_to_string(&path).map_err(StartError::io("read", &path))?);
        sql.push('\n');
    }
    Ok(sql)
}

/// Both servers refuse to run as root unless told that it is meant; containers often are root.
fn as_root() -> Option<String> {
    program::is_root().then(|| "--user=root".to_owned())
}

fn argument(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

//! Vitess over one MySQL server: `vtcombo`, Vitess' own program for tests, which is vtgate, its tablets and their
//! topology in one process. Clients connect to its vtgate as to a database server. It knows no passwords, so its port on the
//! loopback is open to everybody on this machine; the server behind has them.
//!
//! Its keyspace [`DATABASE`] is the database of this name on the MySQL server behind, so tests can look at it there.
//! CREATE DATABASE makes further keyspaces, each with one shard; a restart forgets those. On demand there is a keyspace
//! [`ITEMS`], too, whose two shards are databases of the one server: the tables of items lie there.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{ConnectOptions, Connection, Executor};

use super::access::not_ready;
use super::flavour::{self, DATABASE, Flavour, USER};
use super::vitess_programs::{
    SERVER, as_its_user, find, give_to_nobody, make_root, mysql_options, tablet_flags, web_port,
};
use super::{MysqlServer, operator};
use crate::error::StartError;
use crate::home::{Home, LOG, make_private, new_password, write_private};
use crate::program;
use crate::server::{NotReady, ReadyServer, Recipe, Server};

/// A running vtcombo with the MySQL server behind it.
#[derive(Debug)]
pub struct VitessServer {
    gate: Server<Vtcombo>,
    mysql: MysqlServer,
    /// Of the operator's account on the MySQL server.
    password: String,
}

impl VitessServer {
    /// Starts both, with their data in folders below `directory`, and returns when vtgate answers.
    ///
    /// # Errors
    /// A program is missing, or one did not start.
    pub async fn start(directory: &Path) -> Result<Self, StartError> {
        Self::start_in(Some(directory), false).await
    }

    /// Starts both in throw-away directories, for tests.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_temporary() -> Result<Self, StartError> {
        Self::start_in(None, false).await
    }

    /// Starts both in throw-away directories, with the tables of items in two shards. Before a service uses vtgate, the
    /// database [`DATABASE`] of the server behind is to be migrated.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_sharded() -> Result<Self, StartError> {
        Self::start_in(None, true).await
    }

    /// Checks that the programs are there.
    ///
    /// # Errors
    /// One is not; the sentence says what to do.
    pub fn programs() -> Result<(), StartError> {
        find("vtcombo")?;
        flavour::find_only(Flavour::Mysql).map(drop)
    }

    async fn start_in(directory: Option<&Path>, is_sharded: bool) -> Result<Self, StartError> {
        let program = find("vtcombo")?;
        let version = program::version(SERVER, &program)?;
        let folder = |name: &str| directory.map(|directory| directory.join(name));
        let (home, mut temporary) = Home::open_or_make(SERVER, folder("vtcombo")).await?;
        let password = new_password();
        let root = make_root(&home.path(LOG), &password)?;
        write_files(root.path(), is_sharded)?;
        let options = mysql_options(folder("mysql").as_deref(), &password, root.path(), 1)?;
        let mysql = MysqlServer::start(options).await?;
        if is_sharded {
            make_shards(mysql.port(), &password).await?;
        }
        let topology = topology(is_sharded);
        let recipe = Vtcombo { program, topology, root: root.path().to_path_buf() };
        temporary.push(root);
        let gate = Server::boot(ReadyServer { recipe, home, temporary, version }, None).await?;
        Ok(Self { gate, mysql, password })
    }

    /// The URL of the keyspace [`DATABASE`] at vtgate.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The URL of another keyspace at vtgate.
    pub fn url_of(&self, keyspace: &str) -> String {
        url(self.gate.port(), keyspace)
    }

    /// The URL of a database of the server behind, for the account that may do everything.
    pub fn server_url(&self, database: &str) -> String {
        operator::url(self.mysql.port(), &self.password, database)
    }

    /// The program with vtgate, to kill, freeze and restart.
    pub fn gate(&mut self) -> &mut Server<Vtcombo> {
        &mut self.gate
    }

    /// The MySQL server behind.
    pub fn mysql(&mut self) -> &mut MysqlServer {
        &mut self.mysql
    }

    /// A connection with all privileges to the MySQL server behind.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn operator(&self) -> Result<MySqlConnection, StartError> {
        operator::connect(self.mysql.port(), &self.password).await
    }

    /// Stops both, and returns when they have ended.
    pub async fn stop(&self) {
        self.gate.stop().await;
        self.mysql.stop().await;
    }

    /// Waits until one of them has ended, and tells how.
    pub async fn ended(&self) -> StartError {
        tokio::select! {
            error = self.gate.ended() => error,
            error = self.mysql.ended() => error,
        }
    }

    /// What vtcombo says about its version.
    pub fn version(&self) -> &str {
        self.gate.version()
    }
}

/// What shops give to a keyspace.
const OF_KEYSPACE: &str = include_str!("../../../../deploy/vitess/vschema.json");
/// The keyspace of items' tables, and its shards.
pub const ITEMS: &str = "seckill_items";
const SHARDS: [&str; 2] = ["-80", "80-"];
/// What shops give to Vitess for shards.
pub(super) const OF_MAIN: &str = include_str!("../../../../deploy/vitess/sharded/main.json");
pub(super) const OF_ITEMS: &str = include_str!("../../../../deploy/vitess/sharded/items.json");
pub(super) const ROUTING: &str = include_str!("../../../../deploy/vitess/sharded/routing.json");
pub(super) const MAIN_TABLES: &str = include_str!("../../../../deploy/vitess/sharded/main.sql");
pub(super) const ITEM_TABLES: &str = include_str!("../../../../deploy/vitess/sharded/items.sql");
/// The folder with [`OF_KEYSPACE`] in a folder of the keyspace's name.
const SCHEMAS: &str = "schema";

/// How to run vtcombo.
#[derive(Debug)]
pub struct Vtcombo {
    program: PathBuf,
    /// The keyspaces, in the text format of Vitess' tests.
    topology: String,
    /// A folder of its own user.
    root: PathBuf,
}

impl Vtcombo {
    fn flags(&self, port: u16, web_port: u16) -> Vec<String> {
        let loopback = || "127.0.0.1".to_owned();
        let named = [
            ("proto-topo", self.topology.clone()),
            ("dbddl-plugin", "vttest".to_owned()),
            ("mysql-server-port", port.to_string()),
            ("mysql-server-bind-address", loopback()),
            ("mysql-auth-server-impl", "none".to_owned()),
            ("bind-address", loopback()),
            // Where it shows its state to people.
            ("port", web_port.to_string()),
            ("schema-dir", self.root.join(SCHEMAS).display().to_string()),
            ("mycnf-server-id", "1".to_owned()),
            // One item lives in one shard, so a transaction over two is a mistake.
            ("transaction-mode", "SINGLE".to_owned()),
            // A new keyspace serves only then; without this, after a minute.
            ("tablet-refresh-interval", "1s".to_owned()),
        ];
        let mut flags = named.map(|(name, value)| format!("--{name}={value}")).to_vec();
        flags.extend(tablet_flags(&self.root));
        flags
    }
}

impl Recipe for Vtcombo {
    fn command(&self, home: &Home, port: u16) -> Result<Vec<String>, StartError> {
        Ok(as_its_user(&self.root, &self.program, self.flags(port, web_port(home)?)))
    }

    async fn ask(&self, port: u16) -> Result<(), NotReady> {
        let asked = async {
            let mut options = MySqlConnectOptions::from_str(&url(port, DATABASE))?;
            // vtgate refuses the first of these two.
            options = options.pipes_as_concat(false).no_engine_substitution(false);
            let options = options.ssl_mode(MySqlSslMode::Disabled).disable_statement_logging();
            let mut gate = options.connect().await?;
            // The tablet answers, too.
            gate.execute(sqlx::raw_sql("SHOW TABLES")).await?;
            gate.close().await
        };
        asked.await.map_err(|error: sqlx::Error| not_ready(&error))
    }
}

fn url(port: u16, keyspace: &str) -> String {
    format!("mysql://{USER}@127.0.0.1:{port}/{keyspace}")
}

/// The keyspaces, their shards, and where the names of tables lead.
fn topology(is_sharded: bool) -> String {
    let shard = |name: &str, database: &str| {
        format!(r#"shards:{{name:"{name}" db_name_override:"{database}"}} "#)
    };
    let main = format!(r#"keyspaces:{{name:"{DATABASE}" {}}} cells:"test""#, shard("0", DATABASE));
    if !is_sharded {
        return main;
    }
    let shards: String = SHARDS.map(|name| shard(name, &database_of(name))).concat();
    let of_line = |line: &str| {
        let table = line.split('"').nth(3)?.split_once('.')?.1;
        Some(format!(r#"rules:{{from_table:"{DATABASE}.{table}" to_tables:"{ITEMS}.{table}"}} "#))
    };
    let rules: String = ROUTING.lines().filter_map(of_line).collect();
    // One tablet a shard: there is one server.
    format!(
        r#"{main} keyspaces:{{name:"{ITEMS}" replica_count:1 {shards}}} routing_rules:{{{rules}}}"#
    )
}

fn database_of(shard: &str) -> String {
    format!("{ITEMS}_{shard}")
}

/// Makes the databases of the shards with their tables.
async fn make_shards(port: u16, password: &str) -> Result<(), StartError> {
    let mut connection = operator::connect(port, password).await?;
    let mut statements = format!("USE {DATABASE}; {MAIN_TABLES}");
    for database in SHARDS.map(database_of) {
        statements += &format!("CREATE DATABASE `{database}` CHARACTER SET utf8mb4; ");
        statements += &format!("USE `{database}`; {ITEM_TABLES}");
    }
    operator::run(&mut connection, "make the tables of the shards", &statements).await
}

/// Writes into the program's folder what it reads, for its user and for nobody else.
fn write_files(root: &Path, is_sharded: bool) -> Result<(), StartError> {
    let schemas = root.join(SCHEMAS);
    let main = if is_sharded { OF_MAIN } else { OF_KEYSPACE };
    let keyspaces = [(DATABASE, main), (ITEMS, OF_ITEMS)];
    let mut written = Vec::new();
    for (name, text) in keyspaces.into_iter().take(if is_sharded { 2 } else { 1 }) {
        let keyspace = schemas.join(name);
        make_private(&keyspace)?;
        let vschema = keyspace.join("vschema.json");
        write_private(&vschema, text)?;
        written.extend([vschema, keyspace]);
    }
    written.push(schemas);
    written.iter().try_for_each(|path| give_to_nobody(path))
}

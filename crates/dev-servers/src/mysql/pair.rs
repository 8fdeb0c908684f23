//! Two MariaDB servers with semi-synchronous replication: the primary answers a commit after the
//! replica has it in its relay log.
//!
//! Both start read-only, unless the file of their roles says that they are the primary: a server
//! that comes back after it was replaced never takes writes by itself. Only [`MysqlPair::promote`]
//! changes the roles.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{ConnectOptions, Executor, Row};
use tokio::time::{Instant, sleep};

use super::flavour::{self, Flavour, OPTION_FILE};
use super::{DATABASE, MysqlOptions, MysqlServer};
use crate::error::StartError;

const SERVER: &str = "MariaDB";

/// The account that replicates and changes roles. It may do everything.
const OPERATOR: &str = "operator";
/// How long a commit waits for the replica before the primary goes on without it, in milliseconds.
/// Shorter than a client of the service waits for a COMMIT.
const WAIT_MS: u32 = 4_000;
/// How long a replica may take to connect, or to apply what it has received.
const STATE_MAX: Duration = Duration::from_secs(60);
/// How long the last complete transaction of a relay log may take.
const APPLY_SECONDS: u32 = 5;
/// The pause before a state is asked for again.
const STATE_POLL: Duration = Duration::from_millis(50);
/// The file with the primary's place, beside the members' directories.
const PRIMARY: &str = "primary";

/// A primary and its replica.
#[derive(Debug)]
pub struct MysqlPair {
    members: [MysqlServer; 2],
    primary: usize,
    password: String,
    directory: Option<PathBuf>,
}

/// The part of a member in the pair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Primary,
    Replica,
}

impl Part {
    /// The options that depend on the part. After a crash a replica takes back the commits at the
    /// end of its log that it never sent, and a primary makes them good. Only the primary waits for
    /// acknowledgements: a replica would wait for those of replicas that it does not have, and not
    /// apply what it receives.
    fn options(self) -> &'static str {
        match self {
            Self::Primary => {
                "[mysqld]\nread-only=0\ninit-rpl-role=MASTER\nrpl-semi-sync-master-enabled=1\n"
            }
            Self::Replica => {
                "[mysqld]\nread-only=1\ninit-rpl-role=SLAVE\nrpl-semi-sync-master-enabled=0\n"
            }
        }
    }
}

impl MysqlPair {
    /// Starts both servers, with their data in folders below `directory`, and returns once the
    /// replica acknowledges commits. A second start finds the data and the roles again.
    ///
    /// # Errors
    /// The error of a server that did not start, or did not replicate.
    pub async fn start(directory: &Path) -> Result<Self, StartError> {
        let remembered = fs::read_to_string(directory.join(PRIMARY)).unwrap_or_default();
        let primary = usize::from(remembered.trim() == "2");
        Self::start_in(Some(directory), primary).await
    }

    /// Starts both servers in throw-away directories, for tests.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub async fn start_temporary() -> Result<Self, StartError> {
        Self::start_in(None, 0).await
    }

    async fn start_in(directory: Option<&Path>, primary: usize) -> Result<Self, StartError> {
        let (program, flavour, _) = flavour::find(MysqlOptions::temporary().program.as_deref())?;
        if flavour != Flavour::Mariadb {
            let reason = "the recipe of a semi-synchronous pair is for MariaDB".to_owned();
            return Err(StartError::ProgramUnusable { program, server: SERVER, reason });
        }
        let password = format!("{:032x}", rand::random::<u128>());
        let member = |place: usize| {
            let folder = directory.map(|path| path.join(format!("member-{}", place + 1)));
            let part = if place == primary { Part::Primary } else { Part::Replica };
            MysqlServer::start(options(place, folder, part, &password))
        };
        let (first, second) = tokio::try_join!(member(0), member(1))?;
        let directory = directory.map(Path::to_path_buf);
        let pair = Self { members: [first, second], primary, password, directory };
        pair.remember()?;
        pair.replicate(1 - primary).await?;
        Ok(pair)
    }

    /// The URL of the database [`DATABASE`] with both hosts.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The URL of another database with both hosts, whose name begins with [`DATABASE`].
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        let [first, second] = &self.members;
        let hosts = format!("127.0.0.1:{},127.0.0.1:{}/", first.port(), second.port());
        first.tcp_url_of(database).replace(&format!("127.0.0.1:{}/", first.port()), &hosts)
    }

    /// The place of the primary, 0 or 1.
    #[must_use]
    pub fn primary(&self) -> usize {
        self.primary
    }

    /// A server of the pair, 0 or 1, to kill, freeze and restart.
    pub fn member(&mut self, place: usize) -> &mut MysqlServer {
        &mut self.members[place]
    }

    /// A connection with all privileges to a server of the pair.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn operator(&self, place: usize) -> Result<MySqlConnection, StartError> {
        let options = MySqlConnectOptions::new()
            .host("127.0.0.1")
            .port(self.members[place].port())
            .username(OPERATOR)
            .password(&self.password)
            .ssl_mode(MySqlSslMode::Disabled)
            .disable_statement_logging();
        options.connect().await.map_err(failed("connect"))
    }

    /// Makes the replica the primary: it applies everything that it has received, then takes
    /// writes. The old primary must be gone or demoted before; it comes back with
    /// [`MysqlPair::rejoin`].
    ///
    /// # Errors
    /// The replica does not answer, or does not come to the end of its relay log.
    pub async fn promote(&mut self) -> Result<(), StartError> {
        let place = 1 - self.primary;
        // From now on, the old primary starts read-only, whenever it starts.
        self.write_part(self.primary, Part::Replica)?;
        let mut replica = self.operator(place).await?;
        run(&mut replica, "stop receiving", "STOP SLAVE IO_THREAD; START SLAVE SQL_THREAD").await?;
        self.applied(&mut replica).await?;
        let promotion = "STOP SLAVE; RESET SLAVE ALL; \
             SET GLOBAL rpl_semi_sync_master_enabled = 1, GLOBAL read_only = 0";
        run(&mut replica, "promote", promotion).await?;
        self.write_part(place, Part::Primary)?;
        self.primary = place;
        self.remember()
    }

    /// Makes the server that is not the primary its replica; it must run. What it had committed
    /// and never sent is lost.
    ///
    /// # Errors
    /// It does not replicate.
    pub async fn rejoin(&mut self) -> Result<(), StartError> {
        self.replicate(1 - self.primary).await
    }

    /// Stops both servers, and returns when they have ended.
    pub async fn stop(&self) {
        let [first, second] = &self.members;
        tokio::join!(first.stop(), second.stop());
    }

    /// Waits until one of the servers has ended, and tells how.
    pub async fn ended(&self) -> StartError {
        let [first, second] = &self.members;
        tokio::select! {
            error = first.ended() => error,
            error = second.ended() => error,
        }
    }

    /// What the servers say about their version.
    #[must_use]
    pub fn version(&self) -> &str {
        self.members[0].version()
    }

    /// Starts replication to a member, and waits until the primary counts on it.
    async fn replicate(&self, place: usize) -> Result<(), StartError> {
        let primary = &self.members[self.primary];
        let statements = format!(
            "STOP SLAVE; SET GLOBAL read_only = 1, GLOBAL rpl_semi_sync_master_enabled = 0; \
             CHANGE MASTER TO MASTER_HOST = '127.0.0.1', \
             MASTER_PORT = {}, MASTER_USER = '{OPERATOR}', MASTER_PASSWORD = '{}', \
             MASTER_USE_GTID = slave_pos, MASTER_DEMOTE_TO_SLAVE = 1, MASTER_CONNECT_RETRY = 1; \
             START SLAVE",
            primary.port(),
            self.password
        );
        let mut replica = self.operator(place).await?;
        run(&mut replica, "start replication", &statements).await?;
        let mut source = self.operator(self.primary).await?;
        let states = "SHOW GLOBAL STATUS WHERE Variable_name IN \
             ('Rpl_semi_sync_master_clients', 'Rpl_semi_sync_master_status')";
        let deadline = Instant::now() + STATE_MAX;
        loop {
            let rows: Vec<(String, String)> =
                sqlx::query_as(states).fetch_all(&mut source).await.map_err(failed("ask"))?;
            let is_served = rows.iter().all(|(_, value)| value == "ON" || value == "1");
            if is_served {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let why = format!("{rows:?}; {}", self.slave_status(&mut replica).await?);
                return Err(failed("wait for the replica")(why));
            }
            sleep(STATE_POLL).await;
        }
    }

    /// Waits until a replica has applied its relay log. It applies with one thread: with several,
    /// the state would tell only that all was read.
    async fn applied(&self, replica: &mut MySqlConnection) -> Result<(), StartError> {
        // The state alone may be that of a moment ago, and the position alone may lie behind the
        // beginning of a transaction whose end was never received.
        let [received] = self.slave_columns(replica, ["Gtid_IO_Pos"]).await?;
        let waited =
            sqlx::query("SELECT MASTER_GTID_WAIT(?, ?)").bind(received).bind(APPLY_SECONDS);
        waited.execute(&mut *replica).await.map_err(failed("wait for the replica"))?;
        let deadline = Instant::now() + STATE_MAX;
        loop {
            let state = self.slave_status(replica).await?;
            if state.starts_with("Slave has read all relay log") {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(failed("apply the relay log")(state));
            }
            sleep(STATE_POLL).await;
        }
    }

    /// The state of the thread that applies the relay log, and the last errors.
    async fn slave_status(&self, replica: &mut MySqlConnection) -> Result<String, StartError> {
        let names = ["Slave_SQL_Running_State", "Last_IO_Error", "Last_SQL_Error"];
        Ok(self.slave_columns(replica, names).await?.join("; "))
    }

    /// Columns of the state of a replica.
    async fn slave_columns<const COUNT: usize>(
        &self,
        replica: &mut MySqlConnection,
        names: [&str; COUNT],
    ) -> Result<[String; COUNT], StartError> {
        let row = sqlx::query("SHOW SLAVE STATUS").fetch_one(replica).await;
        let row = row.map_err(failed("ask"))?;
        Ok(names.map(|name| row.try_get_unchecked(name).unwrap_or_default()))
    }

    fn write_part(&self, place: usize, part: Part) -> Result<(), StartError> {
        self.members[place].home().write(OPTION_FILE, part.options())
    }

    fn remember(&self) -> Result<(), StartError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let path = directory.join(PRIMARY);
        fs::write(&path, format!("{}\n", self.primary + 1)).map_err(StartError::io("write", &path))
    }
}

/// The options of a member.
fn options(place: usize, folder: Option<PathBuf>, part: Part, password: &str) -> MysqlOptions {
    let mut options = match folder {
        Some(folder) => MysqlOptions::new(folder),
        None => MysqlOptions::temporary(),
    };
    for host in ["localhost", "127.0.0.1"] {
        let account = format!("'{OPERATOR}'@'{host}'");
        options.extra_statements.extend([
            format!("CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{password}'"),
            format!("ALTER USER {account} IDENTIFIED BY '{password}'"),
            format!("GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION"),
        ]);
    }
    let arguments =
        [format!("--server-id={}", place + 1), format!("--rpl-semi-sync-master-timeout={WAIT_MS}")];
    options.extra_arguments = arguments.into();
    options.extra_arguments.extend(REPLICATION.map(str::to_owned));
    options.password = Some(password.to_owned());
    options.option_lines = Some(part.options().to_owned());
    options
}

/// The arguments of both members.
const REPLICATION: [&str; 11] = [
    "--log-bin=binlog",
    "--binlog-format=ROW",
    // A commit is in the log before it is answered.
    "--sync-binlog=1",
    "--expire-logs-days=1",
    "--relay-log=relay",
    "--log-slave-updates=1",
    "--gtid-strict-mode=1",
    // Only when the pair says so: an old primary must not replicate by itself.
    "--skip-slave-start",
    "--slave-net-timeout=5",
    "--rpl-semi-sync-slave-enabled=1",
    // No other session sees a commit before the replica has it.
    "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
];

async fn run(
    connection: &mut MySqlConnection,
    action: &'static str,
    statements: &str,
) -> Result<(), StartError> {
    connection.execute(sqlx::raw_sql(statements)).await.map(drop).map_err(failed(action))
}

fn failed<E: std::fmt::Display>(action: &'static str) -> impl FnOnce(E) -> StartError {
    move |error| StartError::Cluster { server: SERVER, action, answer: error.to_string() }
}

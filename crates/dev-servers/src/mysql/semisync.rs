//! Two MariaDB servers with semi-synchronous replication: the primary answers a commit after the
//! replica has it in its relay log.
//!
//! Both start read-only, unless the file of their roles says that they are the primary: a server
//! that comes back after it was replaced never takes writes by itself. Only [`promote`] changes the
//! roles.

use sqlx::Row;
use sqlx::mysql::MySqlConnection;

use super::flavour::OPTION_FILE;
use super::members::{Members, Shared};
use super::operator::{OPERATOR, failed, run, until};
use super::{MysqlOptions, MysqlServer};
use crate::error::StartError;

/// The number of servers.
pub(super) const COUNT: usize = 2;
/// How long a commit waits for the replica before the primary goes on without it, in milliseconds.
/// Shorter than a client of the service waits for a COMMIT.
const WAIT_MS: u32 = 4_000;
/// How long the last complete transaction of a relay log may take. Shorter than a look at a state.
const APPLY_SECONDS: u32 = 1;

/// The part of a member in the pair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Primary,
    Replica,
    /// A former primary that shows all that it has committed, and takes no writes.
    Former,
}

impl Part {
    /// The options that depend on the part. After a crash a replica takes back the commits at the
    /// end of its log that it never sent, and a primary makes them good. Only the primary waits for
    /// acknowledgements: a replica would wait for those of replicas that it does not have, and not
    /// apply what it receives.
    fn options(self) -> String {
        let [is_read_only, role, waits] = match self {
            Self::Primary => ["0", "MASTER", "1"],
            Self::Replica => ["1", "SLAVE", "0"],
            Self::Former => ["1", "MASTER", "0"],
        };
        format!(
            "[mysqld]\nread-only={is_read_only}\ninit-rpl-role={role}\n\
             rpl-semi-sync-master-enabled={waits}\n"
        )
    }
}

/// Starts both servers, and returns once the replica acknowledges commits.
///
/// # Errors
/// The error of a server that did not start, or did not replicate.
pub(super) async fn start(shared: Shared, primary: usize) -> Result<Members, StartError> {
    let member = |index: usize| {
        let part = if index == primary { Part::Primary } else { Part::Replica };
        MysqlServer::start(options(&shared, index, part))
    };
    let (first, second) = tokio::try_join!(member(0), member(1))?;
    let members = Members { servers: vec![first, second], shared };
    replicate(&members, primary, 1 - primary).await?;
    Ok(members)
}

/// Makes the replica the primary, and returns its index: it applies everything that it has received,
/// then takes writes. The old primary must be gone or demoted before.
///
/// # Errors
/// The replica does not answer, or does not come to the end of its relay log.
pub(super) async fn promote(members: &Members, primary: usize) -> Result<usize, StartError> {
    let index = 1 - primary;
    // From now on, the old primary starts read-only, whenever it starts.
    write_part(members, primary, Part::Replica)?;
    let mut replica = members.operator(index).await?;
    run(&mut replica, "stop receiving", "STOP SLAVE IO_THREAD; START SLAVE SQL_THREAD").await?;
    applied(&mut replica).await?;
    let promotion = "STOP SLAVE; RESET SLAVE ALL; \
         SET GLOBAL rpl_semi_sync_master_enabled = 1, GLOBAL read_only = 0";
    run(&mut replica, "promote", promotion).await?;
    write_part(members, index, Part::Primary)?;
    Ok(index)
}

/// Starts a primary that was replaced, with all that it has committed: as a replica it would take back the commits that
/// it never sent. Its next start is that of a replica.
///
/// # Errors
/// It does not start.
pub(super) async fn restart_former(members: &mut Members, index: usize) -> Result<(), StartError> {
    write_part(members, index, Part::Former)?;
    members.servers[index].restart().await?;
    write_part(members, index, Part::Replica)
}

/// Starts replication to a member, and waits until the primary counts on it. What the member had
/// committed and never sent is lost.
///
/// # Errors
/// It does not replicate.
pub(super) async fn replicate(
    members: &Members,
    primary: usize,
    index: usize,
) -> Result<(), StartError> {
    let statements = format!(
        "STOP SLAVE; SET GLOBAL read_only = 1, GLOBAL rpl_semi_sync_master_enabled = 0; \
         CHANGE MASTER TO MASTER_HOST = '127.0.0.1', \
         MASTER_PORT = {}, MASTER_USER = '{OPERATOR}', MASTER_PASSWORD = '{}', \
         MASTER_USE_GTID = slave_pos, MASTER_DEMOTE_TO_SLAVE = 1, MASTER_CONNECT_RETRY = 1; \
         START SLAVE",
        members.servers[primary].port(),
        members.shared.password
    );
    let mut replica = members.operator(index).await?;
    run(&mut replica, "start replication", &statements).await?;
    let mut source = members.operator(primary).await?;
    let states = "SHOW GLOBAL STATUS WHERE Variable_name IN \
         ('Rpl_semi_sync_master_clients', 'Rpl_semi_sync_master_status')";
    until("wait for the replica", async || {
        let rows = sqlx::query_as(states).fetch_all(&mut source).await;
        let rows: Vec<(String, String)> = rows.map_err(|error| error.to_string())?;
        if rows.iter().all(|(_, value)| value == "ON" || value == "1") {
            return Ok(());
        }
        let status = slave_status(&mut replica).await.map_err(|error| error.to_string())?;
        Err(format!("{rows:?}; {status}"))
    })
    .await
}

/// Waits until a replica has applied its relay log. It applies with one thread: with several, the
/// state would tell only that all was read.
async fn applied(replica: &mut MySqlConnection) -> Result<(), StartError> {
    // The state alone may be that of a moment ago, and the position alone may lie behind the
    // beginning of a transaction whose end was never received.
    until("apply the relay log", async || {
        let looked = async {
            let [received] = slave_columns(replica, ["Gtid_IO_Pos"]).await?;
            let waited =
                sqlx::query("SELECT MASTER_GTID_WAIT(?, ?)").bind(received).bind(APPLY_SECONDS);
            waited.execute(&mut *replica).await.map_err(failed("wait for the replica"))?;
            slave_status(replica).await
        };
        let state = looked.await.map_err(|error| error.to_string())?;
        if state.starts_with("Slave has read all relay log") { Ok(()) } else { Err(state) }
    })
    .await
}

/// The state of the thread that applies the relay log, and the last errors.
async fn slave_status(replica: &mut MySqlConnection) -> Result<String, StartError> {
    let names = ["Slave_SQL_Running_State", "Last_IO_Error", "Last_SQL_Error"];
    Ok(slave_columns(replica, names).await?.join("; "))
}

/// Columns of the state of a replica.
async fn slave_columns<const COLUMNS: usize>(
    replica: &mut MySqlConnection,
    names: [&str; COLUMNS],
) -> Result<[String; COLUMNS], StartError> {
    let row = sqlx::query("SHOW SLAVE STATUS").fetch_one(replica).await;
    let row = row.map_err(failed("ask"))?;
    Ok(names.map(|name| row.try_get_unchecked(name).unwrap_or_default()))
}

fn write_part(members: &Members, index: usize, part: Part) -> Result<(), StartError> {
    members.servers[index].home.write(OPTION_FILE, &part.options())
}

/// The options of a member.
fn options(shared: &Shared, index: usize, part: Part) -> MysqlOptions {
    let mut options = shared.options(index);
    options.extra_arguments.push(format!("--rpl-semi-sync-master-timeout={WAIT_MS}"));
    options.extra_arguments.extend(REPLICATION.map(str::to_owned));
    options.option_lines = Some(part.options());
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

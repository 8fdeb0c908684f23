//! Three MySQL servers with Group Replication and a single primary: a commit is answered after a
//! majority of the group has it, and the group elects the primary.
//!
//! Every server starts read-only and outside the group, so one that comes back never takes writes by
//! itself; [`join`] lets it in, and the group sends it what it lacks.

use sqlx::mysql::MySqlConnection;

use super::members::{Members, Shared};
use super::operator::{OPERATOR, failed, run, until};
use super::{MysqlOptions, MysqlServer};
use crate::error::StartError;

/// The number of servers.
const COUNT: usize = 3;
/// The ports of all members for the group.
pub(super) const PORTS: usize = COUNT;
/// The name of the group: a UUID, in which its transactions are counted.
const GROUP: &str = "5ec4111a-0000-4000-8000-000000000001";
/// The channel on which a member gets what it lacks.
const RECOVERY: &str = "group_replication_recovery";

/// Starts the servers and the group, and returns with the index of the primary once all are online.
///
/// # Errors
/// The error of a server that did not start, or did not join.
pub(super) async fn start(shared: Shared) -> Result<(Members, usize), StartError> {
    let starts = (0..COUNT).map(|index| MysqlServer::start(options(&shared, index)));
    let servers = futures::future::try_join_all(starts).await?;
    let members = Members { servers, shared };
    let first = most_advanced(&members).await?;
    begin(&members, first).await?;
    for index in (0..COUNT).filter(|index| *index != first) {
        join(&members, index).await?;
    }
    Ok((members, first))
}

/// Lets a member join the group, and waits until it is online.
///
/// # Errors
/// It does not get what it lacks.
pub(super) async fn join(members: &Members, index: usize) -> Result<(), StartError> {
    let mut member = members.operator(index).await?;
    // One that was expelled has to leave first.
    run(&mut member, "leave the group", "STOP GROUP_REPLICATION").await?;
    let statements = format!("{}; START GROUP_REPLICATION", recovery(members));
    run(&mut member, "join the group", &statements).await?;
    until("wait for a member to be online", async || {
        let state = state_of_self(&mut member).await.map_err(|error| error.to_string())?;
        if state == "ONLINE" { Ok(()) } else { Err(state) }
    })
    .await
}

/// Makes another member the primary, while the present one runs.
///
/// # Errors
/// The group refuses.
pub(super) async fn hand_over(members: &Members, primary: usize) -> Result<(), StartError> {
    let mut heir = members.operator((primary + 1) % COUNT).await?;
    let asked = sqlx::query("SELECT group_replication_set_as_primary(@@server_uuid)");
    asked.execute(&mut heir).await.map(drop).map_err(failed("change the primary"))
}

/// Begins a group of one.
async fn begin(members: &Members, index: usize) -> Result<(), StartError> {
    let mut member = members.operator(index).await?;
    let statements = format!(
        "{}; SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION; \
         SET GLOBAL group_replication_bootstrap_group = OFF",
        recovery(members)
    );
    run(&mut member, "begin the group", &statements).await?;
    until("wait for the first member", async || takes_writes(members, index).await).await
}

/// The statement that tells a member how to log in where it gets what it lacks.
fn recovery(members: &Members) -> String {
    format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_USER = '{OPERATOR}', SOURCE_PASSWORD = '{}' \
         FOR CHANNEL '{RECOVERY}'",
        members.shared.password
    )
}

async fn state_of_self(member: &mut MySqlConnection) -> sqlx::Result<String> {
    let asked = "SELECT CAST(MEMBER_STATE AS CHAR) FROM performance_schema.replication_group_members \
         WHERE MEMBER_ID = @@server_uuid";
    Ok(sqlx::query_scalar(asked).fetch_optional(member).await?.unwrap_or_default())
}

/// Whether a member is the primary, and its group has let it write; the error says why not.
pub(super) async fn takes_writes(members: &Members, index: usize) -> Result<(), String> {
    let asked = "SELECT MEMBER_STATE = 'ONLINE' AND MEMBER_ROLE = 'PRIMARY' \
         AND NOT @@GLOBAL.super_read_only AND NOT @@GLOBAL.read_only \
         FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid";
    let mut member = members.operator(index).await.map_err(|error| error.to_string())?;
    let writes = sqlx::query_scalar(asked).fetch_optional(&mut member).await;
    match writes.map_err(|error| error.to_string())? {
        Some(1_i64) => Ok(()),
        answer => Err(format!("{answer:?}")),
    }
}

/// The index of the member that has every transaction that any member has.
///
/// # Errors
/// A member does not answer.
async fn most_advanced(members: &Members) -> Result<usize, StartError> {
    // What a member has received and not applied yet, it applies before it takes writes.
    let has = "SELECT CONCAT(@@GLOBAL.gtid_executed, ',', COALESCE((SELECT RECEIVED_TRANSACTION_SET \
         FROM performance_schema.replication_connection_status \
         WHERE CHANNEL_NAME = 'group_replication_applier'), ''))";
    let mut newest = (0, String::new());
    for index in 0..COUNT {
        let mut member = members.operator(index).await?;
        let mine: String =
            sqlx::query_scalar(has).fetch_one(&mut member).await.map_err(failed("ask"))?;
        let compared = sqlx::query_scalar("SELECT GTID_SUBSET(?, ?)").bind(&mine).bind(&newest.1);
        let is_older: i64 = compared.fetch_one(&mut member).await.map_err(failed("ask"))?;
        if is_older == 0 {
            newest = (index, mine);
        }
    }
    Ok(newest.0)
}

/// The options of a member.
fn options(shared: &Shared, index: usize) -> MysqlOptions {
    let mut options = shared.options(index);
    let addresses: Vec<String> =
        shared.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    options.extra_arguments.extend(MEMBER.map(str::to_owned));
    options.extra_arguments.extend([
        format!("--loose-group-replication-group-name={GROUP}"),
        format!("--loose-group-replication-local-address={}", addresses[index]),
        format!("--loose-group-replication-group-seeds={}", addresses.join(",")),
    ]);
    // Read-only from the start: the accounts are each member's own and need an exception.
    options.option_lines = Some("[mysqld]\nsuper-read-only=1\n".to_owned());
    options.first_statements = vec!["SET GLOBAL super_read_only = 0".to_owned()];
    options.extra_statements.extend(shop_may_look());
    options.extra_statements.push("SET GLOBAL super_read_only = 1".to_owned());
    options
}

/// The shop's account sees whether the group has a majority.
fn shop_may_look() -> [String; 2] {
    ["localhost", "127.0.0.1"].map(|host| {
        let user = super::flavour::USER;
        format!("GRANT SELECT ON performance_schema.replication_group_members TO '{user}'@'{host}'")
    })
}

/// The arguments of every member.
const MEMBER: [&str; 13] = [
    "--log-bin=binlog",
    // A commit is in the log before it is answered.
    "--sync-binlog=1",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--relay-log=relay",
    // Other members find it there.
    "--report-host=127.0.0.1",
    "--plugin-load-add=group_replication.so",
    // The state of the members is a table of it.
    "--performance-schema=ON",
    // Only when the set says so: a server that begins a group by itself would be a second one.
    "--loose-group-replication-start-on-boot=OFF",
    "--loose-group-replication-single-primary-mode=ON",
    // Accounts log in with a password that is sent encrypted by the server's public key.
    "--loose-group-replication-recovery-get-public-key=ON",
    // A member that was silent for 5 s is expelled then, and not after 5 s more or longer.
    "--loose-group-replication-member-expel-timeout=0",
    // A new primary takes writes, and answers reads, after it has applied what it had received.
    "--loose-group-replication-consistency=BEFORE_ON_PRIMARY_FAILOVER",
];

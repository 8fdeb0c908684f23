//! Three nodes of MariaDB with Galera: a commit is answered after all nodes of the primary component
//! have received it, and each of them takes writes. The service writes to one: the first in the URL.
//!
//! A node that comes back gets what it lacks from another one, which keeps the last transactions in a
//! ring buffer. If that is not enough, or the node is new, it gets all data: the server runs the script
//! `wsrep_sst_METHOD` for that, which `scripts/galera-program` fetches together with Galera's library. The name of our
//! method is no other's: the server looks for the script beside itself first, where a package may have its own.

use std::fs;
use std::path::{Path, PathBuf};

use super::flavour::OPTION_FILE;
use super::members::{Members, Shared};
use super::operator::{failed, until};
use super::{MysqlOptions, MysqlServer, Origin};
use crate::error::StartError;
use crate::program;

/// The number of nodes.
const COUNT: usize = 3;
/// The ports of a node: for the group, for what a node lacks, and for all data.
const PORTS_EACH: usize = 3;
/// The ports of all nodes.
pub(super) const PORTS: usize = COUNT * PORTS_EACH;
/// Galera's library, in the folder that [`programs`] finds.
const LIBRARY: &str = "libgalera_smm.so";
/// How all data are sent: the end of the name of a script in that folder.
const METHOD: &str = "ownrsync";
/// Starts the server; see its first lines.
const SCRIPT: &str = include_str!("galera.sh");
/// The file with a node's position, in its data.
const POSITION: &str = "grastate.dat";
/// The address that makes a node begin a component of its own.
const NOBODY: &str = "gcomm://";

/// Starts the nodes, and returns once all are synced.
///
/// # Errors
/// A program is missing, or a node did not start.
pub(super) async fn start(shared: Shared, writer: usize) -> Result<Members, StartError> {
    let programs = programs()?;
    let first = most_advanced(&shared, writer)?;
    let begins = options(&shared, first, &programs, NOBODY);
    let beginner = MysqlServer::start(begins).await?;
    // From now on it joins the others, whenever it starts.
    let peers = peers(&shared);
    beginner.home.write(OPTION_FILE, &option_lines(&peers))?;
    let others = (0..COUNT).filter(|index| *index != first);
    let joiners =
        others.map(|index| MysqlServer::start(options(&shared, index, &programs, &peers)));
    let mut servers = futures::future::try_join_all(joiners).await?;
    servers.insert(first, beginner);
    let members = Members { servers, shared };
    for index in 0..COUNT {
        until_synced(&members, index).await?;
    }
    Ok(members)
}

/// Waits until a node is synced.
///
/// # Errors
/// It stays behind.
pub(super) async fn until_synced(members: &Members, index: usize) -> Result<(), StartError> {
    until("wait for a node to be synced", async || {
        let state = state(members, index).await?;
        if state.is_synced() { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await
}

/// Whether a node takes writes; the error says its state. Its commits wait until the nodes have left a
/// silent one behind.
pub(super) async fn takes_writes(members: &Members, index: usize) -> Result<(), String> {
    let state = state(members, index).await?;
    if state.is_synced() && state.writes { Ok(()) } else { Err(format!("{state:?}")) }
}

/// What a node says of itself.
#[derive(Debug)]
struct State {
    status: Vec<(String, String)>,
    writes: bool,
}

impl State {
    fn is_synced(&self) -> bool {
        let is = |name: &str, value: &str| {
            self.status.iter().any(|(of, found)| of.eq_ignore_ascii_case(name) && found == value)
        };
        is("wsrep_ready", "ON")
            && is("wsrep_cluster_status", "Primary")
            && is("wsrep_local_state", "4")
    }
}

async fn state(members: &Members, index: usize) -> Result<State, String> {
    let asked = async {
        let mut node = members.operator(index).await?;
        let status = "SHOW GLOBAL STATUS WHERE Variable_name IN \
             ('wsrep_ready', 'wsrep_cluster_status', 'wsrep_local_state')";
        let status = sqlx::query_as(status).fetch_all(&mut node).await.map_err(failed("ask"))?;
        let read_only = sqlx::query_as("SHOW GLOBAL VARIABLES LIKE 'read_only'");
        let read_only: (String, String) =
            read_only.fetch_one(&mut node).await.map_err(failed("ask"))?;
        Ok::<_, StartError>(State { status, writes: read_only.1 == "OFF" })
    };
    asked.await.map_err(|error| error.to_string())
}

/// The address with all nodes.
fn peers(shared: &Shared) -> String {
    let nodes = shared.ports.chunks(PORTS_EACH).map(|ports| format!("127.0.0.1:{}", ports[0]));
    format!("{NOBODY}{}", nodes.collect::<Vec<_>>().join(","))
}

fn option_lines(peers: &str) -> String {
    format!("[mysqld]\nwsrep-cluster-address={peers}\n")
}

/// The options of a node.
fn options(shared: &Shared, index: usize, programs: &Path, peers: &str) -> MysqlOptions {
    let mut options = shared.options(index);
    let [group, lacks, all] = [0, 1, 2].map(|port| shared.ports[index * PORTS_EACH + port]);
    let library = programs.join(LIBRARY);
    let transport = [
        format!("gmcast.listen_addr=tcp://127.0.0.1:{group}"),
        format!("ist.recv_addr=127.0.0.1:{lacks}"),
        // A node that is silent for longer is left out of the cluster. Galera's own defaults are 5 and 15 s.
        "evs.keepalive_period=PT0.5S".to_owned(),
        "evs.inactive_check_period=PT0.5S".to_owned(),
        "evs.suspect_timeout=PT3S".to_owned(),
        "evs.inactive_timeout=PT6S".to_owned(),
        "gcache.size=128M".to_owned(),
    ];
    options.extra_arguments.extend([
        "--wsrep-on=ON".to_owned(),
        format!("--wsrep-provider={}", library.display()),
        format!("--wsrep-provider-options={}", transport.join(";")),
        "--wsrep-cluster-name=seckill".to_owned(),
        format!("--wsrep-node-name=node-{}", index + 1),
        "--wsrep-node-address=127.0.0.1".to_owned(),
        // The last one sends its data to a node that needs them: it writes least.
        format!("--wsrep-sst-donor=node-{COUNT},"),
        format!("--wsrep-sst-method={METHOD}"),
        format!("--wsrep-sst-receive-address=127.0.0.1:{all}"),
        "--binlog-format=ROW".to_owned(),
        "--innodb-autoinc-lock-mode=2".to_owned(),
    ]);
    // The accounts are made on each node for itself: nodes that start are not ready for more.
    options.first_statements = vec!["SET SESSION wsrep_on = OFF".to_owned()];
    options.launcher = ["/bin/sh", "-c", SCRIPT, "sh"].map(str::to_owned).to_vec();
    options.launcher.push(programs.display().to_string());
    options.option_lines = Some(option_lines(peers));
    options.origin = if peers == NOBODY { Origin::Made } else { Origin::Received };
    options
}

/// The index of the node whose data are newest; it begins the component, and the others join it. If
/// all were killed at once, no node knows its position: then it is the writer, which has everything
/// that it has answered.
///
/// # Errors
/// Its file cannot be written.
fn most_advanced(shared: &Shared, writer: usize) -> Result<usize, StartError> {
    let position = |index: usize| {
        let path = shared.folder(index)?.join("data").join(POSITION);
        let text = fs::read_to_string(&path).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<i64>().ok()
        };
        // A node that left last knows that nothing is newer.
        Some((field("safe_to_bootstrap:") == Some(1), field("seqno:").unwrap_or(-1), path, text))
    };
    let known = (0..COUNT).filter_map(|index| Some((index, position(index)?)));
    let newest = known.max_by_key(|(index, (last, seqno, ..))| (*last, *seqno, *index == writer));
    let Some((index, (_, _, path, text))) = newest else { return Ok(0) };
    let text = text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
    fs::write(&path, text).map_err(StartError::io("write", &path))?;
    Ok(index)
}

/// The folder with Galera's library and the scripts that send data: that of `SECKILL_GALERA`, else
/// the one that `scripts/galera-program` fills.
pub(super) fn programs() -> Result<PathBuf, StartError> {
    let folder = program::named("SECKILL_GALERA").or_else(|| program::unpacked("galera"));
    let has = |folder: &PathBuf, name: &str| folder.join(name).is_file();
    let is_whole =
        |folder: &PathBuf| has(folder, LIBRARY) && has(folder, &format!("wsrep_sst_{METHOD}"));
    let name = "Galera library with the script that sends a node's data";
    let missing = || StartError::missing(name, "galera-4", "SECKILL_GALERA");
    folder.filter(is_whole).ok_or_else(missing)
}

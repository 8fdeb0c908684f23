//! A cluster of Vitess as a shop runs it: etcd for its topology, vtctld, a vtgate, and for each shard some tablets
//! (`vttablet`), each with a MySQL server of its own. A commit waits for a replica (durability policy `semi_sync`), unless
//! each shard has one tablet.
//!
//! It begins with the keyspace [`DATABASE`] of one shard, as a shop does. When its tables are made,
//! [`VitessCluster::add_items`] puts those of the items into shards.
//!
//! Nobody watches the primaries (that is VTOrc's part), so that a test decides when one is replaced.

mod old_server;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures::future::try_join_all;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

pub use self::old_server::OldServer;
use super::flavour::{DATABASE, USER};
use super::vitess::{ITEM_TABLES, ITEMS, MAIN_TABLES, OF_ITEMS, OF_MAIN, ROUTING};
use super::vitess_programs::{self, VitessProgram, find, make_root, mysql_options, tablet_flags};
use super::{MysqlServer, operator};
use crate::error::StartError;
use crate::etcd::{EtcdOptions, EtcdServer};
use crate::home::{LOG, new_password};
use crate::server::Server;
use crate::temporary::TemporaryDirectory;

/// A running cluster.
#[derive(Debug)]
pub struct VitessCluster {
    gate: Server<VitessProgram>,
    vtctld: Server<VitessProgram>,
    tablets: Vec<Tablet>,
    // Dropped after those that use them.
    etcd: EtcdServer,
    _root: TemporaryDirectory,
    /// Of the tablets' account on the MySQL servers.
    password: String,
    /// Whether the servers have more memory, and the disk keeps their commits.
    is_measured: bool,
}

/// A tablet with its MySQL server.
#[derive(Debug)]
struct Tablet {
    /// Its number in the cell, and the id of its server.
    number: u32,
    program: Server<VitessProgram>,
    mysql: MysqlServer,
    _root: TemporaryDirectory,
}

/// A shard to start: its name, and how many tablets it has.
pub type NewShard<'a> = (&'a str, u32);

impl VitessCluster {
    /// Starts a cluster in throw-away directories, with the keyspace [`DATABASE`] of this number of tablets and no tables.
    ///
    /// # Errors
    /// A program is missing, or one did not start.
    pub async fn start_temporary(tablets: u32) -> Result<Self, StartError> {
        Self::start(tablets, false).await
    }

    /// Starts one of one tablet, for measurements: its servers have the memory for data that stay and grow, and the
    /// disk keeps their commits.
    ///
    /// # Errors
    /// As [`Self::start_temporary`].
    pub async fn start_measured() -> Result<Self, StartError> {
        Self::start(1, true).await
    }

    async fn start(tablets: u32, is_measured: bool) -> Result<Self, StartError> {
        let etcd = EtcdServer::start(EtcdOptions::temporary()).await?;
        let password = new_password();
        let root = make_root(Path::new(LOG), &password)?;
        let mut flags = vec!["--service-map=grpc-vtctl,grpc-vtctld".to_owned()];
        flags.extend(topology(&etcd));
        flags.extend(["grpc-bind-address=127.0.0.1", "remote-operation-timeout=5s"].map(flag));
        let vtctld = VitessProgram::start("vtctld", "grpc-port", root.path(), flags).await?;
        let address = etcd.url().replace("http://", "");
        let cell = ["AddCellInfo", "--root=/vitess/cell", "--server-address", &address, CELL];
        control(&vtctld, "make the cell", &cell).await?;
        let keyspace = DATABASE;
        let place =
            Place { etcd: &etcd, vtctld: &vtctld, password: &password, keyspace, is_measured };
        let tablets = place.start_keyspace(FIRST_NUMBER, &[(ONLY_SHARD, tablets)]).await?;
        let gate = start_gate(&etcd, root.path()).await?;
        Ok(Self { gate, vtctld, tablets, etcd, _root: root, password, is_measured })
    }

    /// Makes the keyspace of the items' tables, with these shards, and leads to it. The tables of [`DATABASE`] are there.
    ///
    /// # Errors
    /// A program did not start, or Vitess refuses a file.
    pub async fn add_items(&mut self, shards: &[NewShard<'_>]) -> Result<(), StartError> {
        let tablets = self.items().start_keyspace(self.next_number(), shards).await?;
        self.tablets.extend(tablets);
        let steps: [(&str, &[&str]); 5] = [
            ("make the table of numbers", &["ApplySchema", "--sql", MAIN_TABLES, DATABASE]),
            ("make the tables of items", &["ApplySchema", "--sql", ITEM_TABLES, ITEMS]),
            (
                "say which tables are in the first",
                &["ApplyVSchema", "--vschema", OF_MAIN, DATABASE],
            ),
            ("say which tables are in shards", &["ApplyVSchema", "--vschema", OF_ITEMS, ITEMS]),
            ("lead to the shards", &["ApplyRoutingRules", "--rules", ROUTING]),
        ];
        for (action, arguments) in steps {
            self.control(action, arguments).await?;
        }
        Ok(())
    }

    /// The URL of the keyspace [`DATABASE`] at vtgate.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    fn url_of(&self, keyspace: &str) -> String {
        format!("mysql://{USER}@127.0.0.1:{}/{keyspace}", self.gate.port())
    }

    /// The URL of the MySQL server behind the primary of a shard, for the account that may do everything.
    ///
    /// # Errors
    /// Vitess knows none.
    pub async fn primary_url(&self, shard: &str) -> Result<String, StartError> {
        let number = self.primary_of(shard).await?;
        let primary = self.tablets.iter().find(|tablet| tablet.number == number);
        let port = primary.ok_or_else(|| unknown(number))?.mysql.port();
        Ok(operator::url(port, &self.password, keyspace_of(shard)))
    }

    /// The process numbers of vtgate, of the tablets and of their servers.
    pub fn pids(&self) -> Vec<u32> {
        let behind = self.tablets.iter().flat_map(|one| [one.program.pid(), one.mysql.pid()]);
        behind.chain([self.gate.pid()]).collect()
    }

    /// Has another tablet of a shard become its primary, while both run.
    ///
    /// # Errors
    /// Vitess refuses.
    pub async fn hand_over(&self, shard: &str) -> Result<(), StartError> {
        let shard = path_of(shard);
        self.control("change the primary", &["PlannedReparentShard", &shard]).await.map(drop)
    }

    /// Kills the primary of a shard and leaves its server; its number.
    ///
    /// # Errors
    /// Vitess knows none.
    pub async fn kill_tablet(&mut self, shard: &str) -> Result<u32, StartError> {
        let number = self.primary_of(shard).await?;
        self.tablet(number)?.program.kill().await;
        Ok(number)
    }

    /// Starts a killed tablet again, whose server runs.
    ///
    /// # Errors
    /// It does not start.
    pub async fn restart_tablet(&mut self, number: u32) -> Result<(), StartError> {
        self.tablet(number)?.program.restart().await
    }

    /// The program to which clients connect, to kill and restart.
    pub fn gate(&mut self) -> &mut Server<VitessProgram> {
        &mut self.gate
    }

    /// Kills the primary of a shard, tablet and server; its number.
    ///
    /// # Errors
    /// Vitess knows none.
    pub async fn kill_primary(&mut self, shard: &str) -> Result<u32, StartError> {
        let number = self.primary_of(shard).await?;
        let tablet = self.tablet(number)?;
        tokio::join!(tablet.program.kill(), tablet.mysql.kill());
        Ok(number)
    }

    /// Has another tablet become the primary of a shard whose primary is gone.
    ///
    /// # Errors
    /// None can.
    pub async fn take_over(&self, shard: &str) -> Result<(), StartError> {
        let shard = path_of(shard);
        self.control("replace the primary", &["EmergencyReparentShard", &shard]).await.map(drop)
    }

    /// Starts a killed primary and its server again, and returns whether it is back. Vitess refuses a primary with
    /// commits that no other tablet has. Its tablet is taken out of the topology, because a split asks every tablet
    /// there.
    ///
    /// # Errors
    /// The server does not start, or the topology cannot be changed.
    pub async fn rejoin(&mut self, number: u32) -> Result<bool, StartError> {
        let tablet = self.tablet(number)?;
        tablet.mysql.restart().await?;
        let Err(refused) = tablet.program.restart().await else { return Ok(true) };
        tracing::warn!("tablet {number} stays away: {refused}");
        tablet.mysql.kill().await;
        self.control("remove the former primary", &["DeleteTablets", &alias(number)]).await?;
        Ok(false)
    }

    /// Begins to split shards of the items into others. Orders go to the old ones still.
    ///
    /// # Errors
    /// A program did not start, or Vitess refuses.
    pub async fn split(&mut self, from: &str, to: &[NewShard<'_>]) -> Result<(), StartError> {
        let tablets = self.items().start_shards(self.next_number(), to).await?;
        self.tablets.extend(tablets);
        let names: Vec<&str> = to.iter().map(|(name, _)| *name).collect();
        let from = format!("--source-shards={from}");
        let into = format!("--target-shards={}", names.join(","));
        // Otherwise the numbers of the waiting list would have no key for a while, which MySQL refuses.
        let create = ["create", "--defer-secondary-keys=false", &from, &into];
        self.workflow(SPLIT, "split the shards", &create).await.map(drop)
    }

    /// Waits until this number of shards that a split makes have the rows.
    ///
    /// # Errors
    /// The copy fails or takes too long.
    pub async fn is_copied(&self, shards: usize) -> Result<(), StartError> {
        self.has_copied(SPLIT, shards).await
    }

    /// Waits until this number of streams of a workflow have copied the rows.
    async fn has_copied(&self, of: Workflow, streams: usize) -> Result<(), StartError> {
        let deadline = Instant::now() + COPY_MAX;
        loop {
            let said = self.workflow(of, "ask for the copy", &["status", "--format=json"]).await?;
            let words: String = said.split_whitespace().collect();
            let is_copied = words.matches(RUNNING).count() == streams
                && !words.contains(NO_POSITION)
                && !words.contains(COPYING);
            if is_copied {
                return Ok(());
            }
            if words.contains(FAILED) || Instant::now() >= deadline {
                let log = self.workflow(of, "ask for the log of the copy", &["show"]).await?;
                return Err(failed("wait for the copy")(format!("{said}\n{log}")));
            }
            sleep(COPY_POLL).await;
        }
    }

    /// Has the shards that were made by a split serve instead of the old ones.
    ///
    /// # Errors
    /// Vitess refuses.
    pub async fn switch_over(&self) -> Result<(), StartError> {
        self.workflow(SPLIT, "switch to the new shards", &["SwitchTraffic"]).await.map(drop)
    }

    /// Ends a split: the old shards are gone for Vitess.
    ///
    /// # Errors
    /// Vitess refuses.
    pub async fn forget_old(&self) -> Result<(), StartError> {
        self.workflow(SPLIT, "remove the old shards", &["complete"]).await.map(drop)
    }

    /// The number of the primary of a shard.
    ///
    /// # Errors
    /// Vitess knows none.
    pub async fn primary_of(&self, shard: &str) -> Result<u32, StartError> {
        self.primary_at(&path_of(shard)).await
    }

    async fn primary_at(&self, path: &str) -> Result<u32, StartError> {
        let said = self.control("find the primary", &["GetShard", path]).await?;
        let number = said.split_once("\"primary_alias\"").and_then(|(_, rest)| {
            let digits = rest.split_once("\"uid\":")?.1.trim_start();
            digits.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
        });
        number.ok_or_else(|| failed("find the primary")(said))
    }

    /// Runs a command of `vtctldclient`; what it prints.
    ///
    /// # Errors
    /// It fails, with what it says.
    pub async fn control(
        &self,
        action: &'static str,
        arguments: &[&str],
    ) -> Result<String, StartError> {
        control(&self.vtctld, action, arguments).await
    }

    /// Runs a command of a workflow; what it prints.
    async fn workflow(
        &self,
        of: Workflow,
        action: &'static str,
        arguments: &[&str],
    ) -> Result<String, StartError> {
        let Workflow { kind, name, target } = of;
        let name = format!("--workflow={name}");
        let target = format!("--target-keyspace={target}");
        let all = [&[kind, &name, &target], arguments].concat();
        self.control(action, &all).await
    }

    /// Where tablets of the items' keyspace are started.
    fn items(&self) -> Place<'_> {
        let Self { etcd, vtctld, password, is_measured, .. } = self;
        Place { etcd, vtctld, password, keyspace: ITEMS, is_measured: *is_measured }
    }

    fn next_number(&self) -> u32 {
        self.tablets.iter().map(|tablet| tablet.number + 1).max().unwrap_or(FIRST_NUMBER)
    }

    fn tablet(&mut self, number: u32) -> Result<&mut Tablet, StartError> {
        let tablet = self.tablets.iter_mut().find(|tablet| tablet.number == number);
        tablet.ok_or_else(|| unknown(number))
    }

    /// Stops all programs, and returns when they have ended.
    pub async fn stop(&self) {
        self.gate.stop().await;
        for tablet in &self.tablets {
            tokio::join!(tablet.program.stop(), tablet.mysql.stop());
        }
        self.vtctld.stop().await;
        self.etcd.stop().await;
    }
}

/// What copies tables, and then leads to the copies.
#[derive(Clone, Copy)]
struct Workflow {
    /// The command of `vtctldclient`.
    kind: &'static str,
    name: &'static str,
    /// The keyspace that gets the rows.
    target: &'static str,
}

/// A split of the items' shards.
const SPLIT: Workflow = Workflow { kind: "Reshard", name: "split", target: ITEMS };
/// The only cell.
const CELL: &str = "cell";
/// How long a command of `vtctldclient` may take.
const CONTROL_MAX: Duration = Duration::from_secs(120);
/// What vtctld says of a stream of a workflow: that it copies what changes, that it has failed, that it has not begun, and
/// that it copies rows.
const RUNNING: &str = r#""status":"Running""#;
const FAILED: &str = r#""status":"Error""#;
const NO_POSITION: &str = r#""position":"""#;
const COPYING: &str = "Copying";
/// How long a workflow may copy, and the pause before it is asked again.
const COPY_MAX: Duration = Duration::from_secs(600);
const COPY_POLL: Duration = Duration::from_millis(500);
/// The number of the first tablet.
const FIRST_NUMBER: u32 = 101;
/// The shard of the keyspace [`DATABASE`].
pub const ONLY_SHARD: &str = "0";

/// What Vitess' own option file for MySQL 9 sets (`config/mycnf/mysql90.cnf`), and less memory.
const OF_SERVER: [&str; 12] = [
    "skip-replica-start",
    "relay-log=relay",
    "relay-log-recovery=ON",
    "plugin-load=rpl_semi_sync_source=semisync_source.so;rpl_semi_sync_replica=semisync_replica.so",
    // A commit waits for a replica for as long as there is none.
    "loose-rpl-semi-sync-source-timeout=1000000000000000000",
    "loose-rpl-semi-sync-source-wait-no-replica=1",
    // Until its tablet says that it is the primary.
    "super-read-only=ON",
    "replica-net-timeout=8",
    "innodb-buffer-pool-size=32M",
    "innodb-log-buffer-size=1M",
    "innodb-redo-log-capacity=16M",
    "table-open-cache=400",
];

/// An option of a server that is measured, which also has more memory: the disk keeps its commits.
const OF_MEASURED: &str = "innodb-flush-method=fsync";

/// The flags that all tablets have.
const OF_VTTABLET: [&str; 6] = [
    "tablet-hostname=127.0.0.1",
    "init-tablet-type=replica",
    "service-map=grpc-queryservice,grpc-tabletmanager,grpc-updatestream",
    "grpc-bind-address=127.0.0.1",
    "health-check-interval=5s",
    "replication-connect-retry=1s",
];

fn flag(text: &str) -> String {
    format!("--{text}")
}

/// The flags by which programs find the topology.
fn topology(etcd: &EtcdServer) -> [String; 3] {
    [
        "--topo-implementation=etcd2".to_owned(),
        format!("--topo-global-server-address={}", etcd.url().replace("http://", "")),
        "--topo-global-root=/vitess/global".to_owned(),
    ]
}

async fn start_gate(etcd: &EtcdServer, root: &Path) -> Result<Server<VitessProgram>, StartError> {
    let mut flags = vec![format!("--cell={CELL}"), format!("--cells-to-watch={CELL}")];
    flags.extend(topology(etcd));
    let own = [
        "mysql-server-bind-address=127.0.0.1",
        "mysql-auth-server-impl=none",
        "tablet-types-to-wait=PRIMARY",
        "tablet-refresh-interval=1s",
        // One item lives in one shard, so a transaction over two is a mistake.
        "transaction-mode=SINGLE",
    ];
    flags.extend(own.map(flag));
    VitessProgram::start("vtgate", "mysql-server-port", root, flags).await
}

/// Where tablets are started.
struct Place<'a> {
    etcd: &'a EtcdServer,
    vtctld: &'a Server<VitessProgram>,
    password: &'a str,
    keyspace: &'static str,
    is_measured: bool,
}

impl Place<'_> {
    /// Makes the keyspace with its shards.
    async fn start_keyspace(
        &self,
        first: u32,
        shards: &[NewShard<'_>],
    ) -> Result<Vec<Tablet>, StartError> {
        let policy = if are_lone(shards) { "none" } else { "semi_sync" };
        let policy = format!("--durability-policy={policy}");
        let make = ["CreateKeyspace", &policy, self.keyspace];
        control(self.vtctld, "make a keyspace", &make).await?;
        self.start_shards(first, shards).await
    }

    /// Starts the tablets of shards with numbers from `first` on. The first one of each becomes its primary.
    async fn start_shards(
        &self,
        first: u32,
        shards: &[NewShard<'_>],
    ) -> Result<Vec<Tablet>, StartError> {
        let mut starts = Vec::new();
        let mut primaries = Vec::new();
        let mut number = first;
        for (shard, tablets) in shards {
            primaries.push((format!("{}/{shard}", self.keyspace), alias(number)));
            let numbers = number..number + tablets;
            number = numbers.end;
            starts.extend(numbers.map(|number| self.start_tablet(shard, number)));
        }
        let mut tablets = try_join_all(starts).await?;
        for (shard, primary) in primaries {
            let make = ["PlannedReparentShard", "--new-primary", &primary, &shard];
            control(self.vtctld, "make a primary", &make).await?;
        }
        if are_lone(shards) {
            // Without semi-sync, a tablet that was made the primary refuses atomic commits, until it starts again.
            let restarts = tablets.iter_mut().map(|tablet| tablet.program.restart());
            try_join_all(restarts).await?;
        }
        Ok(tablets)
    }

    async fn start_tablet(&self, shard: &str, number: u32) -> Result<Tablet, StartError> {
        let Self { etcd, password, keyspace, .. } = self;
        let root = make_root(Path::new(LOG), password)?;
        let mut options = mysql_options(None, password, root.path(), number)?;
        options.extra_arguments.extend(OF_SERVER.map(flag));
        if self.is_measured {
            options = options.for_long();
            options.extra_arguments.push(flag(OF_MEASURED));
        }
        // Such as those that make the account.
        options.first_statements.push("SET GLOBAL super_read_only = OFF".to_owned());
        options.extra_statements.push("SET GLOBAL super_read_only = ON".to_owned());
        let mysql = MysqlServer::start(options).await?;
        let mut flags = vec![
            format!("--tablet-path={}", alias(number)),
            format!("--init-keyspace={keyspace}"),
            format!("--init-shard={shard}"),
            format!("--init-db-name-override={keyspace}"),
            format!("--mycnf-server-id={number}"),
            format!("--mycnf-mysql-port={}", mysql.port()),
        ];
        flags.extend(OF_VTTABLET.map(flag));
        flags.extend(topology(etcd));
        flags.extend(tablet_flags(root.path()));
        let program = VitessProgram::start("vttablet", "grpc-port", root.path(), flags).await?;
        Ok(Tablet { number, program, mysql, _root: root })
    }
}

/// Whether each shard has one tablet, so that its commits wait for no replica.
fn are_lone(shards: &[NewShard<'_>]) -> bool {
    shards.iter().all(|(_, tablets)| *tablets == 1)
}

/// The keyspace of a shard.
fn keyspace_of(shard: &str) -> &'static str {
    if shard == ONLY_SHARD { DATABASE } else { ITEMS }
}

/// A shard with its keyspace, as Vitess names it.
fn path_of(shard: &str) -> String {
    format!("{}/{shard}", keyspace_of(shard))
}

fn unknown(number: u32) -> StartError {
    failed("find a tablet")(number.to_string())
}

/// The name of a tablet.
fn alias(number: u32) -> String {
    format!("{CELL}-{number}")
}

async fn control(
    vtctld: &Server<VitessProgram>,
    action: &'static str,
    arguments: &[&str],
) -> Result<String, StartError> {
    let mut command = Command::new(find("vtctldclient")?);
    command.arg(format!("--server=127.0.0.1:{}", vtctld.port())).args(arguments);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = timeout(CONTROL_MAX, command.output()).await;
    let ended = ended.map_err(|_| failed(action)(format!("no end within {CONTROL_MAX:?}")))?;
    let output = ended.map_err(|error| failed(action)(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(action)(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The error of a cluster that did not do what it was told.
fn failed(action: &'static str) -> impl FnOnce(String) -> StartError {
    move |answer| StartError::refused(vitess_programs::SERVER, action, answer)
}

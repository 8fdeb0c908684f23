//! The way of a shop from one MySQL server into a cluster: a tablet beside the server makes it the keyspace `old`, and
//! its tables are copied into the keyspace [`DATABASE`], which serves from then on.

use std::path::Path;

use super::{OF_VTTABLET, ONLY_SHARD, Tablet, VitessCluster, Workflow, alias, flag, topology};
use crate::error::StartError;
use crate::home::{LOG, new_password};
use crate::mysql::flavour::DATABASE;
use crate::mysql::vitess_programs::{VitessProgram, make_root, mysql_options, tablet_flags};
use crate::mysql::{MysqlServer, operator};
use crate::temporary::TemporaryDirectory;

/// A MySQL server that runs without Vitess, with the settings of `deploy/vitess/mysqld.cnf`.
#[derive(Debug)]
pub struct OldServer {
    mysql: MysqlServer,
    /// With the account of a tablet.
    root: TemporaryDirectory,
    password: String,
}

impl OldServer {
    /// Starts it in a throw-away directory.
    ///
    /// # Errors
    /// There is no MySQL, or it does not start.
    pub async fn start_temporary() -> Result<Self, StartError> {
        let password = new_password();
        let root = make_root(Path::new(LOG), &password)?;
        let options = mysql_options(None, &password, root.path(), 1)?;
        let mysql = MysqlServer::start(options).await?;
        Ok(Self { mysql, root, password })
    }

    /// The URL of the database [`DATABASE`] for a shop's own account, past Vitess.
    pub fn url(&self) -> String {
        self.mysql.tcp_url()
    }

    /// The URL of this database for the account that may do everything.
    pub fn operator_url(&self) -> String {
        operator::url(self.mysql.port(), &self.password, DATABASE)
    }
}

impl VitessCluster {
    /// Starts a tablet beside a server that serves already; the tablet's number. A commit there waits for no replica.
    ///
    /// # Errors
    /// The tablet does not start, or Vitess does not take it for a primary.
    pub async fn add_old(&mut self, old: OldServer) -> Result<u32, StartError> {
        let make = ["CreateKeyspace", "--durability-policy=none", OLD];
        self.control("make the keyspace of the old server", &make).await?;
        let OldServer { mysql, root, .. } = old;
        let number = self.next_number();
        let mut flags = vec![
            format!("--tablet-path={}", alias(number)),
            format!("--init-keyspace={OLD}"),
            format!("--init-shard={ONLY_SHARD}"),
            format!("--init-db-name-override={DATABASE}"),
            "--unmanaged".to_owned(),
            "--db-host=127.0.0.1".to_owned(),
            format!("--db-port={}", mysql.port()),
        ];
        flags.extend(OF_VTTABLET.map(flag));
        flags.extend(topology(&self.etcd));
        // As on another machine: beside a socket, host and port would not be used.
        let of_tablet = tablet_flags(root.path()).into_iter();
        flags.extend(of_tablet.filter(|flag| !flag.starts_with("--db-socket=")));
        let program = VitessProgram::start("vttablet", "grpc-port", root.path(), flags).await?;
        self.tablets.push(Tablet { number, program, mysql, _root: root });
        let accept = ["TabletExternallyReparented", &alias(number)];
        self.control("take the old server for a primary", &accept).await?;
        self.old_has_primary().await?;
        Ok(number)
    }

    /// The URL of the old server's keyspace at vtgate.
    pub fn old_url(&self) -> String {
        self.url_of(OLD)
    }

    /// Copies all tables of the old server, and waits until the copies have the rows. All names lead to the old tables still.
    ///
    /// # Errors
    /// Vitess refuses, or the copy fails or takes too long.
    pub async fn copy_old(&self) -> Result<(), StartError> {
        let source = format!("--source-keyspace={OLD}");
        // Deferred, the numbers of the waiting list would have no key for a while, which MySQL refuses.
        let create = ["create", "--defer-secondary-keys=false", "--all-tables", &source];
        self.workflow(MOVE, "copy the tables of the old server", &create).await?;
        self.has_copied(MOVE, 1).await
    }

    /// Has all names lead to the copies.
    ///
    /// # Errors
    /// Vitess refuses.
    pub async fn leave_old(&self) -> Result<(), StartError> {
        self.workflow(MOVE, "switch to the copies", &["SwitchTraffic"]).await.map(drop)
    }

    /// Ends the workflow: the old tables get other names, and the old keyspace leads nowhere.
    ///
    /// # Errors
    /// Vitess refuses.
    pub async fn forget_old_tables(&self) -> Result<(), StartError> {
        let complete = ["complete", "--rename-tables"];
        self.workflow(MOVE, "forget the old tables", &complete).await.map(drop)
    }

    /// Takes the old keyspace out of the cluster, and kills its tablet and its server.
    ///
    /// # Errors
    /// Vitess refuses.
    pub async fn remove_old(&mut self, number: u32) -> Result<(), StartError> {
        let remove = ["DeleteKeyspace", "--recursive", OLD];
        self.control("remove the old keyspace", &remove).await?;
        // Otherwise vtgate looks for named locks in the keyspace that is gone.
        self.control("tell vtgate so", &["RebuildVSchemaGraph"]).await?;
        let tablet = self.tablet(number)?;
        tokio::join!(tablet.program.kill(), tablet.mysql.kill());
        Ok(())
    }

    /// Waits until the topology knows the primary of the old server's keyspace: its tablet says so some time later.
    async fn old_has_primary(&self) -> Result<(), StartError> {
        let path = format!("{OLD}/{ONLY_SHARD}");
        let primary = async || self.primary_at(&path).await.map_err(|missing| missing.to_string());
        operator::until("find the primary of the old server", primary).await.map(drop)
    }
}

/// The keyspace of the old server.
const OLD: &str = "old";
/// The move of its tables.
const MOVE: Workflow = Workflow { kind: "MoveTables", name: "move", target: DATABASE };

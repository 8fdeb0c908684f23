//! What each choice about the database costs: MariaDB or MySQL, a unix socket or TCP, a binary log or none, and Vitess before
//! MySQL.
//!
//! Servers with the memory of `make run`'s own are started, and an instance of the service for each way to them. Each shard of
//! Vitess has one tablet without a replica, and the figures of the database are those of vtgate, tablets and servers together.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dev_servers::{DATABASE, MysqlOptions, MysqlServer, ONLY_SHARD, VitessCluster, VitessServer};

use crate::load::{Target, planned};
use crate::measure::{BATCH, Build, CLIENTS, DIRECT, LOCK, Measure, Shape};
use crate::sample::Samples;
use crate::subject::{Place, Subject};
use loadtest::environment::Environment;
use loadtest::failure::{CannotJudge, OrCannotJudge};
use loadtest::tokens::Mint;

/// The arguments of the log, as docs/databases.md names them: what the two kinds of servers do not share is ignored
/// by the other one.
const LOG: &str = "--log-bin=binlog --server-id=1 --binlog-format=ROW --sync-binlog=1 \
     --binlog-cache-size=1M --loose-binlog-annotate-row-events=OFF";

/// The strategies that are measured.
pub const SHAPE_LOADS: [&str; 3] = [BATCH, DIRECT, LOCK];

/// As `make run` starts it.
pub const AS_RUN: Shape =
    Shape { is_mysql: false, is_tcp: false, has_log: false, shards: 0, items: 1 };
/// As docker-compose.yml starts it.
pub const AS_COMPOSE: Shape = Shape { is_mysql: true, has_log: true, ..AS_RUN };
/// With the log alone, for P16.
pub const WITH_LOG: Shape = Shape { has_log: true, ..AS_RUN };

/// Beside Vitess: enough items that each of two shards has some.
const BESIDE_VITESS: Shape = Shape { is_tcp: true, items: 16, ..AS_COMPOSE };

/// The shapes that are measured: each choice alone, then the shipped shape, then the shipped shape without one choice each,
/// then Vitess.
pub const SHAPES: [Shape; 9] = [
    AS_RUN,
    Shape { is_tcp: true, ..AS_RUN },
    WITH_LOG,
    Shape { is_mysql: true, ..AS_RUN },
    AS_COMPOSE,
    Shape { is_tcp: true, ..AS_COMPOSE },
    BESIDE_VITESS,
    Shape { shards: 1, ..BESIDE_VITESS },
    Shape { shards: SHARDS.len(), ..BESIDE_VITESS },
];

/// The shards of items.
const SHARDS: [&str; 2] = ["-80", "80-"];

/// The servers, and a service for each way to them.
#[derive(Default)]
pub struct Shapes {
    subjects: Vec<(Shape, Subject)>,
    /// By whether it is MySQL, and whether it has a log.
    servers: BTreeMap<(bool, bool), MysqlServer>,
    clusters: Vec<VitessCluster>,
}

impl Shapes {
    /// Starts them; `mysqld` is the program of MySQL, and `program` the service's. What was started before a failure stays.
    pub async fn start(
        &mut self,
        mysqld: &Path,
        program: &Path,
        environment: &Environment,
        logs: &Path,
    ) -> Result<(), CannotJudge> {
        let vitess = VitessServer::programs();
        if let Err(missing) = &vitess {
            eprintln!("not measured: {missing}");
        }
        for shape in SHAPES.into_iter().filter(|shape| shape.shards == 0 || vitess.is_ok()) {
            let program = program.to_owned();
            if shape.shards > 0 {
                Box::pin(self.add_vitess(shape, program, environment, logs)).await?;
            } else {
                Box::pin(self.add(shape, mysqld, program, environment, logs)).await?;
            }
        }
        Ok(())
    }

    async fn add(
        &mut self,
        shape: Shape,
        mysqld: &Path,
        program: PathBuf,
        environment: &Environment,
        logs: &Path,
    ) -> Result<(), CannotJudge> {
        let kind = (shape.is_mysql, shape.has_log);
        if let Entry::Vacant(vacant) = self.servers.entry(kind) {
            let mut options = MysqlOptions::temporary().for_long();
            options.program = shape.is_mysql.then(|| mysqld.to_owned());
            let log = shape.has_log.then_some(LOG).into_iter().flat_map(str::split_whitespace);
            options.extra_arguments.extend(log.map(str::to_owned));
            let server = MysqlServer::start(options).await;
            let server = server.or_cannot_judge(format_args!("a database, {shape}"))?;
            eprintln!("{shape}: {}", server.version());
            vacant.insert(server);
        }
        let server = &self.servers[&kind];
        let url = if shape.is_tcp { server.tcp_url() } else { server.socket_url_of(DATABASE) };
        let environment = environment.with("DATABASE_URL", url);
        let purpose = format!("shape{}", self.subjects.len());
        let subject = Subject::start(Build::New, &purpose, program, &environment, logs).await?;
        self.subjects.push((shape, subject));
        Ok(())
    }

    /// Starts Vitess. A service reaches it by vtgate, and the audit reads the servers behind.
    async fn add_vitess(
        &mut self,
        shape: Shape,
        program: PathBuf,
        environment: &Environment,
        logs: &Path,
    ) -> Result<(), CannotJudge> {
        let mut cluster = VitessCluster::start_measured().await.or_cannot_judge(shape)?;
        let mut shards = vec![ONLY_SHARD];
        if shape.shards > 1 {
            let own = environment.with("DATABASE_URL", cluster.url());
            Mint::new(program.clone(), &own).run(&["migrate"]).await?;
            let lone = SHARDS.map(|shard| (shard, 1));
            cluster.add_items(&lone).await.or_cannot_judge(shape)?;
            shards = SHARDS.to_vec();
        }
        let mut ledgers = Vec::new();
        for shard in shards {
            ledgers.push(cluster.primary_url(shard).await.or_cannot_judge(shape)?);
        }
        let settings = [
            ("DATABASE_URL", cluster.url()),
            ("SECKILL_ACCEPT_RISKS", "lossy-failover".to_owned()),
            ("SECKILL_MYSQL_SHARED_QUEUES", shape.shards.to_string()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let name = format!("seckill_bench_vitess{}_{}", shape.shards, std::process::id());
        let place = Place { name: &name, ledgers: &ledgers, settings };
        let mut subject = Subject::start_on(Build::New, place, program, environment, logs).await?;
        subject.generator.services.database = Some(cluster.pids());
        self.subjects.push((shape, subject));
        self.clusters.push(cluster);
        Ok(())
    }

    /// One load of each strategy on each of them; who is first changes from round to round.
    pub async fn measure(&mut self, span: Duration, number: u32) -> Result<Samples, CannotJudge> {
        let mut measured: Samples = (Vec::new(), Vec::new());
        for strategy in SHAPE_LOADS {
            for place in 0..self.subjects.len() {
                let index = (place + number as usize) % self.subjects.len();
                let (shape, subject) = &mut self.subjects[index];
                let closed =
                    subject.on_new_items(shape.items, planned(span), CLIENTS, span).await?;
                let target = Target { strategy: strategy.to_owned(), ..closed };
                let load = subject.generator.fire(&target).await?;
                let measure = Measure::Shape { shape: *shape, strategy };
                let faults = load.broken.iter().map(|fault| format!("{measure}: {fault}"));
                measured.1.extend(faults);
                measured.0.push((measure, load.sample(load.summary.accepted.per_second)));
            }
        }
        Ok(measured)
    }

    /// Ends them.
    pub async fn finish(self) {
        for (_, subject) in self.subjects {
            subject.finish().await;
        }
        for server in self.servers.values() {
            server.stop().await;
        }
        for cluster in &self.clusters {
            cluster.stop().await;
        }
    }
}

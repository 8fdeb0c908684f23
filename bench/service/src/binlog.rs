//! P16: what an order costs on a database with a binary log, beside one on a database without.
//!
//! Two servers are started with the memory of `make run`'s own, and an instance of the service on each.

use std::path::Path;

use dev_servers::{MysqlOptions, MysqlServer};

use crate::measure::Build;
use crate::subject::Subject;
use loadtest::environment::Environment;
use loadtest::failure::{CannotJudge, OrCannotJudge};
use loadtest::tokens::Mint;

/// The arguments of the log, as docs/databases.md names them: what the two kinds of servers do not share is
/// ignored by the other one.
pub const ARGUMENTS: &str = "--log-bin=binlog --server-id=1 --binlog-format=ROW --sync-binlog=1 \
     --binlog-cache-size=1M --loose-binlog-annotate-row-events=OFF";

/// Two databases with a service each.
pub struct Binlog {
    /// Without the log, and with it.
    pub subjects: [Subject; 2],
    servers: [MysqlServer; 2],
}

impl Binlog {
    /// Starts both; `arguments` are those of the log.
    pub async fn start(
        arguments: &str,
        environment: &Environment,
        folder: &Path,
    ) -> Result<Self, CannotJudge> {
        let words = arguments.split_whitespace().map(str::to_owned).collect();
        let (off, without) = one("off", Vec::new(), environment, folder).await?;
        match one("on", words, environment, folder).await {
            Ok((on, with)) => Ok(Self { subjects: [off, on], servers: [without, with] }),
            Err(failure) => {
                off.finish().await;
                Err(failure)
            }
        }
    }

    /// Ends both.
    pub async fn finish(self) {
        for subject in self.subjects {
            subject.finish().await;
        }
        for server in &self.servers {
            server.stop().await;
        }
    }
}

async fn one(
    purpose: &str,
    arguments: Vec<String>,
    environment: &Environment,
    folder: &Path,
) -> Result<(Subject, MysqlServer), CannotJudge> {
    let mut options = MysqlOptions::temporary().for_long();
    options.extra_arguments.extend(arguments);
    let server = MysqlServer::start(options).await.or_cannot_judge("a database for P16")?;
    eprintln!("binary log {purpose}: {}", server.version());
    let environment = environment.on_database(server.url());
    let program = Mint::new(None, &environment).into_program();
    let build = (Build::New, purpose);
    let started = Subject::start(build, program, &environment, &folder.join("logs")).await;
    let mut subject = started?;
    subject.count_database(server.pid());
    Ok((subject, server))
}

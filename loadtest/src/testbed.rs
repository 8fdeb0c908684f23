//! What a comparison or an experiment runs on: the `seckill` program and the shop's servers.

use std::fs;
use std::path::PathBuf;

use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use crate::circumstances::Circumstances;
use crate::drive::Instance;
use crate::environment::Environment;
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::launcher::{Launcher, Service};
use crate::options::{RunOptions, TestbedOptions};
use crate::servers::{self, ANSWER_MAX};
use crate::tokens::seckill_program;

/// The program under test, the servers that it shares with the running shop, and the folder of
/// the report.
pub struct Testbed {
    /// Addresses of the servers, and the shop's secret.
    pub environment: Environment,
    /// Starts further instances of the service on these servers.
    pub launcher: Launcher,
    /// The `seckill` program.
    pub program: PathBuf,
    /// The folder of the report.
    pub out: PathBuf,
    /// Decides every order that is drawn.
    pub seed: u64,
}

impl Testbed {
    /// Finds the program and the servers, and makes the folder of the report.
    pub fn find(options: &TestbedOptions) -> Result<Self, CannotJudge> {
        let out = options.out.clone();
        let environment = Environment::load()?;
        let program = seckill_program(options.seckill.clone());
        fs::create_dir_all(&out).or_cannot_judge(format_args!("cannot make {}", out.display()))?;
        let launcher = Launcher::new(program.clone(), &environment, &out.join("logs"))?;
        let seed = options.seed.unwrap_or_else(rand::random);
        Ok(Self { environment, launcher, program, out, seed })
    }

    /// A connection of the caller's own to the server that has the key, for WATCH.
    pub async fn own_redis(&self, key: &str) -> Result<MultiplexedConnection, CannotJudge> {
        let shared = servers::redis(&self.environment).await?;
        timeout(ANSWER_MAX, shared.own_connection(key))
            .await
            .map_err(|_| CannotJudge::new("Redis does not answer"))?
            .or_cannot_judge("Redis cannot be reached")
    }

    /// Starts two instances on the servers of the shop.
    pub async fn pair(&self, name: &str) -> Result<([Service; 2], Vec<Instance>), CannotJudge> {
        let start = async |number| self.launcher.start(&format!("{name}-{number}"), &[]).await;
        let services = [start(1).await?, start(2).await?];
        let instances = services.iter().map(|service| service.instance.clone()).collect();
        Ok((services, instances))
    }

    /// A load on a new lab item through these instances; the caller says how large it is.
    pub fn load(&self, strategy: &str, instances: &[Instance], seed: u64) -> RunOptions {
        RunOptions {
            strategy: vec![strategy.to_owned()],
            url: instances.iter().map(|instance| instance.url.clone()).collect(),
            seckill: Some(self.program.clone()),
            seed: Some(seed),
            ..RunOptions::default()
        }
    }

    /// Machine, versions and settings, for the report.
    pub async fn circumstances(&self) -> Result<Circumstances, CannotJudge> {
        Circumstances::gather(&self.environment, &self.program, &self.out, Some(self.seed)).await
    }
}

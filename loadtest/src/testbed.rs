//! What a comparison or an experiment runs on: the `seckill` program and the shop's servers.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ledger_audit::writer_of;
use redis::aio::MultiplexedConnection;
use sqlx::mysql::MySqlConnection;
use tokio::time::timeout;

use crate::circumstances::Circumstances;
use crate::environment::Environment;
use crate::failure::CannotJudge;
use crate::launcher::Launcher;
use crate::options::TestbedOptions;
use crate::tokens::Mint;

/// Connecting to the database or to Redis, and one answer of Redis, must end within this.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);

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
        let environment = Environment::load();
        let program = Mint::new(options.seckill.clone(), &environment).into_program();
        fs::create_dir_all(&out)
            .map_err(|error| CannotJudge(format!("cannot make {}: {error}", out.display())))?;
        let launcher = Launcher::new(program.clone(), &environment, &out.join("logs"))?;
        let seed = options.seed.unwrap_or_else(rand::random);
        Ok(Self { environment, launcher, program, out, seed })
    }

    /// A connection to the ledger's database.
    pub async fn database(&self) -> Result<MySqlConnection, CannotJudge> {
        database(&self.environment).await
    }

    /// A connection to the Redis of the gates.
    pub async fn redis(&self) -> Result<MultiplexedConnection, CannotJudge> {
        redis(&self.environment).await
    }

    /// Machine, versions and settings, for the report.
    pub async fn circumstances(&self) -> Result<Circumstances, CannotJudge> {
        Circumstances::gather(&self.environment, &self.program, &self.out, Some(self.seed)).await
    }
}

/// A connection to the database of `DATABASE_URL`. The address is not printed: it holds a password.
pub async fn database(environment: &Environment) -> Result<MySqlConnection, CannotJudge> {
    let url = environment.get("DATABASE_URL").unwrap_or_default();
    timeout(ANSWER_MAX, writer_of(&url))
        .await
        .map_err(|_| CannotJudge("the database does not answer".to_owned()))?
}

/// A connection to the Redis of `REDIS_URL`.
pub async fn redis(environment: &Environment) -> Result<MultiplexedConnection, CannotJudge> {
    redis_at(&environment.get("REDIS_URL").unwrap_or_default()).await
}

/// A connection to the Redis at an address. The address is not printed: it holds a password.
pub async fn redis_at(url: &str) -> Result<MultiplexedConnection, CannotJudge> {
    let client = redis::Client::open(url)
        .map_err(|_| CannotJudge("REDIS_URL is not an address of Redis".to_owned()))?;
    timeout(ANSWER_MAX, client.get_multiplexed_async_connection())
        .await
        .map_err(|_| CannotJudge("Redis does not answer".to_owned()))?
        .map_err(|error| CannotJudge(format!("Redis cannot be reached: {error}")))
}

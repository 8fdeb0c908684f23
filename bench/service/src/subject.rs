//! A build of the service under test: where it answers, its ledger, its items.
//!
//! Without `--beside` it is the shop that runs. With it, both builds are started here alike, each with
//! a database and a Redis prefix of its own on the shop's servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use sqlx::Connection;
use tokio::time::sleep;

use crate::load::{LoadGenerator, Target};
use crate::measure::{Build, Measure};
use crate::processes::{Services, database_of};
use crate::statements::execute;
use crate::tokens::{self, Tokens};
use ledger_audit::{Reader, writer_of};
use loadtest::drive::Instance;
use loadtest::environment::Environment;
use loadtest::failure::CannotJudge;
use loadtest::launcher::{Launcher, Service};
use loadtest::options::Switch;
use loadtest::service::{self, Admin};
use loadtest::tokens::{Mint, seckill_program};

/// Units of an item that all loads of a bench sell: more than they can.
const ITEM_STOCK: i64 = 100_000_000;
/// Id of the first buyer of such an item; each load has the next buyers.
const FIRST_BUYER: i64 = 3_000_000_001;
/// Buyers of one load at most.
const BUYERS_MAX: u32 = 1_000_000;
/// Requests for a new item that are under way at once.
const MAKING_MAX: usize = 32;
/// How long items are made; a load that needs more of them fails.
const MAKING_TIME_MAX: Duration = Duration::from_secs(45);

/// A build of the service.
pub struct Subject {
    pub build: Build,
    pub instances: Vec<Instance>,
    pub generator: LoadGenerator,
    /// Items that many loads sell, by id.
    pub items: Vec<i64>,
    /// What each load reached last time: the peak gives the rates of the open models.
    pub reached: BTreeMap<Measure, f64>,
    /// The next buyer who has not bought yet.
    next_buyer: i64,
    admin: Admin,
    launcher: Launcher,
    settings: Vec<(String, String)>,
    /// The address of its ledger.
    pub database_url: String,
    /// What was started and made here, and has to go.
    service: Option<Service>,
    database: Option<String>,
}

/// The ledger of a service that is started.
pub struct Place<'a> {
    /// Its name, also for keys and logs.
    pub name: &'a str,
    /// The databases with its rows, for the audit.
    pub ledgers: &'a [String],
    /// Settings of the service, `DATABASE_URL` among them; those that every build knows.
    pub settings: Vec<(String, String)>,
}

impl Subject {
    /// The shop that runs. `logs` is for further instances of it.
    pub async fn running(environment: &Environment, logs: &Path) -> Result<Self, CannotJudge> {
        let mut instances = service::instances(&[], environment).await?;
        instances.truncate(1);
        let program = seckill_program(None);
        let launcher = Launcher::new(program.clone(), environment, logs)?;
        let database_url = environment.database_url()?;
        Self::at(Build::New, instances, program, launcher, environment, &[database_url]).await
    }

    async fn at(
        build: Build,
        instances: Vec<Instance>,
        program: PathBuf,
        launcher: Launcher,
        environment: &Environment,
        ledgers: &[String],
    ) -> Result<Self, CannotJudge> {
        let mint = Mint::new(program, environment);
        let admin = Admin::new(instances.clone(), mint.admin().await?);
        let mut readers = Vec::new();
        for url in ledgers {
            readers.push(Reader::connect(url).await?);
        }
        let database_url = ledgers.first().cloned().unwrap_or_default();
        Ok(Self {
            build,
            instances,
            generator: LoadGenerator {
                tokens: Tokens::new(mint),
                readers,
                services: Services {
                    services: None,
                    database: database_process(&database_url).await?.map(|one| vec![one]),
                },
            },
            items: Vec::new(),
            reached: BTreeMap::new(),
            next_buyer: FIRST_BUYER,
            admin,
            launcher,
            settings: Vec::new(),
            database_url,
            service: None,
            database: None,
        })
    }

    /// Starts `program` on a database of its own, whose name has `purpose` in it.
    pub async fn start(
        build: Build,
        purpose: &str,
        program: PathBuf,
        environment: &Environment,
        logs: &Path,
    ) -> Result<Self, CannotJudge> {
        let shop_url = environment.database_url()?;
        // The shop's own account may make databases whose names begin like its own.
        let name = format!("seckill_bench_{}_{purpose}_{}", build.word(), std::process::id());
        let database_url = with_database(&shop_url, &name)?;
        let drop_older = format!("DROP DATABASE IF EXISTS {name}");
        execute(&shop_url, &drop_older).await?;
        execute(&shop_url, &format!("CREATE DATABASE {name} CHARACTER SET utf8mb4")).await?;
        let settings = vec![("DATABASE_URL".to_owned(), database_url.clone())];
        let ledgers = [database_url];
        let place = Place { name: &name, ledgers: &ledgers, settings };
        match Self::start_on(build, place, program, environment, logs).await {
            Ok(subject) => Ok(Self { database: Some(name), ..subject }),
            Err(failure) => {
                // The first failure is told.
                let _ = execute(&shop_url, &drop_older).await;
                Err(failure)
            }
        }
    }

    /// Starts `program` on a ledger that is there.
    pub async fn start_on(
        build: Build,
        place: Place<'_>,
        program: PathBuf,
        environment: &Environment,
        logs: &Path,
    ) -> Result<Self, CannotJudge> {
        let Place { name, ledgers, mut settings } = place;
        let launcher = Launcher::new(program.clone(), environment, logs)?;
        let own = settings
            .iter()
            .fold(environment.clone(), |own, (name, value)| own.with(name, value.clone()));
        Mint::new(program.clone(), &own).run(&["migrate"]).await?;
        settings.push(("SECKILL_REDIS_PREFIX".to_owned(), format!("{name}:")));
        let service = launcher.start(name, &settings).await?;
        let instances = vec![service.instance.clone()];
        let mut subject =
            Self::at(build, instances, program, launcher, environment, ledgers).await?;
        subject.generator.services.services = Some(service.process().into_iter().collect());
        subject.settings = settings;
        subject.service = Some(service);
        Ok(subject)
    }

    /// Makes up to `count` items that many loads sell; says when there are fewer.
    pub async fn stock_up(&mut self, count: u32) -> Result<(), CannotJudge> {
        eprintln!("making {count} items ({} build) ...", self.build.word());
        let making = stream::iter(0..count).map(|_| self.item(ITEM_STOCK));
        let making = making.buffer_unordered(MAKING_MAX).take_until(sleep(MAKING_TIME_MAX));
        let mut items: Vec<i64> = making.try_collect().await?;
        // By id, so that neighbours lie together.
        items.sort_unstable();
        self.items = items;
        if self.items.len() < count as usize {
            eprintln!("only {} items were made in time", self.items.len());
        }
        Ok(())
    }

    /// A new item.
    async fn item(&self, stock: i64) -> Result<i64, CannotJudge> {
        self.admin.create_lab_item("bench", stock, Switch::On).await
    }

    /// A closed load on new items with this stock each, for as many buyers.
    pub async fn on_new_items(
        &self,
        count: usize,
        stock: u32,
        connections: u32,
        span: Duration,
    ) -> Result<Target, CannotJudge> {
        let buyers = (tokens::FIRST_BUYER, stock);
        let stock = i64::from(stock);
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.item(stock).await?);
        }
        Ok(Target::closed(self.instances.clone(), items, stock, connections, buyers, span))
    }

    /// A closed load on the first of the items that many loads sell, for buyers who have bought nothing of them.
    pub fn on_first_items(
        &mut self,
        count: u32,
        requests: u32,
        connections: u32,
        span: Duration,
    ) -> Result<Target, CannotJudge> {
        let items = self.items.get(..count as usize).map(<[i64]>::to_vec);
        let missing = || CannotJudge(format!("{count} items could not be made in time"));
        let items = items.ok_or_else(missing)?;
        let buyers = (self.next_buyer, requests.min(BUYERS_MAX));
        self.next_buyer += i64::from(BUYERS_MAX);
        Ok(Target::closed(self.instances.clone(), items, ITEM_STOCK, connections, buyers, span))
    }

    /// Starts further instances, for a proxy before them.
    pub async fn start_instances(&self, count: u32) -> Result<Vec<Service>, CannotJudge> {
        let mut started = Vec::new();
        for number in 1..=count {
            let name = format!("{}-instance-{number}", self.build.word());
            started.push(self.launcher.start(&name, &self.settings).await?);
        }
        Ok(started)
    }

    /// Stops what was started here and removes its database.
    pub async fn finish(mut self) {
        if let Some(service) = self.service.take() {
            service.stop().await;
        }
        let Some(name) = self.database.take() else { return };
        if let Err(failure) = execute(&self.database_url, &format!("DROP DATABASE {name}")).await {
            eprintln!("the database {name} is still there: {failure}");
        }
    }
}

/// The process of the server, if it says where its process number is written, and runs on this machine.
async fn database_process(database_url: &str) -> Result<Option<u32>, CannotJudge> {
    let mut connection = writer_of(database_url).await?;
    let asked = "SELECT CAST(@@GLOBAL.datadir AS CHAR), CAST(@@GLOBAL.pid_file AS CHAR)";
    let told: Option<(String, String)> =
        sqlx::query_as(asked).fetch_optional(&mut connection).await.unwrap_or_default();
    let _ = connection.close().await;
    Ok(told.and_then(|(folder, file)| database_of(&Path::new(&folder).join(file))))
}

/// Replaces the database of an address.
fn with_database(url: &str, database: &str) -> Result<String, CannotJudge> {
    let unreadable = || CannotJudge::new("DATABASE_URL is not a mysql:// address");
    let (scheme, rest) = url.split_once("://").ok_or_else(unreadable)?;
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    let server = place.rsplit_once('/').map_or(place, |(server, _)| server);
    let options = if options.is_empty() { String::new() } else { format!("?{options}") };
    Ok(format!("{scheme}://{server}/{database}{options}"))
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn the_database_of_an_address_is_replaced() {
        let of = |url: &str| with_database(url, "b").ok();
        assert_eq!(of("mysql://u:p@h:3306/shop").as_deref(), Some("mysql://u:p@h:3306/b"));
        assert_eq!(of("mysql://h").as_deref(), Some("mysql://h/b"));
        assert_eq!(
            of("mysql://u@h1,h2/shop?socket=/run/x/y.sock&ssl-mode=REQUIRED").as_deref(),
            Some("mysql://u@h1,h2/b?socket=/run/x/y.sock&ssl-mode=REQUIRED")
        );
        assert_eq!(of("shop"), None);
    }
}

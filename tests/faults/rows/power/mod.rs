//! The power of the database is cut: it is killed and comes back on what it had flushed, again and again.

pub mod queue;

use forgetful_disk::{ForgetfulDisk, Forgotten, Moment, Survives};

use super::disk::small_server;
use super::failover::Till;
use super::{crash, draws};
use crate::prelude::*;

/// Cuts of a trial for each second that it sells at least, and of a trial of a second.
const CUTS_PER_SECOND: u32 = 10;
const CUTS_FEW: u32 = 2;
/// Cuts of a trial with a mistake.
const CUTS_PLANTED: u32 = 12;
/// Items of one trial, of the strategies that its seed would choose.
const ITEMS: usize = 4;
/// A pace that leaves units for each cut, also on a slow machine.
const SLOW: Pace = Pace { clients: 6, per_second: 12.0 };
/// Units of each item for one cut; a quarter of them is left for afterwards.
const STOCK_PER_CUT: i64 = 60;
/// Purchases of all items between two cuts, at least.
const SOLD_BEFORE_CUT: u64 = 12;
/// The longest random pause before a cut, in milliseconds.
const CUT_AFTER_MS: u64 = 60;
/// Operations on the disk that are let pass before the one at which the power is cut, at most.
const OPERATIONS_MAX: u32 = 6;
/// The power is cut in any case when the disk is idle for so long.
const OPERATION_AFTER: Duration = Duration::from_millis(300);

/// The usual database.
pub const USUAL: Server =
    Server { arguments: &[], is_mysql: false, lies: false, is_planted: false };
/// One with a binary log, as a writer with replicas has one.
pub const BINLOG: Server = Server {
    arguments: &["--log-bin", "--server-id=1", "--binlog-format=ROW", "--sync-binlog=1"],
    ..USUAL
};
/// MySQL with its binary log, which is on by default there.
pub const MYSQL: Server = Server {
    arguments: &["--log-bin", "--server-id=1", "--sync-binlog=1"],
    is_mysql: true,
    ..USUAL
};
/// Planted: the log is written at each COMMIT, and flushed once a second.
pub const LOG_UNFLUSHED: Server =
    Server { arguments: &["--innodb-flush-log-at-trx-commit=2"], ..USUAL };
/// Planted: the binary log is not flushed, and InnoDB relies on it.
pub const BINLOG_UNFLUSHED: Server = Server {
    arguments: &["--log-bin", "--server-id=1", "--binlog-format=ROW", "--sync-binlog=0"],
    ..USUAL
};
/// Planted: the disk answers a flush and does not carry it out.
pub const LIE: Server = Server { lies: true, ..USUAL };

/// Cuts the power of this server again and again, while it sells so.
pub async fn cut(
    testbed: &mut Testbed,
    seed: u64,
    server: Server,
    sells: fn(&mut Plan),
) -> TrialResult {
    with_power(testbed, server, async |testbed, power| {
        let mut plan = power.plan(testbed, seed);
        sells(&mut plan);
        run_trial(testbed, plan, async |testbed, trial| {
            power.cut_often(testbed, trial).await?.proof()
        })
        .await
    })
    .await
}

/// Payments by a provider's messages, beside safe strategies.
pub async fn payments(testbed: &mut Testbed, seed: u64) -> TrialResult {
    with_power(testbed, USUAL, async |testbed, power| {
        let mut plan = power.plan(testbed, seed);
        sell_some(&mut plan);
        let setup = plan.setups[0].clone();
        run_trial(testbed, plan, async |testbed, trial| {
            let till = Till::open(testbed, trial, &setup).await?;
            let total = power.cut_often(testbed, trial).await?;
            let before = till.paid();
            let paid = till.close(&testbed.ledger_url()).await?;
            proven(before > 0, format!("{}; {paid} payments acknowledged", total.proof()?))
        })
        .await
    })
    .await
}

/// A draw whose instance is killed at each step.
pub async fn draw(testbed: &mut Testbed, seed: u64) -> TrialResult {
    with_power(testbed, USUAL, async |testbed, power| {
        let setup = testbed.setup_of_new_ledger();
        draws::drawn(testbed, seed, setup, Some(power)).await
    })
    .await
}

/// At each crash point of an instance.
pub async fn points(testbed: &mut Testbed, seed: u64) -> TrialResult {
    with_power(testbed, USUAL, async |testbed, power| {
        crash::points_of_power(testbed, seed, power).await
    })
    .await
}

/// Sells on a server with a mistake: the audit has to find what it loses.
pub async fn planted(testbed: &mut Testbed, seed: u64, server: Server) -> TrialResult {
    let server = Server { is_planted: true, ..server };
    let mut trial = cut(testbed, seed, server, sell_batches).await?;
    if trial.injections == 0 {
        return Ok(trial);
    }
    let found = trial.broken.first().cloned().unwrap_or_default();
    trial.controls = (u32::from(trial.lost > 0), 1);
    let proof = format!("{}; the audit found {} lost: {found}", trial.proof, trial.lost);
    // It is found, so it is no failure.
    let broken = Vec::new();
    let trial = TrialOutcome { oversold: 0, duplicated: 0, lost: 0, broken, proof, ..trial };
    match trial.controls.0 {
        1 => Ok(trial),
        _ => Err(format!("the audit did not catch it: {}", trial.proof)),
    }
}

/// Sells with safe strategies, beside readers who pay and cancel.
pub fn sell_some(plan: &mut Plan) {
    plan.strategies.truncate(ITEMS);
}

/// Sells in batches of one item each.
pub fn sell_batches(plan: &mut Plan) {
    plan.strategies = vec!["mysql-batch"; ITEMS];
    plan.pace = Pace { clients: 16, ..SLOW };
}

/// Sells in batches with orders of three items.
pub fn sell_carts(plan: &mut Plan) {
    sell_batches(plan);
    plan.lines = 3;
}

/// The database of a trial.
#[derive(Clone, Copy)]
pub struct Server {
    arguments: &'static [&'static str],
    /// Whether it has to be MySQL.
    is_mysql: bool,
    /// Whether its disk answers flushes without carrying them out.
    lies: bool,
    /// Whether something of this is a mistake, so that nothing survives and orders are lost.
    is_planted: bool,
}

/// A trial on such a database; it is left out where there is none.
async fn with_power(
    testbed: &mut Testbed,
    server: Server,
    trial: impl AsyncFnOnce(&mut Testbed, &Power) -> TrialResult,
) -> TrialResult {
    let power = match Power::over_ledger(testbed, server).await? {
        Ok(power) => power,
        Err(why) => return Ok(left_out(&why)),
    };
    let trial = trial(testbed, &power).await;
    // The usual database comes back.
    std::mem::replace(&mut testbed.mysql, power.usual).stop().await;
    trial
}

/// How often a trial cuts the power.
fn cuts_of(testbed: &Testbed) -> u32 {
    match u32::try_from(testbed.sells.as_secs()) {
        Ok(0 | 1) => CUTS_FEW,
        Ok(seconds) => seconds.saturating_mul(CUTS_PER_SECOND),
        Err(_) => CUTS_PER_SECOND,
    }
}

/// What one cut has taken.
#[derive(Clone, Copy)]
pub struct Taken {
    /// Whether it came at an operation on the disk.
    at_operation: bool,
    forgotten: Forgotten,
}

/// What the cuts of a trial have taken.
#[derive(Default)]
pub struct Total {
    cuts: u32,
    /// Cuts that came at an operation on the disk.
    at_operations: u32,
    forgotten: Forgotten,
}

impl Total {
    pub fn add(&mut self, taken: Taken) {
        let Taken { at_operation, forgotten } = taken;
        self.cuts += 1;
        self.at_operations += u32::from(at_operation);
        self.forgotten.steps += forgotten.steps;
        self.forgotten.bytes += forgotten.bytes;
    }

    /// In words; an error where nothing was forgotten.
    pub fn proof(&self) -> Run<String> {
        let Self { cuts, at_operations, forgotten } = self;
        let proof = format!(
            "{cuts} cuts, {at_operations} at a write or flush; {} steps with {} bytes were forgotten",
            forgotten.steps, forgotten.bytes
        );
        proven(forgotten.steps > 0, proof)
    }
}

/// A database on a disk whose power can be cut, instead of the usual one.
pub struct Power {
    disk: ForgetfulDisk,
    server: Server,
    /// Cuts of a trial that has as many as it likes.
    cuts: u32,
    usual: MysqlServer,
}

impl Power {
    /// Makes such a database the ledger of this trial; says why where there is no such server, or no such disk can be
    /// mounted.
    async fn over_ledger(testbed: &mut Testbed, server: Server) -> Run<Result<Self, String>> {
        let folder = testbed.folder().join(format!("power-{:016x}", rand::random::<u64>()));
        let mut options = MysqlOptions::new(folder.join("mysql"));
        if server.is_mysql {
            options = match options.on_mysql() {
                Ok(options) => options,
                Err(error) => return Ok(Err(error.to_string())),
            };
        }
        let small = small_server(&folder, options.program.take(), testbed.mysql.pid());
        options.program = Some(small.said()?);
        options.extra_arguments = server.arguments.iter().map(|word| (*word).to_owned()).collect();
        let mut database = testbed.ledger(options).await?;
        database.stop().await;
        let disk = match ForgetfulDisk::over(&folder.join("mysql/data")) {
            Ok(disk) => disk,
            Err(error) => return Ok(Err(no_disk(&error))),
        };
        database.restart().await.said()?;
        let cuts = if server.is_planted { CUTS_PLANTED } else { cuts_of(testbed) };
        let usual = std::mem::replace(&mut testbed.mysql, database);
        Ok(Ok(Self { disk, server, cuts, usual }))
    }

    /// A slow sale with units for all cuts.
    fn plan(&self, testbed: &Testbed, seed: u64) -> Plan {
        let setup = testbed.setup_of_new_ledger();
        let setup = match self.server.is_planted {
            true => setup.with("SECKILL_ACCEPT_RISKS", "volatile-database"),
            false => setup,
        };
        let mut plan = Plan::new(seed, Wanted::Safe, &setup);
        plan.stock = i64::from(self.cuts) * STOCK_PER_CUT;
        (plan.pace, plan.control) = (SLOW, false);
        plan
    }

    /// Cuts it after some purchases, again and again.
    async fn cut_often(&self, testbed: &mut Testbed, trial: &mut Trial) -> Run<Total> {
        let mut total = Total::default();
        // From here on: without its tables the shop could not sell on, and nobody would need an audit.
        self.disk.lie(self.server.lies);
        for cut in 1..=self.cuts {
            trial.until_sold(SOLD_BEFORE_CUT).await?;
            total.add(self.cut(testbed, trial, cut == self.cuts).await?);
        }
        Ok(total)
    }

    /// Cuts it at any moment or at an operation on its disk, and starts the database again.
    pub async fn cut(&self, testbed: &mut Testbed, trial: &mut Trial, is_last: bool) -> Run<Taken> {
        let moment = match trial.random.random_range(0..4) {
            0 => None,
            1 => Some(Moment::Write),
            2 => Some(Moment::BeforeFlush),
            _ => Some(Moment::AfterFlush),
        };
        trial.wait_a_moment(CUT_AFTER_MS).await;
        if let Some(moment) = moment {
            self.disk.cut_at(moment, trial.random.random_range(0..OPERATIONS_MAX));
            let cut = until("an operation on the disk", OPERATION_AFTER, || {
                std::future::ready(self.disk.is_cut().then_some(()))
            });
            let _idle = cut.await;
        }
        self.cut_now(testbed, trial, is_last).await
    }

    /// Cuts the power unless it is off already. Then it kills the database and starts it again on the flushed bytes.
    pub async fn cut_now(
        &self,
        testbed: &mut Testbed,
        trial: &mut Trial,
        is_last: bool,
    ) -> Run<Taken> {
        let at_operation = self.disk.is_cut();
        self.disk.cut();
        testbed.mysql.kill().await;
        trial.injections += 1;
        let survives = match self.server.is_planted || trial.random.random_bool(0.5) {
            true => Survives::Nothing,
            false => Survives::Some(trial.random.random_range(0..u64::MAX)),
        };
        let forgotten = self.disk.power_on(survives).said()?;
        if is_last {
            trial.fault_ended();
        }
        testbed.mysql.restart().await.said()?;
        Ok(Taken { at_operation, forgotten })
    }
}

fn no_disk(error: &std::io::Error) -> String {
    format!("no disk whose power can be cut can be mounted here: {error}")
}

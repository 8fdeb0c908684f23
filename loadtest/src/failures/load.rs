//! Gates that break by themselves under load, and what saves them: the lock where it belongs, or
//! the arbiter.

use super::stage::Stage;
use super::{Trial, Try};
use crate::drive::Instance;
use crate::failure::CannotJudge;
use crate::options::{RunOptions, Switch};
use crate::run;

/// A wrong gate and the right one.
#[derive(Debug, Clone, Copy)]
pub struct Gates {
    pub wrong: &'static str,
    pub right: &'static str,
    /// How many instances serve it.
    pub instances: usize,
}

/// One load: enough to be caught, short enough to be repeated.
const STOCK: i64 = 40;
const REQUESTS: u32 = 240;
const CONCURRENCY: u32 = 80;
const RETRIES_MAX: u16 = 20;
const SECONDS_MAX: f64 = 60.0;

/// Without the cure: the wrong gate, arbiter off. With it: the right gate, arbiter off, and then
/// the wrong one again with the arbiter on; both must sell exactly the stock.
pub async fn fire(gates: Gates, stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    let instances = &stage.instances[..gates.instances];
    let one = async |strategy, arbiter| one(strategy, arbiter, stage, instances, attempt).await;
    if !attempt.cured {
        return one(gates.wrong, Switch::Off).await;
    }
    let right = one(gates.right, Switch::Off).await?;
    let guarded = one(gates.wrong, Switch::On).await?;
    let detail = format!(
        "{} alone: {}; {} with the arbiter on: {}",
        gates.right, right.detail, gates.wrong, guarded.detail
    );
    Ok(Trial { broken: right.broken || guarded.broken, detail, ..right })
}

async fn one(
    strategy: &str,
    arbiter: Switch,
    stage: &Stage<'_>,
    instances: &[Instance],
    attempt: &Try,
) -> Result<Trial, CannotJudge> {
    let options = RunOptions {
        stock: Some(STOCK),
        buyers: REQUESTS,
        requests: REQUESTS,
        concurrency: CONCURRENCY,
        arbiter,
        retry: RETRIES_MAX,
        seconds_max: Some(SECONDS_MAX),
        ..stage.testbed.load(strategy, instances, attempt.seed)
    };
    let report = Box::pin(run::execute(&options, &stage.testbed.environment)).await?.report;
    let sold = report.audit.units_live;
    if sold < STOCK {
        let codes = report.traffic.outcomes.iter();
        let codes: Vec<String> =
            codes.map(|row| format!("{} {}", row.attempts, row.code)).collect();
        return Err(CannotJudge(format!(
            "{strategy} sold only {sold} of {STOCK} units in {:.0} s ({})",
            report.traffic.seconds,
            codes.join(", ")
        )));
    }
    Ok(Trial { stock: STOCK, sold, broken: sold != STOCK, detail: report.verdict.sentence })
}

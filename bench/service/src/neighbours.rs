//! Neighbours in one ledger: a crowd at one item beside a hundred items that sell as usual.

use std::time::Duration;

use loadtest::failure::CannotJudge;

use crate::bare_load::BareLoad;
use crate::load::{Load, REQUESTS_PER_SECOND};
use crate::measure::Measure;
use crate::sample::{Sample, Samples};
use crate::subject::Subject;

/// Items that sell as usual.
pub const ITEMS: u32 = 100;
/// The buyers who wait for the other item.
const CROWD: u32 = 4_096;
/// How long the crowd goes on at most; it is ended with the load that is measured.
const BESIDE_MAX: Duration = Duration::from_secs(60);
/// Purchases of the hundred for each second, at most.
const HUNDRED_PER_SECOND: f64 = 20_000.0;

/// The hundred alone and beside the crowd.
pub async fn crowd(
    subject: &mut Subject,
    span: Duration,
    alone_first: bool,
) -> Result<Samples, CannotJudge> {
    let mut measured: Samples = (Vec::new(), Vec::new());
    for beside_crowd in [!alone_first, alone_first] {
        let load = hundred(subject, span, beside_crowd, &mut measured.1).await?;
        let p99 = load.sample(load.summary.accepted.from_plan.p99_us as f64);
        measured.0.push((Measure::Hundred { beside_crowd }, p99));
        if beside_crowd {
            let rate = load.sample(load.beside_per_second);
            measured.0.push((Measure::Crowd, rate));
        }
    }
    Ok(measured)
}

/// A hundred clients of H alone and beside a crowd of others.
pub async fn bare_crowd(
    bare: &BareLoad,
    span: Duration,
) -> Result<Vec<(Measure, Sample)>, CannotJudge> {
    let mut measured = Vec::new();
    for beside_crowd in [false, true] {
        let p99_us = bare.p99_us(ITEMS, beside_crowd.then_some(CROWD), span).await?;
        let sample = Sample { value: p99_us, ..Sample::default() };
        measured.push((Measure::BareHundred { beside_crowd }, sample));
    }
    Ok(measured)
}

/// One load on the hundred items, alone or beside the crowd at another item.
async fn hundred(
    subject: &mut Subject,
    span: Duration,
    beside_crowd: bool,
    broken: &mut Vec<String>,
) -> Result<Load, CannotJudge> {
    let requests = (HUNDRED_PER_SECOND * span.as_secs_f64()) as u32;
    let target = subject.on_first_items(ITEMS, requests, ITEMS, span)?;
    if !beside_crowd {
        let load = subject.generator.fire(&target).await?;
        broken.extend(load.broken.iter().cloned());
        return Ok(load);
    }
    let requests = (REQUESTS_PER_SECOND * span.as_secs_f64()) as u32;
    let others = subject.on_new_items(1, requests, CROWD, BESIDE_MAX).await?;
    let aimed = subject.generator.aim(&target).await?;
    let background = subject.generator.start(&others).await?;
    let load = subject.generator.fire_aimed(&target, aimed, Some(&background)).await;
    broken.extend(subject.generator.stop(background).await?);
    let load = load?;
    broken.extend(load.broken.iter().cloned());
    Ok(load)
}

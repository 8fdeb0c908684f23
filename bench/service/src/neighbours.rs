//! Neighbours in one ledger: a crowd at one item beside a hundred items that sell as usual.

use std::time::Duration;

use loadtest::failure::CannotJudge;

use crate::bare_load::BareLoad;
use crate::load::{Load, Target};
use crate::measure::Measure;
use crate::processes::Usage;
use crate::sample::{REQUESTS_PER_SECOND, Sample, Samples};
use crate::subject::{ITEM_STOCK, Subject};
use crate::tokens::FIRST_BUYER;

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
        let p99 = Sample::of(&load, load.p99_us);
        measured.0.push((Measure::Hundred { beside_crowd }, p99));
        if beside_crowd {
            let rate = Sample::of(&load, load.beside_per_second);
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
        let sample = Sample::of_baseline(p99_us, 0, &Usage::default());
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
    let instances = subject.instances.clone();
    let items = subject.first_items(ITEMS)?;
    let requests = (HUNDRED_PER_SECOND * span.as_secs_f64()) as u32;
    let buyers = subject.new_buyers(requests);
    let target = Target::closed(&instances, &items, ITEM_STOCK, ITEMS, buyers, span);
    if !beside_crowd {
        let load = subject.generator.fire(&target).await?;
        broken.extend(load.broken.iter().cloned());
        return Ok(load);
    }
    let requests = (REQUESTS_PER_SECOND * span.as_secs_f64()) as u32;
    let stock = i64::from(requests);
    let items = [subject.item(stock).await?];
    let buyers = (FIRST_BUYER, requests);
    let others = Target::closed(&instances, &items, stock, CROWD, buyers, BESIDE_MAX);
    let aimed = subject.generator.aim(&target).await?;
    let background = subject.generator.start(&others).await?;
    let load = subject.generator.fire_aimed(&target, aimed, Some(&background)).await;
    broken.extend(subject.generator.stop(background).await?.1);
    let load = load?;
    broken.extend(load.broken.iter().cloned());
    Ok(load)
}

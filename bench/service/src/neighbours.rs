//! Neighbours in one ledger: a crowd at one item, or an item whose orders always fail, beside a hundred
//! items that sell as usual.

use std::time::Duration;

use loadtest::failure::CannotJudge;

use crate::bare_load::BareLoad;
use crate::load::{Load, Target};
use crate::measure::{CLIENTS, Measure};
use crate::processes::Usage;
use crate::sample::{REQUESTS_PER_SECOND, Sample, Samples};
use crate::subject::{ITEM_STOCK, Subject};
use crate::tokens::FIRST_BUYER;

/// Items that sell as usual.
pub const ITEMS: u32 = 100;
/// The buyers who wait for the other item.
const CROWD: u32 = 4_096;
/// The buyers of the item whose orders fail: more than its share of all.
const POISONED: u32 = 4;
/// How long the neighbour goes on at most; it is ended with the load that is measured.
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
        let target = Front { connections: ITEMS, draws_items: false };
        let neighbour = beside_crowd.then_some(CROWD);
        let load = beside(subject, span, &target, neighbour, None, &mut measured.1).await?;
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

/// The good items alone and beside one whose orders the ledger never takes.
pub async fn poison(
    subject: &mut Subject,
    span: Duration,
    alone_first: bool,
) -> Result<Samples, CannotJudge> {
    // Made first, so that both loads have the trigger.
    let item = subject.item(i64::from(POISONED)).await?;
    subject.execute("DROP TRIGGER IF EXISTS bench_poison").await?;
    let trigger = format!(
        "CREATE TRIGGER bench_poison BEFORE INSERT ON orders FOR EACH ROW \
         IF NEW.item_id = {item} THEN SIGNAL SQLSTATE '45000'; END IF"
    );
    subject.execute(&trigger).await?;
    let measured = poisoned(subject, span, alone_first, item).await;
    subject.execute("DROP TRIGGER bench_poison").await?;
    measured
}

async fn poisoned(
    subject: &mut Subject,
    span: Duration,
    alone_first: bool,
    item: i64,
) -> Result<Samples, CannotJudge> {
    let mut measured: Samples = (Vec::new(), Vec::new());
    for beside_poison in [!alone_first, alone_first] {
        let target = Front { connections: CLIENTS, draws_items: true };
        let neighbour = beside_poison.then_some(POISONED);
        let load = beside(subject, span, &target, neighbour, Some(item), &mut measured.1).await?;
        let rate = Sample::of(&load, load.accepted_per_second);
        measured.0.push((Measure::Good { beside_poison }, rate));
        if beside_poison {
            let count = load.not_accepted.values().sum::<u64>() as f64;
            measured.0.push((Measure::GoodNotAccepted, Sample::of(&load, count)));
        }
    }
    Ok(measured)
}

/// The buyers of the hundred items.
struct Front {
    connections: u32,
    draws_items: bool,
}

/// One load on the hundred items, beside `neighbour` connections at another item, if any.
async fn beside(
    subject: &mut Subject,
    span: Duration,
    front: &Front,
    neighbour: Option<u32>,
    item: Option<i64>,
    broken: &mut Vec<String>,
) -> Result<Load, CannotJudge> {
    let instances = subject.instances.clone();
    let items = subject.first_items(ITEMS)?;
    let requests = (HUNDRED_PER_SECOND * span.as_secs_f64()) as u32;
    let buyers = subject.new_buyers(requests);
    let target = Target {
        draws_items: front.draws_items,
        ..Target::closed(&instances, &items, ITEM_STOCK, front.connections, buyers, span)
    };
    let Some(connections) = neighbour else {
        let load = subject.generator.fire(&target).await?;
        broken.extend(load.broken.iter().cloned());
        return Ok(load);
    };
    let requests = (REQUESTS_PER_SECOND * span.as_secs_f64()) as u32;
    let stock = i64::from(requests);
    let (item, stock) = match item {
        Some(item) => (item, i64::from(POISONED)),
        None => (subject.item(stock).await?, stock),
    };
    let items = [item];
    let buyers = (FIRST_BUYER, requests);
    let others = Target::closed(&instances, &items, stock, connections, buyers, BESIDE_MAX);
    let aimed = subject.generator.aim(&target).await?;
    let background = subject.generator.start(&others).await?;
    let load = subject.generator.fire_aimed(&target, aimed, Some(&background)).await;
    broken.extend(subject.generator.stop(background).await?.1);
    let load = load?;
    broken.extend(load.broken.iter().cloned());
    Ok(load)
}

//! P17, the opening: ten thousand buyers connect to a service that has just started, all in the same second, and each buys
//! as soon as it is connected. Then the same connections buy once more, and at last 1,024 connections that were made before
//! show the peak.

use std::time::Duration;

use loadtest::drive::Instance;
use loadtest::failure::CannotJudge;
use loadtest::process::resident_mib_max;

use crate::bare_load::BareLoad;
use crate::load::{Target, planned};
use crate::measure::{CLIENTS_MAX, Measure, Opening};
use crate::sample::{Sample, Samples};
use crate::subject::Subject;

/// The connections of the peak.
const WARM: u32 = 1_024;

/// The opening of an instance of its own, which has used no memory yet.
pub async fn of_service(subject: &mut Subject, span: Duration) -> Result<Samples, CannotJudge> {
    let mut started = subject.start_instances(1).await?;
    let service = started.pop().ok_or_else(|| CannotJudge::new("no instance was started"))?;
    let process = service.process();
    let own = subject.generator.services.services.replace(process.into_iter().collect());
    let measured = loads(subject, &service.instance, process, span).await;
    subject.generator.services.services = own;
    service.stop().await;
    measured
}

async fn loads(
    subject: &mut Subject,
    instance: &Instance,
    process: Option<u32>,
    span: Duration,
) -> Result<Samples, CannotJudge> {
    let mut measured: Samples = (Vec::new(), Vec::new());
    for (connections, connects_first) in [(CLIENTS_MAX, false), (WARM, true)] {
        let closed = subject.on_new_items(1, planned(2 * span), connections, 2 * span).await?;
        let target = Target { instances: vec![instance.clone()], connects_first, ..closed };
        let load = subject.generator.fire(&target).await?;
        measured.1.extend(load.broken.iter().cloned());
        let [first, second] = load.halves_per_second;
        let mut add = |part, value| {
            let sample = load.sample(value);
            measured.0.push((Measure::Opening(part), sample));
        };
        if connects_first {
            add(Opening::Peak, second);
            continue;
        }
        add(Opening::First, first);
        add(Opening::Second, second);
        add(Opening::NotAccepted, load.cost.not_accepted.values().sum::<u64>() as f64);
        if let Some(mib) = process.and_then(resident_mib_max) {
            add(Opening::Memory, mib);
        }
    }
    Ok(measured)
}

/// The opening of an H of its own.
pub async fn of_bare(
    bare: &BareLoad,
    span: Duration,
) -> Result<Vec<(Measure, Sample)>, CannotJudge> {
    let [first, _] = bare.halves(CLIENTS_MAX, false, 2 * span).await?;
    let [_, peak] = bare.halves(WARM, true, 2 * span).await?;
    let samples = [(Opening::First, first), (Opening::Peak, peak)];
    let sample = |value| Sample { value, ..Sample::default() };
    Ok(samples.map(|(part, value)| (Measure::BareOpening(part), sample(value))).into())
}

//! The figures of one round.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::measure::{Build, Measure};
use crate::processes::Usage;

/// What one step measured, and the verdicts that were not clean.
pub type Samples = (Vec<(Measure, Sample)>, Vec<String>);

/// One figure, and what it cost.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Sample {
    /// In the unit of its measure.
    pub value: f64,
    /// Processor time per order or request by program, in microseconds.
    pub cpu_us: BTreeMap<&'static str, f64>,
    /// H's p99 just before, in microseconds: the machine's own noise.
    pub noise_us: Option<f64>,
    /// Answers that were no order, by code.
    pub not_accepted: BTreeMap<String, u64>,
}

impl Sample {
    /// Of a baseline that did something `operations` times.
    pub fn of_baseline(value: f64, operations: u64, used: &Usage) -> Self {
        Self { value, cpu_us: used.us_for_each(operations), ..Self::default() }
    }

    /// The middle of two samples of a baseline.
    pub fn middle(&self, after: &Self) -> Self {
        let cpu_us = self.cpu_us.iter().filter_map(|(program, used)| {
            Some((*program, f64::midpoint(*used, *after.cpu_us.get(program)?)))
        });
        Sample {
            value: f64::midpoint(self.value, after.value),
            cpu_us: cpu_us.collect(),
            ..Sample::default()
        }
    }
}

/// What one round found.
#[derive(Debug, Default, Serialize)]
pub struct Round {
    /// One sample a measure and build.
    pub samples: BTreeMap<Measure, BTreeMap<Build, Sample>>,
    /// H just before and just after a measure that is compared with it, in the middle: what else the
    /// machine does changes from second to second.
    pub bare_beside: BTreeMap<Measure, Sample>,
    /// The 99th percentile of a write and flush on the disk of the report before the round, in microseconds.
    pub flush_us_p99: f64,
    /// Verdicts that were not clean, with the measure.
    pub broken: Vec<String>,
    /// The noise before the step that is measured.
    #[serde(skip)]
    pub noise_us: Option<f64>,
}

impl Round {
    pub fn add(&mut self, measure: &Measure, build: Build, sample: Sample) {
        eprintln!("  {measure}, {}: {:.0} {}", build.word(), sample.value, measure.unit());
        let sample = Sample { noise_us: self.noise_us, ..sample };
        self.samples.entry(measure.clone()).or_default().insert(build, sample);
    }

    /// What was measured of a build; a baseline is every build's.
    pub fn sample(&self, measure: &Measure, build: Build) -> Option<&Sample> {
        self.samples.get(measure)?.get(&build)
    }
}

//! The rounds summed up: medians and spreads, new beside old, and the ratios with their goals.

use std::collections::{BTreeMap, BTreeSet};

use loadtest::spread::Spread;
use serde::Serialize;

use crate::goals::{self, Goal, View};
use crate::measure::{Build, Measure};
use crate::sample::{Round, Sample};

/// All figures of a bench.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Each measure of each build over the rounds.
    pub lines: Vec<Line>,
    /// The ratios of the design, as far as they were measured.
    pub ratios: Vec<Ratio>,
}

/// One measure of one build.
#[derive(Debug, Serialize)]
pub struct Line {
    pub measure: Measure,
    pub build: Build,
    pub value: Spread,
    /// Processor time per order or request by program, in microseconds.
    pub cpu_us: BTreeMap<&'static str, Spread>,
    /// H's p99 just before, in microseconds.
    pub noise_us: Spread,
    /// New over old, made in each round: the value, and the processor time of each program.
    pub over_old: Option<OverOld>,
}

/// The new build's figures over the old one's.
#[derive(Debug, Serialize)]
pub struct OverOld {
    pub value: Spread,
    pub cpu_us: BTreeMap<&'static str, Spread>,
}

/// One ratio and what was reached: it is made in each round, then its median is taken.
#[derive(Debug, Serialize)]
pub struct Ratio {
    #[serde(flatten)]
    pub goal: Goal,
    /// What the build under test reached.
    pub reached: Spread,
    /// Whether it reaches the goal; `None` where there is none.
    pub met: Option<bool>,
    /// What the build of `--beside` reached.
    pub old: Option<Spread>,
    /// New over old.
    pub over_old: Option<Spread>,
}

impl Figures {
    /// Makes the figures of some rounds.
    pub fn of(rounds: &[Round]) -> Self {
        let keys: BTreeSet<(&Measure, Build)> = rounds
            .iter()
            .flat_map(|round| &round.samples)
            .flat_map(|(measure, builds)| builds.keys().map(move |build| (measure, *build)))
            .collect();
        let lines = keys.into_iter().map(|(measure, build)| Line::of(rounds, measure, build));
        let ratios = goals::GOALS.iter().filter_map(|goal| Ratio::of(goal, rounds));
        Self { lines: lines.collect(), ratios: ratios.collect() }
    }
}

impl Line {
    fn of(rounds: &[Round], measure: &Measure, build: Build) -> Self {
        let samples: Vec<&Sample> =
            rounds.iter().filter_map(|round| round.sample(measure, build)).collect();
        let spread = |of: fn(&Sample) -> f64| Spread::of(samples.iter().map(|sample| of(sample)));
        let programs: BTreeSet<&'static str> =
            samples.iter().flat_map(|sample| sample.cpu_us.keys().copied()).collect();
        let used = |program: &'static str| {
            Spread::of(samples.iter().filter_map(|sample| sample.cpu_us.get(program).copied()))
        };
        let cpu_us = programs.iter().map(|program| (*program, used(program))).collect();
        let over_old = (build == Build::New).then(|| OverOld::of(rounds, measure, &programs));
        Self {
            measure: measure.clone(),
            build,
            value: spread(|sample| sample.value),
            cpu_us,
            noise_us: spread(|sample| sample.noise_us.unwrap_or(0.0)),
            over_old: over_old.flatten(),
        }
    }
}

impl OverOld {
    /// `None` without an older build.
    fn of(rounds: &[Round], measure: &Measure, programs: &BTreeSet<&'static str>) -> Option<Self> {
        let pairs: Vec<(&Sample, &Sample)> = rounds
            .iter()
            .filter_map(|round| {
                Some((round.sample(measure, Build::New)?, round.sample(measure, Build::Old)?))
            })
            .collect();
        let over = |of: &dyn Fn(&Sample) -> Option<f64>| {
            Spread::of(pairs.iter().filter_map(|(new, old)| Some(of(new)? / of(old)?)))
        };
        let cpu_us = programs.iter().map(|program| {
            let used = |sample: &Sample| sample.cpu_us.get(program).copied();
            (*program, over(&used))
        });
        let cpu_us = cpu_us.collect();
        (!pairs.is_empty()).then(|| Self { value: over(&|sample| Some(sample.value)), cpu_us })
    }
}

impl Ratio {
    /// `None` where nothing of it was measured.
    fn of(goal: &Goal, rounds: &[Round]) -> Option<Self> {
        let of = |round, build| (goal.of)(&View { round, build });
        let reached: Vec<f64> = rounds.iter().filter_map(|round| of(round, Build::New)).collect();
        let old: Vec<f64> = rounds.iter().filter_map(|round| of(round, Build::Old)).collect();
        let over_old =
            rounds.iter().filter_map(|round| Some(of(round, Build::New)? / of(round, Build::Old)?));
        let over_old = Spread::of(over_old);
        if reached.is_empty() {
            return None;
        }
        let reached = Spread::of(reached);
        let has_old = !old.is_empty();
        Some(Self {
            met: goal.is_met(reached),
            goal: goal.clone(),
            reached,
            old: has_old.then(|| Spread::of(old)),
            over_old: has_old.then_some(over_old),
        })
    }
}

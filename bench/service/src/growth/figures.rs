//! The rounds of each point, summed up.

use std::collections::BTreeMap;

use serde::Serialize;

use super::points::Point;
use crate::load::Load;
use loadtest::spread::Spread;

/// What the rounds found at one point: middle, lowest and highest.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    pub point: Point,
    pub accepted_per_second: Spread,
    pub p50_us: Spread,
    pub p99_us: Spread,
    /// Orders of a mean batch; 0 when no service told.
    pub batch: Spread,
    /// Processor time per accepted order by program, in microseconds.
    pub cpu_us: BTreeMap<&'static str, Spread>,
    /// The part of the machine that other programs took, 0 to 1.
    pub others: Spread,
    /// Answers that were no order as a share of all, 0 to 1.
    pub not_accepted: Spread,
}

impl Figure {
    /// Sums up the loads of one point.
    pub fn of(point: Point, loads: &[Load]) -> Self {
        let spread = |of: fn(&Load) -> f64| Spread::of(loads.iter().map(of));
        let mut cpu_us: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for (program, used) in loads.iter().flat_map(|load| &load.cpu_us) {
            cpu_us.entry(program).or_default().push(*used);
        }
        Self {
            point,
            accepted_per_second: spread(|load| load.accepted_per_second),
            p50_us: spread(|load| load.p50_us),
            p99_us: spread(|load| load.p99_us),
            batch: Spread::of(loads.iter().filter_map(|load| load.batch)),
            cpu_us: cpu_us.into_iter().map(|(name, used)| (name, Spread::of(used))).collect(),
            others: spread(|load| load.others),
            not_accepted: spread(Load::not_accepted_share),
        }
    }
}

impl Load {
    /// Answers that were no order as a share of all answers.
    fn not_accepted_share(&self) -> f64 {
        let not: u64 = self.not_accepted.values().sum();
        not as f64 / (not + self.accepted).max(1) as f64
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::points::Curve;
    use super::*;
    use crate::work::Counters;

    /// A load with these figures.
    pub fn load(accepted_per_second: f64, service_us: f64) -> Load {
        Load {
            accepted: 900,
            accepted_per_second,
            refused: 0,
            refused_per_second: 0.0,
            p50_us: 1e6 / accepted_per_second,
            p99_us: 3e6 / accepted_per_second,
            not_accepted: BTreeMap::from([("overloaded".to_owned(), 100)]),
            batch: Some(64.0),
            work: Counters::default(),
            cpu_us: BTreeMap::from([("service", service_us)]),
            machine: 0.95,
            others: 0.01,
            beside_per_second: 0.0,
            halves_per_second: [accepted_per_second; 2],
            broken: Vec::new(),
        }
    }

    #[test]
    fn a_figure_is_the_middle_and_the_ends_of_its_rounds() {
        let point = Curve::Connections.points(1)[0];
        let figure = Figure::of(point, &[load(100.0, 40.0), load(300.0, 60.0), load(200.0, 50.0)]);
        let Spread { min, median, max } = figure.accepted_per_second;
        assert_eq!((min, median, max), (100.0, 200.0, 300.0));
        assert_eq!(figure.cpu_us["service"].median, 50.0);
        assert!((figure.not_accepted.median - 0.1).abs() < 1e-9);
    }
}

//! The ratios of the design with their goals.

use loadtest::spread::Spread;
use serde::Serialize;

use crate::measure::{
    BATCH, Build, CLIENTS, CLIENTS_FEW, CLIENTS_MANY, DIRECT, LOCK, Measure, Opening, Shape,
};
use crate::processes::{BARE, DATABASE, SERVICE};
use crate::sample::{Round, Sample};
use crate::shapes::{AS_COMPOSE, AS_RUN, WITH_LOG};
use Bound::{AtLeast, AtMost};

/// A ratio, and what it is to reach.
#[derive(Debug, Clone, Serialize)]
pub struct Goal {
    /// `P1` to `P18`, with what tells several of one number apart; or a word.
    pub id: &'static str,
    /// What is divided by what.
    pub what: &'static str,
    /// What is to be reached.
    pub goal: Bound,
    /// The ratio of one build in one round.
    #[serde(skip)]
    pub of: fn(&View<'_>) -> Option<f64>,
}

/// What a ratio is to reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Its median is to be as high.
    AtLeast(f64),
    /// Its median is to be as low.
    AtMost(f64),
    /// In no round anything.
    None,
    /// No goal: it is shown.
    Shown,
}

/// One build in one round, as a ratio sees it.
pub struct View<'a> {
    pub round: &'a Round,
    pub build: Build,
}

impl View<'_> {
    /// The value of a measure of this build, or of a baseline.
    pub fn value(&self, measure: &Measure) -> Option<f64> {
        let build = if measure.is_baseline() { Build::Baseline } else { self.build };
        self.round.sample(measure, build).map(|sample| sample.value)
    }

    /// One value over another.
    pub fn over(&self, above: &Measure, below: &Measure) -> Option<f64> {
        Some(self.value(above)? / self.value(below)?)
    }

    /// Processor time of some programs for one order or request of a measure.
    pub fn cpu_us(&self, measure: &Measure, programs: &[&str]) -> Option<f64> {
        let sample = self.round.sample(measure, self.build)?;
        Some(programs.iter().filter_map(|program| sample.cpu_us.get(program)).sum())
    }

    /// H just before and after a measure.
    pub fn bare_beside(&self, measure: &Measure) -> Option<&Sample> {
        self.round.bare_beside.get(measure)
    }
}

impl Goal {
    const fn new(
        id: &'static str,
        what: &'static str,
        goal: Bound,
        of: fn(&View<'_>) -> Option<f64>,
    ) -> Self {
        Self { id, what, goal, of }
    }

    /// Whether it is reached; `None` without a goal.
    pub fn is_met(&self, reached: Spread) -> Option<bool> {
        match self.goal {
            AtLeast(goal) => Some(reached.median >= goal),
            // Nothing takes no time: zero says that it was not measured.
            AtMost(goal) => Some(reached.median > 0.0 && reached.median <= goal),
            Bound::None => Some(reached.max == 0.0),
            Bound::Shown => None,
        }
    }
}

/// In the order of the report.
pub const GOALS: &[Goal] = &[
    Goal::new("P1", "refusals/s once sold out / H", AtLeast(0.90), |view| {
        Some(view.value(&Measure::Refusals)? / view.bare_beside(&Measure::Refusals)?.value)
    }),
    Goal::new("P1 time", "processor time, H / a refusal", AtLeast(0.85), |view| {
        let bare = view.bare_beside(&Measure::Refusals)?.cpu_us.get(BARE)?;
        Some(bare / view.cpu_us(&Measure::Refusals, &[SERVICE])?)
    }),
    Goal::new("P2c", "microseconds of the service for one order, one item", AtMost(22.0), |view| {
        view.cpu_us(&Measure::peak(), &[SERVICE])
    }),
    Goal::new("P2c database", "microseconds of the database", AtMost(20.0), |view| {
        view.cpu_us(&Measure::peak(), &[DATABASE])
    }),
    Goal::new("P4", "4,096 clients / 64", AtLeast(1.0), |view| {
        let clients = |clients| Measure::orders(BATCH, clients);
        view.over(&clients(CLIENTS_MANY), &clients(CLIENTS_FEW))
    }),
    Goal::new("P5", "lock-redis / mysql-batch, one item, 256 clients", AtLeast(0.65), |view| {
        view.over(&Measure::orders(LOCK, CLIENTS), &Measure::peak())
    }),
    Goal::new("P7", "goodput at 5x offered / peak", AtLeast(0.95), |view| {
        view.over(&Measure::Overload, &Measure::peak())
    }),
    Goal::new("P8", "p99 at 70 % of peak / (2 fsync p99 + H's p99)", AtMost(3.0), |view| {
        let floor = 2.0 * view.round.flush_us_p99 + view.value(&Measure::BareP99)?;
        Some(view.value(&Measure::ComfortP99)? / floor)
    }),
    Goal::new("P10 10", "orders/s over 10 items / over one", AtLeast(1.0), |view| items(view, 10)),
    Goal::new("P10 100", "over 100 items / over one", AtLeast(1.0), |view| items(view, 100)),
    Goal::new("P10 1,000", "over 1,000 items / over one", AtLeast(0.9), |view| items(view, 1_000)),
    Goal::new("P10 10,000", "over 10,000 items / over one", AtLeast(0.7), |view| {
        items(view, 10_000)
    }),
    Goal::new("P11", "four instances behind HAProxy / one", AtLeast(0.9), |view| {
        let instances = |instances| Measure::Instances { instances };
        view.over(&instances(4), &instances(1))
    }),
    Goal::new("P12", "p50 of a lone order, mysql-atomic / by hand", AtMost(1.15), |view| {
        view.over(&Measure::Lone { strategy: DIRECT }, &Measure::ByHand)
    }),
    Goal::new("P12 batch", "p50 of a lone order, mysql-batch / by hand", AtMost(1.15), |view| {
        view.over(&Measure::Lone { strategy: BATCH }, &Measure::ByHand)
    }),
    Goal::new("P14 64", "mysql-atomic, 64 clients / T", AtLeast(0.65), |view| {
        view.over(&Measure::orders(DIRECT, 64), &Measure::PerOrder)
    }),
    Goal::new("P14 256", "mysql-atomic, 256 clients / T", AtLeast(0.65), |view| {
        view.over(&Measure::orders(DIRECT, CLIENTS), &Measure::PerOrder)
    }),
    Goal::new(
        "P15",
        "orders/s on a ledger with older orders / an empty one",
        AtLeast(0.90),
        |view| view.over(&Measure::Older { filled: true }, &Measure::Older { filled: false }),
    ),
    Goal::new(
        "P15 time",
        "processor time, service + database, of these orders",
        AtMost(1.10),
        |view| {
            let used = |filled| view.cpu_us(&Measure::Older { filled }, &[SERVICE, DATABASE]);
            Some(used(true)? / used(false)?)
        },
    ),
    Goal::new("P16", "orders/s with a binary log / without", AtLeast(0.8), |view| {
        shapes(view, WITH_LOG)
    }),
    Goal::new("shipped", "as compose starts it / as make run does", Bound::Shown, |view| {
        shapes(view, AS_COMPOSE)
    }),
    Goal::new(
        "P17",
        "10,000 buyers who connect at once / 1,024 connections",
        AtLeast(0.8),
        |view| opening(view, Opening::First),
    ),
    Goal::new("P17 next", "their next purchases / 1,024 connections", Bound::Shown, |view| {
        opening(view, Opening::Second)
    }),
    Goal::new("P17 of H", "P17 of the bare handler", Bound::Shown, |view| {
        let [first, peak] = [Opening::First, Opening::Peak].map(Measure::BareOpening);
        view.over(&first, &peak)
    }),
    Goal::new("P17 memory", "MiB of the service for them", AtMost(400.0), |view| {
        view.value(&Measure::Opening(Opening::Memory))
    }),
    Goal::new("P17 refused", "of these purchases, not accepted", Bound::None, |view| {
        view.value(&Measure::Opening(Opening::NotAccepted))
    }),
    Goal::new(
        "P18",
        "p99 of 100 buyers beside 4,096 of another item / alone",
        AtMost(3.0),
        |view| {
            let hundred = |beside_crowd| Measure::Hundred { beside_crowd };
            view.over(&hundred(true), &hundred(false))
        },
    ),
    Goal::new("P18 of H", "P18 of the bare handler", Bound::Shown, |view| {
        let hundred = |beside_crowd| Measure::BareHundred { beside_crowd };
        view.over(&hundred(true), &hundred(false))
    }),
];

fn shapes(view: &View<'_>, shape: Shape) -> Option<f64> {
    let of = |shape| Measure::Shape { shape, strategy: BATCH };
    view.over(&of(shape), &of(AS_RUN))
}

fn opening(view: &View<'_>, part: Opening) -> Option<f64> {
    view.over(&Measure::Opening(part), &Measure::Opening(Opening::Peak))
}

fn items(view: &View<'_>, items: u32) -> Option<f64> {
    view.over(&Measure::Items { items }, &Measure::peak())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::figures::Figures;
    use crate::measure::Build;
    use crate::processes::GENERATOR;
    use crate::sample::{Round, Sample};

    fn sample(value: f64, cpu_us: &[(&'static str, f64)]) -> Sample {
        Sample { value, cpu_us: cpu_us.iter().copied().collect(), ..Sample::default() }
    }

    /// A round in which the machine is `pace` times as fast as in another one.
    fn round(pace: f64) -> Round {
        let mut round = Round::default();
        let mut add = |measure: Measure, build, value: f64, service: f64| {
            let used = [(SERVICE, service), (DATABASE, 20.0), (GENERATOR, 11.0)];
            round.samples.entry(measure).or_default().insert(build, sample(value * pace, &used));
        };
        for (build, rate, service) in [(Build::New, 30_000.0, 40.0), (Build::Old, 15_000.0, 80.0)] {
            add(Measure::peak(), build, rate, service);
            add(Measure::Refusals, build, 1.5 * rate, service / 2.0);
            add(Measure::orders(DIRECT, 64), build, rate / 10.0, 100.0);
        }
        add(Measure::PerOrder, Build::Baseline, 5_000.0, 0.0);
        let bare = sample(50_000.0 * pace, &[(BARE, 18.0), (GENERATOR, 11.0)]);
        round.bare_beside = BTreeMap::from([(Measure::Refusals, bare)]);
        round
    }

    fn ratio<'a>(figures: &'a Figures, id: &str) -> &'a crate::figures::Ratio {
        let mut ratios = figures.ratios.iter();
        ratios.find(|ratio| ratio.goal.id == id).unwrap_or_else(|| panic!("{id} is missing"))
    }

    #[test]
    fn a_ratio_is_made_in_each_round_and_not_of_medians() {
        let figures = Figures::of(&[round(1.0), round(0.5), round(3.0)]);
        let p1 = ratio(&figures, "P1");
        assert_eq!((p1.reached.min, p1.reached.max), (0.9, 0.9), "the machine's pace cancels out");
        assert_eq!((p1.met, p1.old.map(|old| old.median)), (Some(true), Some(0.45)));
        assert_eq!(p1.over_old.map(|over| over.median), Some(2.0));
        // A baseline is the same for both builds.
        let p14 = ratio(&figures, "P14 64");
        assert_eq!((p14.reached.median, p14.old.map(|old| old.median)), (0.6, Some(0.3)));
        let p2c = ratio(&figures, "P2c");
        assert_eq!((p2c.reached.median, p2c.met), (40.0, Some(false)));
        let p1 = ratio(&figures, "P1 time");
        assert_eq!((p1.reached.median, p1.met), (0.9, Some(true)));
    }

    /// A load without an accepted order has no latency, and so none that is short enough.
    #[test]
    fn what_took_no_time_reaches_no_goal() {
        let lone = GOALS.iter().find(|goal| goal.id == "P12").expect("a goal");
        assert_eq!(lone.is_met(Spread::of([0.0, 0.0])), Some(false));
        assert_eq!(lone.is_met(Spread::of([f64::NAN])), Some(false));
        assert_eq!(lone.is_met(Spread::of([1.1])), Some(true));
    }

    #[test]
    fn one_purchase_that_is_not_accepted_is_too_many() {
        let refused = GOALS.iter().find(|goal| goal.id == "P17 refused").expect("a goal");
        assert_eq!(refused.is_met(Spread::of([0.0, 0.0, 1.0])), Some(false));
        assert_eq!(refused.is_met(Spread::of([0.0, 0.0])), Some(true));
    }
}

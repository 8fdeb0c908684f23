//! The steps of a round, and how long they take.

use std::time::Duration;

use crate::measure::{
    BATCH, CLIENTS_FEW, CLIENTS_MANY, CLIENTS_MAX, CLIENTS_OF_STRATEGIES, DIRECT, INSTANCES, ITEMS,
    Measure, Opening,
};
use crate::neighbours;
use crate::shapes::{SHAPE_LOADS, SHAPES};

/// Rounds without an option: with them, what counts takes five minutes.
pub const ROUNDS: u32 = 3;
/// The strategies that `--strategies` measures when it names none.
pub const STRATEGIES: &str =
    "mysql-atomic,mysql-for-update,mysql-version,redis-watch,redis-lua,lock-redis,mysql-batch";
/// How long H is asked before each step, for the machine's own noise.
pub const NOISE_SPAN: Duration = Duration::from_millis(250);
/// What a load takes beside its span: an item, connections, the audit.
const BESIDE_A_LOAD: Duration = Duration::from_millis(900);
/// What a load for the noise takes beside its span.
const BESIDE_NOISE: Duration = Duration::from_millis(300);
/// The start of an instance, and of the proxy until it has found it.
const INSTANCE_START: Duration = Duration::from_millis(700);
const PROXY_START: Duration = Duration::from_secs(4);
/// Before the first round: a build's schema, its items, its tokens.
const PREPARATION: Duration = Duration::from_secs(20);

/// What is measured together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// One figure.
    One(Measure),
    /// A hundred items alone and beside a crowd, and the same for H.
    Crowd,
    /// Ten thousand buyers who connect at once, and the same for H.
    Opening,
    /// The ways to run the database.
    Shapes,
}

/// What a bench was asked for.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The strategies to measure beside those of the table.
    pub strategies: Vec<String>,
    /// Whether five times the peak is offered.
    pub overload: bool,
    pub instances: bool,
    /// Whether a ledger with older orders is measured beside an empty one.
    pub older: bool,
    /// Whether the ways to run the database are measured.
    pub shapes: bool,
    /// How many builds there are.
    pub builds: u32,
    /// Connections that this system allows.
    pub connections_max: u32,
    /// Texts of which the name of a figure has one; none: all are measured.
    pub only: Vec<String>,
}

impl Selection {
    /// Whether a step is measured. The peak always is: the rates of others follow from it.
    fn has(&self, step: &Step) -> bool {
        let measure = match step {
            Step::One(measure) => measure.clone(),
            Step::Crowd => Measure::Hundred { beside_crowd: true },
            Step::Opening => Measure::Opening(Opening::First),
            // They have databases of their own, so they are left out by not being asked for.
            Step::Shapes => return true,
        };
        let name = measure.to_string();
        self.only.is_empty()
            || measure == Measure::peak()
            || self.only.iter().any(|text| name.contains(text))
    }

    /// The items that many loads sell.
    pub fn items(&self) -> u32 {
        let items = of_round(self, 0).into_iter().map(|step| match step {
            Step::One(Measure::Items { items }) => items,
            Step::Crowd => neighbours::ITEMS,
            Step::One(_) | Step::Opening | Step::Shapes => 0,
        });
        items.max().unwrap_or_default()
    }
}

/// The steps of round `number`. Those that follow from the peak come last; the others begin at
/// another one in each round, so that no figure always has the warm or the tired machine.
pub fn of_round(selection: &Selection, number: u32) -> Vec<Step> {
    let mut measures = always(selection);
    for strategy in &selection.strategies {
        for clients in CLIENTS_OF_STRATEGIES {
            let measure = Measure::orders(strategy, clients);
            if !measures.contains(&measure) {
                measures.push(measure);
            }
        }
    }
    if selection.instances {
        measures.extend(INSTANCES.map(|instances| Measure::Instances { instances }));
    }
    if selection.older {
        measures.extend([false, true].map(|filled| Measure::Older { filled }));
    }
    let mut steps: Vec<Step> = measures.into_iter().map(Step::One).collect();
    steps.push(Step::Crowd);
    if selection.connections_max >= CLIENTS_MAX {
        steps.push(Step::Opening);
    }
    if selection.shapes {
        steps.push(Step::Shapes);
    }
    steps.retain(|step| selection.has(step));
    // By a third of them: loads of one kind stand beside each other.
    let turn = steps.len().div_ceil(3) * number as usize % steps.len().max(1);
    steps.rotate_left(turn);
    let overload = selection.overload.then_some(Measure::Overload);
    let last = overload.into_iter().chain([Measure::BareP99, Measure::ComfortP99]).map(Step::One);
    steps.extend(last.filter(|step| selection.has(step)));
    steps
}

/// What is measured without an option.
fn always(selection: &Selection) -> Vec<Measure> {
    let mut measures = vec![Measure::Refusals, Measure::peak(), Measure::PerOrder];
    if CLIENTS_MANY <= selection.connections_max {
        measures.extend([CLIENTS_FEW, CLIENTS_MANY].map(|clients| Measure::orders(BATCH, clients)));
    }
    measures.extend(CLIENTS_OF_STRATEGIES.map(|clients| Measure::orders(DIRECT, clients)));
    measures.push(Measure::ByHand);
    measures.extend([DIRECT, BATCH].map(|strategy| Measure::Lone { strategy }));
    measures.extend(ITEMS.map(|items| Measure::Items { items }));
    measures
}

/// About how long `rounds` rounds take.
pub fn estimate(selection: &Selection, rounds: u32, span: Duration) -> Duration {
    let load = span + BESIDE_A_LOAD;
    let noise = NOISE_SPAN + BESIDE_NOISE;
    let shapes = u32::try_from(SHAPES.len() * SHAPE_LOADS.len()).unwrap_or(u32::MAX);
    let step = |step: Step| match step {
        Step::One(Measure::Instances { instances }) => {
            (load + PROXY_START + INSTANCE_START * instances) * selection.builds
        }
        // H before and after it is measured for half the time each.
        Step::One(measure) if measure.is_beside_bare() => load * selection.builds + load,
        Step::One(measure) if measure.is_baseline() => load,
        Step::One(_) => load * selection.builds,
        Step::Crowd => load * 2 * (selection.builds + 1),
        Step::Opening => ((load + span) * 2 + INSTANCE_START) * (selection.builds + 1),
        Step::Shapes => load * shapes,
    };
    let round: Duration = of_round(selection, 0).into_iter().map(|one| noise + step(one)).sum();
    PREPARATION * selection.builds + round * rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> Selection {
        let strategies = STRATEGIES.split(',').map(str::to_owned).collect();
        Selection {
            strategies,
            overload: true,
            instances: true,
            older: true,
            shapes: false,
            builds: 2,
            connections_max: 10_000,
            only: Vec::new(),
        }
    }

    #[test]
    fn each_round_has_every_step_once_and_the_peak_before_what_follows_from_it() {
        let first = of_round(&everything(), 0);
        for number in 0..7 {
            let steps = of_round(&everything(), number);
            assert_eq!(steps.len(), first.len());
            for step in &first {
                assert_eq!(steps.iter().filter(|one| *one == step).count(), 1, "{step:?}");
            }
            let place = |step| steps.iter().position(|one| *one == step);
            assert!(place(Step::One(Measure::peak())) < place(Step::One(Measure::Overload)));
        }
        assert_ne!(of_round(&everything(), 1)[0], first[0]);
    }

    #[test]
    fn what_counts_takes_five_minutes() {
        let default = Selection { builds: 1, connections_max: 10_000, ..Selection::default() };
        let estimate = estimate(&default, ROUNDS, Duration::from_secs(2));
        assert!(estimate < Duration::from_secs(5 * 60), "{estimate:?}");
    }
}

//! Each program agrees with its strategy's card: the search finds an oversell exactly where the card says so.

use gates::{Breaks, LIST};
use schedules::machine::orders;
use schedules::{Action, Machine, Program, Settings, search};

/// No program has more states than this with three buyers and every fault.
const STATES_MAX: usize = 3_000_000;

/// Circumstances for which a statement about a strategy has to hold.
fn circumstances(instances: u8, arbiter: bool) -> Vec<Settings> {
    let of = |buyers, units| Settings { buyers, instances, units, arbiter };
    vec![of(2, 1), of(3, 1), of(3, 2)]
}

/// Runs a schedule, and counts what it sold.
fn sold(program: &Program, settings: Settings, schedule: &[Action]) -> i64 {
    let machine = Machine::new(program, settings);
    let mut state = machine.start();
    for action in schedule {
        state = machine.after(&state, action);
    }
    orders(&state)
}

fn check(name: &str) {
    let card = LIST.iter().map(|entry| entry.card).find(|card| card.name == name).expect("a card");
    let program = Program::of(name).expect("a program");
    let oversells = |instances, arbiter, faults: &[String]| {
        let mut results = circumstances(instances, arbiter).into_iter().filter_map(|settings| {
            let found = search(&Machine::new(&program, settings), faults, STATES_MAX)?;
            assert!(sold(&program, settings, &found) > settings.units);
            Some((settings, found))
        });
        results.next()
    };
    let (alone, two) = match card.breaks_with {
        Breaks::Never => (false, false),
        Breaks::WithTwoInstances => (false, true),
        Breaks::Alone => (true, true),
    };
    assert_eq!(oversells(1, false, &[]).is_some(), alone, "one instance");
    let found = oversells(2, false, &[]);
    assert_eq!(found.is_some(), two, "two instances");
    let all = program.faults();
    if let Some((settings, schedule)) = found {
        println!("{name}: {} steps oversell, {settings:?}: {schedule:?}", schedule.len());
    } else {
        for fault in &all {
            let broken = oversells(2, false, std::slice::from_ref(fault));
            let length = broken.as_ref().map(|(_, schedule)| schedule.len());
            println!("{name}: with {fault}: {length:?} steps");
            assert_eq!(broken.is_some(), program.broken_by.contains(fault), "with {fault}");
        }
    }
    assert_eq!(oversells(2, true, &all), None, "with the arbiter on");
}

macro_rules! tests {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            check(&stringify!($name).replace('_', "-"));
        }
    )*};
}

gates::with_strategies!(tests!);

#[test]
fn a_strategy_that_oversells_is_found() {
    check("mysql-naive");
}

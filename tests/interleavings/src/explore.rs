//! Tries runs, each with its tasks in another order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use tracing::subscriber::with_default;

use crate::{events, runtime, threads, time};

/// The stack of a task: debug builds need more than shuttle's default.
const STACK_BYTES: usize = 0x0008_0000;
/// Switches of one run; more are a circle.
const STEPS_MAX: usize = 200_000;
/// Tasks that PCT takes out of their order, in a run.
const DEPTH: usize = 3;

/// Events that are shown before a failure.
const SHOWN: usize = 60;

/// Runs of one scheduler before it is the turn of the other.
const IN_TURN: usize = 100;

/// What is tried: a run, which panics when a property does not hold.
pub type Run = fn();

/// How often runs came to a place.
static REACHED: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// What the first panic of this thread said. Shuttle ends the run then, and says nothing of it.
    static FIRST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Takes note that a run came to a place this many times.
pub(crate) fn reach(place: &'static str, times: u64) {
    let mut reached = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
    *reached.entry(place).or_default() += times;
}

/// How often the runs of this process came to a place.
#[must_use]
pub fn reached(place: &str) -> u64 {
    let reached = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
    reached.get(place).copied().unwrap_or_default()
}

/// A run in which a property does not hold.
#[derive(Debug)]
pub struct Found {
    /// Its number, from 1 on.
    pub number: usize,
    /// A seed that repeats it within the first runs.
    pub seed: u64,
    /// The property.
    pub why: String,
    /// The last events before.
    pub events: String,
}

/// The events of some runs that follow from a seed.
#[must_use]
pub fn trace(run: Run, seed: u64, runs: usize) -> String {
    let scheduler = RandomScheduler::new_from_seed(seed, runs);
    search_on_thread(scheduler, MaxSteps::FailAfter(STEPS_MAX), run, None, true).1
}

/// Tries `runs` runs by two schedulers in turn: one chooses any task at each switch, and PCT gives each task a rank and
/// changes few. Prints the seed.
///
/// # Panics
/// When a property does not hold in one of them.
pub fn explore(run: Run, runs: usize) {
    if let Some(Found { number, seed, why, events }) = search(run, runs, None) {
        panic!("run {number}, with SECKILL_TEST_SEED={seed} soon: {why}\n{events}");
    }
}

/// Tries runs with a planted mistake, at most `runs`. The run that finds it.
#[must_use]
pub fn find(mistake: &'static str, run: Run, runs: usize) -> Option<Found> {
    search(run, runs, Some(mistake))
}

/// The first run in which a property does not hold.
fn search(run: Run, runs: usize, mistake: Option<&'static str>) -> Option<Found> {
    let seed = match std::env::var("SECKILL_TEST_SEED") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => random_seed(),
    };
    println!("SECKILL_TEST_SEED={seed} repeats it");
    (0..runs).step_by(2 * IN_TURN).find_map(|begun| {
        let seed = seed.wrapping_add(begun as u64);
        let random = RandomScheduler::new_from_seed(seed, IN_TURN);
        let ranked = PctScheduler::new_from_seed(seed, DEPTH, IN_TURN);
        let found = first_failure(random, MaxSteps::FailAfter(STEPS_MAX), run, mistake);
        let found = found.or_else(|| {
            // By ranks a task may wait for another one that never gets its turn. That is not the fault of the code, so such
            // a run is given up.
            let steps_max = MaxSteps::ContinueAfter(STEPS_MAX);
            let found = first_failure(ranked, steps_max, run, mistake)?;
            Some(Found { number: IN_TURN + found.number, ..found })
        })?;
        Some(Found { number: begun + found.number, seed, ..found })
    })
}

/// The first failure of a scheduler.
fn first_failure(
    scheduler: impl Scheduler + Send + 'static,
    steps_max: MaxSteps,
    run: Run,
    mistake: Option<&'static str>,
) -> Option<Found> {
    let (failure, events) = search_on_thread(scheduler, steps_max, run, mistake, false);
    let (number, why) = failure?;
    let lines: Vec<&str> = events.lines().collect();
    let events = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
    Some(Found { number, seed: 0, why, events })
}

fn random_seed() -> u64 {
    RandomState::new().hash_one(thread::current().id())
}

/// Runs on a thread of its own, whose statics and clock are those of the run. The number and text of a failure, and the
/// events: of the last run, or of all.
fn search_on_thread(
    scheduler: impl Scheduler + Send + 'static,
    steps_max: MaxSteps,
    run: Run,
    mistake: Option<&'static str>,
    keeps_events: bool,
) -> (Option<(usize, String)>, String) {
    let searching = thread::spawn(move || {
        note_panics();
        threads::plant(mistake);
        let number = Arc::new(AtomicUsize::new(0));
        let begun = Arc::clone(&number);
        let runner = Runner::new(scheduler, config(steps_max));
        let tried = catch_unwind(AssertUnwindSafe(|| {
            with_default(events::Protocol, || {
                runner.run(move || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    runtime::begin_run();
                    threads::begin_run();
                    time::begin_run();
                    events::begin_run(keeps_events);
                    run();
                    time::end_run();
                    // A task may have caught it.
                    let has_panicked = FIRST_PANIC.with_borrow(Option::is_some);
                    assert!(!has_panicked, "a task has panicked");
                })
            });
        }));
        let number = number.load(Ordering::Relaxed);
        let failure = tried.err().map(|_| (number, FIRST_PANIC.take().unwrap_or_default()));
        (failure, events::events())
    });
    searching.join().expect("the search itself does not panic")
}

fn config(steps_max: MaxSteps) -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = steps_max;
    config.silence_warnings = true;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    // The seed and the number of the run repeat it.
    config.failure_persistence = FailurePersistence::None;
    config
}

/// Has the first panic of each thread noted. A planted mistake is not printed.
fn note_panics() {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |why| {
            let text = why.payload_as_str().unwrap_or("a panic without a text");
            FIRST_PANIC.with_borrow_mut(|first| {
                first.get_or_insert_with(|| text.to_owned());
            });
            if !threads::has_planted() {
                print(why);
            }
        }));
    });
}

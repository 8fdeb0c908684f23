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

use crate::{runtime, threads, time};

/// The stack of a task: debug builds need more than shuttle's default.
const STACK_BYTES: usize = 0x0008_0000;
/// Switches of one run; more are a circle.
const STEPS_MAX: usize = 200_000;
/// Tasks that PCT takes out of their order, in a run.
const DEPTH: usize = 3;

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

/// Tries `runs` runs by two schedulers in turn: one chooses any task at each switch, and PCT gives each task a rank and
/// changes few. Prints the seed.
///
/// # Panics
/// When a property does not hold in one of them.
pub fn explore(run: Run, runs: usize) {
    if let Some((number, why)) = search(run, runs, None) {
        panic!("run {number}: {why}");
    }
}

/// Tries runs with a planted mistake, at most `runs`. The number of the run that finds it, and what that run says.
#[must_use]
pub fn find(mistake: &'static str, run: Run, runs: usize) -> Option<(usize, String)> {
    search(run, runs, Some(mistake))
}

/// The first run in which a property does not hold.
fn search(run: Run, runs: usize, mistake: Option<&'static str>) -> Option<(usize, String)> {
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
        let found = found.map(|(number, why)| (begun + number, why));
        found.or_else(|| {
            // By ranks a task may wait for another one that never gets its turn. That is not the fault of the code, so such
            // a run is given up.
            let steps_max = MaxSteps::ContinueAfter(STEPS_MAX);
            let (number, why) = first_failure(ranked, steps_max, run, mistake)?;
            Some((begun + IN_TURN + number, why))
        })
    })
}

fn random_seed() -> u64 {
    RandomState::new().hash_one(thread::current().id())
}

/// Runs on a thread of its own, whose statics and clock are those of the run.
fn first_failure(
    scheduler: impl Scheduler + Send + 'static,
    steps_max: MaxSteps,
    run: Run,
    mistake: Option<&'static str>,
) -> Option<(usize, String)> {
    let searching = thread::spawn(move || {
        note_panics();
        threads::plant(mistake);
        let number = Arc::new(AtomicUsize::new(0));
        let begun = Arc::clone(&number);
        let runner = Runner::new(scheduler, config(steps_max, mistake));
        let tried = catch_unwind(AssertUnwindSafe(|| {
            runner.run(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                runtime::begin_run();
                threads::begin_run();
                time::begin_run();
                run();
                time::end_run();
            });
        }));
        let number = number.load(Ordering::Relaxed);
        tried.err().map(|_| (number, FIRST_PANIC.take().unwrap_or_default()))
    });
    searching.join().expect("the search itself does not panic")
}

fn config(steps_max: MaxSteps, mistake: Option<&'static str>) -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = steps_max;
    config.silence_warnings = true;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    if mistake.is_some() {
        config.failure_persistence = FailurePersistence::None;
    }
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

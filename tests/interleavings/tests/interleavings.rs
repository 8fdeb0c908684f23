//! In no interleaving that is tried does a property fail; each planted mistake is found.

use std::time::Instant;

use interleavings::explore::{Found, Run, explore, find, reached, trace};
use interleavings::{batch_runs, lock_runs, service_runs};

/// Runs in which nothing may be found; as many as those that look for a mistake, where a run is short.
const RUNS: usize = 2_000;
/// Runs in which a mistake has to be found.
const RUNS_MAX: usize = 20_000;

/// Nothing is found, and the runs come to these places.
fn assert_clean(run: Run, runs: usize, places: &[&str]) {
    explore(run, runs);
    for place in places {
        let times = reached(place);
        println!("{place}: {times}");
        assert!(times > 0, "no run comes to: {place}");
    }
}

/// A mistake is found, and for its own reason. A run that waits for ever may reach the bound of its steps before.
fn assert_found(mistake: &'static str, run: Run, says: &str) {
    let begun = Instant::now();
    let found = find(mistake, run, RUNS_MAX);
    let found = found.unwrap_or_else(|| panic!("nothing finds: {mistake}"));
    let Found { number, seed, why, events } = found;
    let ms = begun.elapsed().as_millis();
    println!("{events}\n{mistake}: run {number}, {ms} ms, SECKILL_TEST_SEED={seed}: {why}");
    assert!(why.contains(says) || why.contains("max_steps"), "{mistake}: {why}");
}

#[test]
fn locks_over_a_server_that_answers() {
    assert_clean(lock_runs::calm, RUNS, &["handed over", "gave up"]);
}

#[test]
fn locks_over_a_faulty_server() {
    assert_clean(lock_runs::faulty, RUNS, &["renewed", "lost", "unavailable", "already lost"]);
}

#[test]
fn orders_in_batches() {
    assert_clean(service_runs::calm, RUNS, &["several orders of an item in a batch", "buyer left"]);
}

#[test]
fn orders_of_a_faulty_ledger() {
    let answers = ["cart", "refused", "unavailable", "unknown", "replayed", "dead letter"];
    let queued = ["taken over", "rejected", "sold by a consumer", "an instance died"];
    let ledger = ["the ledger takes none", "COMMIT without an answer", "call without an answer"];
    let places =
        [&answers[..], &queued, &ledger, &["waited for a row in vain", "a limit is locked"]]
            .concat();
    assert_clean(service_runs::faulty, RUNS_MAX, &places);
}

/// Two runs of one seed have the same events, byte for byte; those of another seed are others.
#[test]
fn a_seed_repeats_a_run() {
    let first = trace(service_runs::faulty, 7, 20);
    assert_eq!(first, trace(service_runs::faulty, 7, 20));
    assert_ne!(first, trace(service_runs::faulty, 8, 20));
}

#[test]
fn the_pipeline_of_batches() {
    assert_clean(batch_runs::pipeline, RUNS, &[]);
}

#[test]
fn permits_of_items() {
    assert_clean(batch_runs::permits, RUNS, &[]);
}

#[test]
fn a_lost_head_of_the_queue_is_found() {
    assert_found("the head ends with a waiter that has left", lock_runs::calm, "nobody waits for");
}

#[test]
fn a_fence_that_is_handed_over_twice_is_found() {
    assert_found("a hand-over is counted when the next one holds", lock_runs::calm, "fence");
}

#[test]
fn a_loss_after_the_release_is_found() {
    assert_found("a hold is lost after its end", lock_runs::faulty, "a released guard was lost");
}

#[test]
fn an_order_that_no_task_sees_is_found() {
    assert_found("a task ends without a last look", service_runs::calm, "deadlock");
}

#[test]
fn an_answer_that_no_task_sends_is_found() {
    let mistake = "the task of the answers ends without a last look";
    assert_found(mistake, service_runs::calm, "deadlock");
}

#[test]
fn an_order_that_overtakes_is_found() {
    let mistake = "the last order of an item is the first";
    assert_found(mistake, service_runs::calm, "a later order is before");
}

#[test]
fn a_permit_that_is_kept_while_waiting_is_found() {
    let mistake = "an order waits for a permit with another one in hand";
    assert_found(mistake, batch_runs::permits, "deadlock");
}

#[test]
fn two_batches_that_wait_for_each_other_are_found() {
    let mistake = "a batch keeps its place while it waits for all";
    assert_found(mistake, batch_runs::pipeline, "deadlock");
}

/// Mistakes that the project has had, or whose repair it describes, in the queues, the batches and the consumers.
#[test]
fn mistakes_of_the_service_are_found() {
    let mistakes = [
        ("an order of several items is looked at twice", "is of one item"),
        ("an item without orders stays in quarantine", "in quarantine for ever"),
        ("an order is late that a batch has", "and is written"),
        ("a look refuses for what it has not written", "is not true"),
        ("a late batch keeps its stage", "deadlock"),
        ("a batch without an answer to COMMIT is rolled back", "and is written"),
        ("a slow COMMIT is not waited for", "and is written"),
        ("a call without an answer is forgotten", "and is written"),
        ("a key of another order is not changed", "the ledger takes it"),
        ("a ledger that takes none makes dead letters", "the ledger takes it"),
        ("a ledger that takes orders again makes a dead letter", "the ledger takes it"),
        ("a sold order becomes a dead letter", "is a dead letter and decided"),
        ("a queued order is decided as another one", "is not in the ledger"),
    ];
    for (mistake, says) in mistakes {
        assert_found(mistake, service_runs::faulty, says);
    }
}

//! In no interleaving that is tried does a property fail; each planted mistake is found.

use interleavings::explore::{Run, explore, find, reached};
use interleavings::{batch_runs, lock_runs};

/// Runs in which nothing may be found.
const RUNS: usize = 2_000;
/// Runs in which a mistake has to be found.
const RUNS_MAX: usize = 20_000;

/// Nothing is found, and the runs come to these places.
fn assert_clean(run: Run, places: &[&str]) {
    explore(run, RUNS);
    for place in places {
        let times = reached(place);
        println!("{place}: {times}");
        assert!(times > 0, "no run comes to: {place}");
    }
}

/// A mistake is found, and for its own reason.
fn assert_found(mistake: &'static str, run: Run, says: &str) {
    let found = find(mistake, run, RUNS_MAX);
    let (number, why) = found.unwrap_or_else(|| panic!("nothing finds: {mistake}"));
    println!("{mistake}: run {number}: {why}");
    assert!(why.contains(says), "{mistake}: {why}");
}

#[test]
fn locks_over_a_server_that_answers() {
    assert_clean(lock_runs::calm, &["handed over", "gave up"]);
}

#[test]
fn locks_over_a_faulty_server() {
    assert_clean(lock_runs::faulty, &["renewed", "lost", "unavailable", "already lost"]);
}

#[test]
fn orders_in_batches() {
    assert_clean(batch_runs::calm_orders, &["written in order", "buyer left"]);
}

#[test]
fn orders_of_a_faulty_ledger() {
    let places = ["overtaken", "refused", "too late", "cart"];
    assert_clean(batch_runs::faulty_orders, &places);
}

#[test]
fn the_pipeline_of_batches() {
    assert_clean(batch_runs::pipeline, &[]);
}

#[test]
fn permits_of_items() {
    assert_clean(batch_runs::permits, &[]);
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
    assert_found("a task ends without a last look", batch_runs::calm_orders, "deadlock");
}

#[test]
fn an_order_that_overtakes_is_found() {
    let mistake = "the last order of an item is the first";
    assert_found(mistake, batch_runs::calm_orders, "a later order was written before");
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

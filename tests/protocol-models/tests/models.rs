//! The models, each in every state; and each planted mistake, which its model must find.

use mimalloc::MiMalloc;
use protocol_models::batch::{self, five_orders, four_orders};
use protocol_models::check::{broken, every_state};
use protocol_models::lock::{self, three_processes, two_processes};

/// A model copies states all the time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The most states of a model: more would not fit between the other tests.
const STATES_MAX: usize = 2_500_000;

macro_rules! mistakes {
    ($($name:ident: $model:ident($mistake:expr) breaks $property:expr;)*) => {
        $(#[test]
        fn $name() {
            broken(stringify!($name), $model(Some($mistake)), $property);
        })*
    };
}

#[test]
fn lock_in_every_state() {
    assert!(every_state("lock, two processes", &two_processes(None)) < STATES_MAX);
}

#[test]
fn lock_of_three_processes_in_every_state() {
    assert!(every_state("lock, three processes", &three_processes(None)) < STATES_MAX);
}

#[test]
fn batch_of_four_orders_in_every_state() {
    assert!(every_state("batch, four orders", &four_orders()) < STATES_MAX);
}

#[test]
#[ignore = "slow: make test-all"]
fn batch_in_every_state() {
    assert!(every_state("batch", &five_orders(None)) < STATES_MAX);
}

mistakes! {
    lock_finds_a_grant_on_a_publish_count:
        two_processes(lock::Mistake::GrantOnPublishCount) breaks lock::ONE_HOLDER;
    lock_finds_that_there_is_no_fence:
        two_processes(lock::Mistake::NoFence) breaks lock::NO_STALE_WRITE;
    lock_finds_a_fence_from_the_counter_alone:
        two_processes(lock::Mistake::FenceFromCounterAlone) breaks lock::NO_STALE_WRITE;
    lock_finds_a_hand_over_with_the_same_fence:
        two_processes(lock::Mistake::SameFenceHandedOver) breaks lock::NO_STALE_WRITE;
    lock_finds_a_waiter_that_never_asks_again:
        two_processes(lock::Mistake::NoRecheck) breaks lock::NOBODY_STARVES;
    lock_finds_a_lease_that_counts_from_the_arrival:
        two_processes(lock::Mistake::LeaseFromArrival) breaks lock::ONE_HOLDER;
    lock_finds_an_old_grant_that_is_accepted:
        two_processes(lock::Mistake::OldGrantAccepted) breaks lock::ONE_HOLDER;
    lock_finds_a_release_that_looks_at_the_head_alone:
        three_processes(lock::Mistake::OnlyTheHead) breaks lock::NO_WAKE_UP_LOST;
    batch_finds_the_stock_before_the_limits:
        five_orders(batch::Mistake::StockBeforeLimits) breaks batch::NO_DEADLOCK;
    batch_finds_the_stock_in_another_order:
        five_orders(batch::Mistake::StockInAnotherOrder) breaks batch::NO_DEADLOCK;
    batch_finds_affected_rows_that_are_ignored:
        five_orders(batch::Mistake::AffectedRowsIgnored) breaks batch::STOCK_HOLDS;
    batch_finds_a_whole_batch_refused:
        five_orders(batch::Mistake::WholeBatchRefused) breaks batch::NO_GOOD_ORDER_LOST;
    batch_finds_a_recovery_that_does_not_wait:
        five_orders(batch::Mistake::RecoverWithoutWaiting) breaks batch::REFUSED_IS_NOT_THERE;
    batch_finds_an_order_written_again_without_its_key:
        five_orders(batch::Mistake::AgainWithoutKey) breaks batch::REFUSED_IS_NOT_THERE;
    batch_finds_an_answer_before_commit:
        five_orders(batch::Mistake::AnswerBeforeCommit) breaks batch::ACKNOWLEDGED_EXISTS;
    batch_finds_a_line_that_is_dropped_at_the_second_try:
        five_orders(batch::Mistake::LineDroppedAtRetry) breaks batch::WHOLE;
    batch_finds_a_wait_with_rows_in_hand:
        five_orders(batch::Mistake::WaitsWithRowsInHand) breaks batch::WAITS_ALONE;
    batch_finds_the_lines_of_an_order_in_two_transactions:
        five_orders(batch::Mistake::LinesApart) breaks batch::WHOLE;
}

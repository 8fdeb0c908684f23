//! A small model of ledger and orders, and a service that must agree with it.
//!
//! Steps are generated: purchases by any safe strategy, alone and in parallel, retries, payments,
//! cancellations, holds that run out, restocks, switches, pauses, crashes. After each one the answer
//! and the ledger are what the model says; at the end the audit is clean. Beside parallel purchases
//! other items are sold in the same batches, and none of their orders may fail. What fails is made smaller
//! until it is the shortest plan that still fails; its seed is kept in `model/regressions.txt` and
//! tried first from then on.
//!
//! `SECKILL_TEST_ROUNDS` is the number of plans; `SECKILL_TEST_SEED` repeats the plans of a run.

mod books;
mod plan;
mod service;

use std::cell::RefCell;

use proptest::test_runner::{Config, FileFailurePersistence, RngSeed, TestError, TestRunner};

use crate::support::{rounds, seed};
use service::Service;

/// Plans of a normal run.
const PLANS: u32 = 16;
/// How long the search for a shorter plan goes on.
const SHRINK_MS_MAX: u32 = 60_000;

#[test]
fn the_service_agrees_with_the_model() {
    let config = Config {
        cases: rounds(PLANS),
        rng_seed: RngSeed::Fixed(seed()),
        max_shrink_time: SHRINK_MS_MAX,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            "tests/purchase/model/regressions.txt",
        ))),
        ..Config::default()
    };
    let service = RefCell::new(Service::start());
    let run = |plan| service.borrow_mut().carry_out(&plan);
    let tried = TestRunner::new(config).run(&plan::plan(), run);
    match tried {
        Ok(()) => {}
        Err(TestError::Fail(why, plan)) => panic!("{why}\nthe shortest plan found: {plan:#?}"),
        Err(TestError::Abort(why)) => panic!("no plan could be tried: {why}"),
    }
}

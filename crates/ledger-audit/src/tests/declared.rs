//! What a sale of a strategy is expected to show.

use crate::{Breaks, Expectation};

/// The arbiter makes every strategy safe; without it, one breaks as it declares.
#[test]
fn a_strategy_breaks_as_it_declares() {
    for breaks in [Breaks::Never, Breaks::Alone, Breaks::WithTwoInstances] {
        for instances in [1, 2, 3] {
            assert_eq!(breaks.expectation(true, instances), Expectation::Clean);
            let is_caught = match breaks {
                Breaks::Never => false,
                Breaks::Alone => true,
                Breaks::WithTwoInstances => instances > 1,
            };
            let caught = breaks.expectation(false, instances) == Expectation::Caught;
            assert_eq!(caught, is_caught, "{breaks:?} on {instances} instances");
        }
    }
    let described = [Breaks::Never, Breaks::Alone, Breaks::WithTwoInstances].map(Breaks::describe);
    assert_eq!(described, ["safe", "breaks alone", "breaks with two instances"]);
}

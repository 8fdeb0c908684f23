//! How a contender waits between two attempts.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::store::Subscription;

/// The first pause of a contender that polls.
const POLL_STEP_FIRST: Duration = Duration::from_millis(1);

/// The longest pause of a contender that polls: how late it notices a release in the worst case.
const POLL_STEP_MAX: Duration = Duration::from_millis(25);

/// The longest pause of [`WaitStrategy::Spin`].
const SPIN_PAUSE_MAX: Duration = Duration::from_millis(128);

/// How long a contender waits for a notification before it asks again without one.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The fewest attempts of a contender in one lease.
const LOOKS_PER_LEASE: u32 = 3;

/// What a contender does between two attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// Wait for a notification by the release. A kind that cannot notify waits as with `Backoff`.
    Notified,
    /// Sleep, from 1 ms on and doubling to 25 ms, with jitter.
    Backoff,
    /// Sleep, from 1 ms on and doubling to 128 ms, with jitter.
    Spin,
    /// Ask again at once for 600 ms, then yield between attempts.
    SpinThenYield,
    /// Yield between attempts for 600 ms, then sleep 200 ms between them.
    YieldThenSleep,
    /// Sleep 200 ms.
    Sleep200,
    /// Sleep 2 s.
    Sleep2000,
    /// Let the other tasks run, then ask again.
    Yield,
}

/// How long the first phase of the two-phase strategies lasts.
const FIRST_PHASE: Duration = Duration::from_millis(600);

const SHORT_SLEEP: Duration = Duration::from_millis(200);
const LONG_SLEEP: Duration = Duration::from_secs(2);

/// The waiting of one contender.
pub(crate) struct Backoff {
    strategy: WaitStrategy,
    since: Instant,
    step: Duration,
}

impl Backoff {
    pub(crate) fn new(strategy: WaitStrategy) -> Self {
        Self { strategy, since: Instant::now(), step: POLL_STEP_FIRST }
    }

    /// Waits until it is time for the next attempt: for a notification where there is a subscription,
    /// else for a pause. A broken subscription is dropped.
    pub(crate) async fn wait_or_be_notified(
        &mut self,
        notifications: &mut Option<Subscription>,
        lease: Duration,
    ) {
        let Some(listening) = notifications else { return self.pause().await };
        // A notification can be lost, so the wait for it is bounded. The bound is short against the
        // lease, so that a grant that comes with a notification is still worth using.
        let bound = LOOK_PAUSE_MAX.min(lease / LOOKS_PER_LEASE);
        let bound = bound.mul_f64(rand::random_range(0.8..=1.0));
        if timeout(bound, listening.next()).await == Ok(false) {
            *notifications = None;
            self.pause().await;
        }
    }

    /// Pauses as the strategy says.
    async fn pause(&mut self) {
        let in_first_phase = self.since.elapsed() < FIRST_PHASE;
        match self.strategy {
            WaitStrategy::Notified | WaitStrategy::Backoff => {
                sleep(self.next_step(POLL_STEP_MAX)).await;
            }
            WaitStrategy::Spin => sleep(self.next_step(SPIN_PAUSE_MAX)).await,
            WaitStrategy::SpinThenYield if in_first_phase => {}
            WaitStrategy::YieldThenSleep if !in_first_phase => sleep(SHORT_SLEEP).await,
            WaitStrategy::Sleep200 => sleep(SHORT_SLEEP).await,
            WaitStrategy::Sleep2000 => sleep(LONG_SLEEP).await,
            WaitStrategy::SpinThenYield | WaitStrategy::YieldThenSleep | WaitStrategy::Yield => {
                yield_now().await;
            }
        }
    }

    /// The next pause: between half and all of the current step, so that several clients do not fall into step, and the
    /// step doubles up to `max`.
    fn next_step(&mut self, max: Duration) -> Duration {
        let step = self.step;
        self.step = (step * 2).min(max);
        step.mul_f64(rand::random_range(0.5..=1.0))
    }
}

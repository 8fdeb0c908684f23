//! What a contender does between two looks at a backend.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::store::Wakeups;

/// The first pause of the one contender that asks the backend again and again.
const POLL_PAUSE_FIRST: Duration = Duration::from_millis(1);

/// Its longest pause: how late a process may notice at worst that another one has released.
const POLL_PAUSE_MAX: Duration = Duration::from_millis(25);

/// The longest pause of [`Manner::Spin`].
const SPIN_PAUSE_MAX: Duration = Duration::from_millis(128);

/// How long a contender that is told of changes waits for one before it looks by itself.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// It looks at least so often in one lease.
const LOOKS_PER_LEASE: u32 = 3;

/// What a contender does between two looks at the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Be told by the release. Where the kind cannot tell, the same as `Backoff`.
    Notified,
    /// Sleep, from 1 ms on and doubling to 25 ms, with jitter.
    Backoff,
    /// Sleep, from 1 ms on and doubling to 128 ms, with jitter.
    Spin,
    /// Look again at once for 600 ms, then yield.
    SpinThenYield,
    /// Yield for 600 ms, then sleep 200 ms between looks.
    YieldThenSleep,
    /// Sleep 200 ms.
    Sleep200,
    /// Sleep 2 s.
    Sleep2000,
    /// Let the other tasks run, then look again.
    Yield,
}

/// For how long the two-phase manners stay in their first phase.
const FIRST_PHASE: Duration = Duration::from_millis(600);

const SHORT_SLEEP: Duration = Duration::from_millis(200);
const LONG_SLEEP: Duration = Duration::from_secs(2);

/// The pauses of one contender.
pub(crate) struct Pauses {
    manner: Manner,
    since: Instant,
    backoff: PollPause,
}

impl Pauses {
    pub(crate) fn new(manner: Manner) -> Self {
        Self { manner, since: Instant::now(), backoff: PollPause::new() }
    }

    /// Lets the time between two looks pass, until the backend says that it is worth it, where it is
    /// listened to. When it cannot tell any more, nobody listens afterwards.
    pub(crate) async fn pass_or_be_told(
        &mut self,
        wakeups: &mut Option<Box<dyn Wakeups>>,
        lease: Duration,
    ) {
        let Some(listening) = wakeups else { return self.pass().await };
        // A message can be lost, so none is waited for without a bound. A look early in the lease
        // also keeps what a message grants worth having.
        let bound = LOOK_PAUSE_MAX.min(lease / LOOKS_PER_LEASE);
        let bound = bound.mul_f64(rand::random_range(0.8..=1.0));
        if timeout(bound, listening.next()).await == Ok(false) {
            *wakeups = None;
            self.pass().await;
        }
    }

    /// Lets the time between two looks pass without being told.
    async fn pass(&mut self) {
        let in_first_phase = self.since.elapsed() < FIRST_PHASE;
        match self.manner {
            Manner::Notified | Manner::Backoff => sleep(self.backoff.next(POLL_PAUSE_MAX)).await,
            Manner::Spin => sleep(self.backoff.next(SPIN_PAUSE_MAX)).await,
            Manner::SpinThenYield if in_first_phase => {}
            Manner::YieldThenSleep if !in_first_phase => sleep(SHORT_SLEEP).await,
            Manner::Sleep200 => sleep(SHORT_SLEEP).await,
            Manner::Sleep2000 => sleep(LONG_SLEEP).await,
            Manner::SpinThenYield | Manner::YieldThenSleep | Manner::Yield => yield_now().await,
        }
    }
}

/// The pauses of the one contender that polls: doubling, capped, each with jitter so that several
/// processes do not fall into step.
struct PollPause(Duration);

impl PollPause {
    fn new() -> Self {
        Self(POLL_PAUSE_FIRST)
    }

    /// How long to pause now: between half and all of the current step.
    fn next(&mut self, max: Duration) -> Duration {
        let step = self.0;
        self.0 = (step * 2).min(max);
        step.mul_f64(rand::random_range(0.5..=1.0))
    }
}

//! A clock that goes on at random moments: to the next instant for which a task waits, whatever the other tasks are doing. So
//! a lease ends, and a deadline passes, between any two steps of the others.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::{Add, Sub};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

pub use std::time::Duration;

use crate::random::below;
use crate::task::yield_now;

/// Steps of other tasks that an instant may last; each run has one of these limits.
const PATIENCE: [u32; 4] = [1, 8, 64, 512];
/// A longer time than this passes only after [`STEPS_BEFORE_FAR`] steps, because no task that is ready stands still that long.
const FAR: Duration = Duration::from_secs(120);
/// Steps of the clock before a time longer than [`FAR`] passes.
const STEPS_BEFORE_FAR: u32 = 400;

thread_local! {
    static CLOCK: RefCell<Clock> = RefCell::default();
}

/// The clock of a run.
#[derive(Default)]
struct Clock {
    now: Duration,
    /// Who waits for which instant.
    timers: BTreeMap<(Instant, u64), Waker>,
    next_timer: u64,
    /// The task of the clock, while it waits for a timer.
    task: Option<Waker>,
    has_ended: bool,
}

impl Clock {
    /// Whether the next timer is further away than [`FAR`].
    fn is_far(&self) -> bool {
        let next = self.timers.first_key_value().map(|timer| timer.0.0.0);
        next.is_some_and(|next| next > self.now + FAR)
    }
}

/// An instant, by the clock of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The present instant.
    #[must_use]
    pub fn now() -> Self {
        Self(CLOCK.with_borrow(|clock| clock.now))
    }

    /// The time since the run began.
    pub(crate) fn since_begin(self) -> Duration {
        self.0
    }

    /// The time since then.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().saturating_duration_since(*self)
    }

    /// The time since an earlier instant, or none.
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0 + time)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// A wait for an instant.
pub struct Sleep {
    until: Instant,
    timer: Option<u64>,
}

/// Waits for an instant.
#[must_use]
pub fn sleep_until(until: Instant) -> Sleep {
    Sleep { until, timer: None }
}

/// Waits for a time.
#[must_use]
pub fn sleep(time: Duration) -> Sleep {
    sleep_until(Instant::now() + time)
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.until {
            return Poll::Ready(());
        }
        let until = self.until;
        let task = CLOCK.with_borrow_mut(|clock| {
            clock.next_timer += 1;
            let next = clock.next_timer;
            let timer = *self.timer.get_or_insert(next);
            clock.timers.insert((until, timer), context.waker().clone());
            clock.task.take()
        });
        task.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            CLOCK.with_borrow_mut(|clock| clock.timers.remove(&(self.until, timer)));
        }
    }
}

/// What was waited for did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// Waits for something until a deadline.
pub async fn timeout_at<F: Future>(deadline: Instant, awaited: F) -> Result<F::Output, Elapsed> {
    let mut awaited = pin!(awaited);
    let mut sleep = pin!(sleep_until(deadline));
    poll_fn(|context| {
        if let Poll::Ready(come) = awaited.as_mut().poll(context) {
            return Poll::Ready(Ok(come));
        }
        sleep.as_mut().poll(context).map(|()| Err(Elapsed))
    })
    .await
}

/// Waits for something for a time.
pub async fn timeout<F: Future>(time: Duration, awaited: F) -> Result<F::Output, Elapsed> {
    timeout_at(Instant::now() + time, awaited).await
}

/// Instants one period apart.
pub struct Interval {
    next: Instant,
    period: Duration,
}

/// What an [`Interval`] does when it is late.
pub enum MissedTickBehavior {
    /// Begins a period.
    Delay,
}

/// Instants one period apart, from now on.
#[must_use]
pub fn interval(period: Duration) -> Interval {
    Interval { next: Instant::now(), period }
}

impl Interval {
    /// Takes note of nothing: each wait begins a period.
    pub fn set_missed_tick_behavior(&mut self, _: MissedTickBehavior) {}

    /// Waits for the next instant.
    pub async fn tick(&mut self) {
        sleep_until(self.next).await;
        self.next = Instant::now() + self.period;
    }
}

/// Begins the clock of a run.
pub(crate) fn begin_run() {
    CLOCK.set(Clock::default());
    let patience = PATIENCE[below(4) as usize];
    crate::spawn(run(patience));
}

/// Ends the clock of a run.
pub(crate) fn end_run() {
    let task = CLOCK.with_borrow_mut(|clock| {
        clock.has_ended = true;
        clock.task.take()
    });
    task.into_iter().for_each(Waker::wake);
}

/// Moves the clock from timer to timer.
async fn run(patience: u32) {
    while is_waited_for().await {
        let is_far = CLOCK.with_borrow(Clock::is_far);
        let steps = if is_far { STEPS_BEFORE_FAR } else { below(patience) };
        for _ in 0..steps {
            yield_now().await;
        }
        if CLOCK.with_borrow(Clock::is_far) != is_far {
            continue;
        }
        let due = CLOCK.with_borrow_mut(|clock| {
            let next = clock.timers.first_key_value()?.0.0;
            clock.now = clock.now.max(next.0);
            let later = clock.timers.split_off(&(Instant(clock.now), u64::MAX));
            Some(std::mem::replace(&mut clock.timers, later))
        });
        due.into_iter().flat_map(BTreeMap::into_values).for_each(Waker::wake);
    }
}

/// Waits for a timer; `false` at the end of the run.
async fn is_waited_for() -> bool {
    poll_fn(|context| {
        CLOCK.with_borrow_mut(|clock| {
            if !clock.has_ended && clock.timers.is_empty() {
                clock.task = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(!clock.has_ended)
        })
    })
    .await
}

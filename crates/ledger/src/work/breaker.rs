//! Circuit breakers, one for each server: when most calls fail, further calls are refused at once
//! instead of each waiting for its own timeout.
//!
//! *Closed*, calls go through and are counted over the last [`WINDOW_SECONDS`] seconds. When there
//! were at least [`CALLS_MIN`] and half of them failed, it *opens*: one call a second goes through
//! as a probe, the others are refused. After [`PROBES_GOOD`] good probes in a row it is closed
//! again. A call whose result depends on more than the server is not counted.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use mysql_connection::SignOfLife;
use shop_domain::outcome::Dependency;
use shop_metrics::Metrics;

/// The window over which calls are counted, in seconds.
pub const WINDOW_SECONDS: u64 = 5;
/// The least number of calls in the window that can open the breaker.
pub const CALLS_MIN: u32 = 20;
/// Good probes in a row that close it again.
pub const PROBES_GOOD: u32 = 3;
/// The time from one probe to the next.
pub const PROBE_PERIOD: Duration = Duration::from_secs(1);
/// How old a look for a sign of life may be. Many calls wait for a connection at once and in vain.
const LOOK_AGE_MAX: Duration = Duration::from_millis(200);

/// The breakers of all dependencies. Clones share them.
#[derive(Clone)]
pub struct Breakers {
    /// The breaker of the ledger.
    pub mysql: Breaker,
    /// The breaker of Redis, for the gates' counters and locks.
    pub redis: Breaker,
    /// The breaker of Redlock's servers.
    pub redlock: Breaker,
    pub etcd: Breaker,
    pub zookeeper: Breaker,
}

impl Breakers {
    /// Makes closed breakers.
    pub fn new(metrics: &Metrics) -> Self {
        let breaker = |dependency| Breaker::new(dependency, metrics.clone());
        Self {
            mysql: breaker(Dependency::Mysql),
            redis: breaker(Dependency::Redis),
            redlock: breaker(Dependency::Redlock),
            etcd: breaker(Dependency::Etcd),
            zookeeper: breaker(Dependency::Zookeeper),
        }
    }

    /// The breaker of a dependency.
    pub fn of(&self, dependency: Dependency) -> &Breaker {
        match dependency {
            Dependency::Mysql => &self.mysql,
            Dependency::Redis => &self.redis,
            Dependency::Redlock => &self.redlock,
            Dependency::Etcd => &self.etcd,
            Dependency::Zookeeper => &self.zookeeper,
        }
    }
}

/// The breaker of one dependency. Clones share it.
#[derive(Clone)]
pub struct Breaker {
    dependency: Dependency,
    metrics: Metrics,
    state: Arc<Mutex<State>>,
    sign_of_life: Arc<OnceLock<SignOfLife>>,
    last_look: Arc<tokio::sync::Mutex<Option<Look>>>,
}

/// What a look for a sign of life has seen.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    answers: bool,
}

/// The permit for one call. Report how the call ended; a dropped permit is not counted.
pub struct BreakerPermit {
    breaker: Breaker,
    is_probe: bool,
}

enum State {
    Closed([Second; WINDOW_SECONDS as usize]),
    Open { probe_due: Instant, good: u32 },
}

/// The calls of one second.
#[derive(Clone, Copy, Default)]
struct Second {
    /// The number of the second; 0 before the first call.
    number: u64,
    calls: u32,
    failures: u32,
}

impl Breaker {
    fn new(dependency: Dependency, metrics: Metrics) -> Self {
        metrics.breaker_is_open(dependency.as_str(), false);
        let state = State::Closed(Default::default());
        Self {
            dependency,
            metrics,
            state: Arc::new(Mutex::new(state)),
            sign_of_life: Arc::default(),
            last_look: Arc::default(),
        }
    }

    /// The dependency of this breaker.
    pub fn dependency(&self) -> Dependency {
        self.dependency
    }

    /// Has calls that never reached the server judged by `sign_of_life`; only the first one counts.
    pub fn check_by(&self, sign_of_life: SignOfLife) {
        let _ = self.sign_of_life.set(sign_of_life);
    }

    /// Returns whether the server gives a sign of life now. Callers at the same time share one look.
    pub async fn is_alive(&self) -> bool {
        let Some(sign_of_life) = self.sign_of_life.get() else { return false };
        let mut last = self.last_look.lock().await;
        if let Some(look) = *last
            && look.at.elapsed() < LOOK_AGE_MAX
        {
            return look.answers;
        }
        let answers = sign_of_life().await;
        *last = Some(Look { at: Instant::now(), answers });
        answers
    }

    /// Whether calls are refused, other than probes.
    pub fn is_open(&self) -> bool {
        matches!(*self.state(), State::Open { .. })
    }

    /// Begins a call; `None` when it is refused.
    #[must_use]
    pub fn enter(&self) -> Option<BreakerPermit> {
        self.enter_at(Instant::now())
    }

    /// Begins a call like [`Breaker::enter`], but never acts as the breaker's probe.
    #[must_use]
    pub fn enter_closed(&self) -> Option<BreakerPermit> {
        let is_closed = matches!(*self.state(), State::Closed(_));
        is_closed.then(|| BreakerPermit { breaker: self.clone(), is_probe: false })
    }

    fn enter_at(&self, now: Instant) -> Option<BreakerPermit> {
        let is_probe = match &mut *self.state() {
            State::Closed(_) => false,
            State::Open { probe_due, .. } => {
                if now < *probe_due {
                    return None;
                }
                *probe_due = now + PROBE_PERIOD;
                true
            }
        };
        Some(BreakerPermit { breaker: self.clone(), is_probe })
    }

    fn ended(&self, is_probe: bool, well: bool) {
        let mut state = self.state();
        match &mut *state {
            State::Closed(seconds) => {
                if count(seconds, second_number(), well) {
                    *state = State::Open { probe_due: Instant::now() + PROBE_PERIOD, good: 0 };
                    self.changed(true);
                }
            }
            // A call that began before the breaker opened is not a probe.
            State::Open { good, .. } if is_probe => {
                *good = if well { *good + 1 } else { 0 };
                if *good >= PROBES_GOOD {
                    *state = State::Closed(Default::default());
                    self.changed(false);
                }
            }
            State::Open { .. } => {}
        }
    }

    fn changed(&self, is_open: bool) {
        let name = self.dependency.as_str();
        self.metrics.breaker_is_open(name, is_open);
        if is_open {
            tracing::error!(dependency = name, "circuit breaker opened: most calls failed");
        } else {
            tracing::info!(dependency = name, "circuit breaker closed: the server answers again");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BreakerPermit {
    /// The dependency of the call.
    pub fn dependency(&self) -> Dependency {
        self.breaker.dependency
    }

    /// Reports that the server answered, with a result or an error.
    pub fn answered(self) {
        self.breaker.ended(self.is_probe, true);
    }

    /// Reports that the server did not answer.
    pub fn failed(self) {
        self.breaker.ended(self.is_probe, false);
    }

    /// Reports that the call got no connection. That is a failure of the server only if the server gives
    /// no sign of life now: else our own calls have all connections, and this returns true.
    pub async fn got_no_connection(self) -> bool {
        let is_alive = self.breaker.is_alive().await;
        if !is_alive {
            self.failed();
        }
        is_alive
    }
}

/// Seconds since the first call, from 1.
fn second_number() -> u64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed().as_secs() + 1
}

/// Counts a call in the second `now`; answers whether the breaker must open.
fn count(seconds: &mut [Second; WINDOW_SECONDS as usize], now: u64, well: bool) -> bool {
    let slot = &mut seconds[usize::try_from(now % WINDOW_SECONDS).unwrap_or(0)];
    if slot.number != now {
        *slot = Second { number: now, ..Second::default() };
    }
    slot.calls += 1;
    slot.failures += u32::from(!well);
    let recent = seconds.iter().filter(|second| second.number + WINDOW_SECONDS > now);
    let (calls, failures) = recent.fold((0, 0), |(calls, failures), second| {
        (calls + second.calls, failures + second.failures)
    });
    calls >= CALLS_MIN && failures * 2 >= calls
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::FutureExt;

    use super::*;

    fn breaker() -> Breaker {
        Breaker::new(Dependency::Redis, Metrics::new())
    }

    fn fail(breaker: &Breaker, count: u32) {
        for _ in 0..count {
            breaker.enter().expect("closed").failed();
        }
    }

    #[test]
    fn it_opens_probes_and_closes() {
        let breaker = breaker();
        fail(&breaker, CALLS_MIN - 1);
        assert!(!breaker.is_open());
        let late = breaker.enter().expect("closed");
        fail(&breaker, 1);
        let mut now = Instant::now();
        assert!(breaker.is_open() && breaker.enter_at(now).is_none());
        // What began before it opened proves nothing about now.
        late.answered();
        for (answered, still_open) in
            [(true, true), (false, true), (true, true), (true, true), (true, false)]
        {
            now += PROBE_PERIOD;
            assert!(breaker.enter_closed().is_none(), "a probe is due, and this is none");
            let probe = breaker.enter_at(now).expect("a probe is due");
            assert!(breaker.enter_at(now).is_none(), "one a second");
            if answered {
                probe.answered();
            } else {
                probe.failed();
            }
            assert_eq!(breaker.is_open(), still_open);
        }
        assert!(breaker.enter().is_some() && breaker.enter_closed().is_some());
    }

    #[test]
    fn a_minority_of_failures_or_an_old_one_does_not_open_it() {
        let mut seconds = Default::default();
        let opened = (0..100).any(|call| count(&mut seconds, 1, call % 5 < 3));
        assert!(!opened);
        let mut seconds = Default::default();
        assert!(!(0..CALLS_MIN - 1).any(|_| count(&mut seconds, 1, false)));
        assert!(!count(&mut seconds, 1 + WINDOW_SECONDS, false), "those are forgotten");
    }

    #[tokio::test]
    async fn a_call_without_a_connection_counts_only_when_the_server_gives_no_sign_of_life() {
        for answers in [true, false] {
            let breaker = breaker();
            breaker.check_by(Box::new(move || Box::pin(async move { answers })));
            for _ in 0..CALLS_MIN {
                let is_alive = breaker.enter().expect("closed").got_no_connection().await;
                assert_eq!(is_alive, answers);
            }
            assert_eq!(breaker.is_open(), !answers);
        }
    }

    /// With a look for each, the last of many callers would wait until the server seems silent.
    #[tokio::test]
    async fn callers_at_the_same_time_share_a_look_for_a_sign_of_life() {
        let breaker = breaker();
        let looks = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&looks);
        breaker.check_by(Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Box::pin(tokio::time::sleep(LOOK_AGE_MAX / 10).map(|()| false))
        }));
        let many = futures::future::join_all((0..100).map(|_| breaker.is_alive())).await;
        assert_eq!(many, [false; 100]);
        let shared = looks.load(Ordering::Relaxed);
        assert!(shared < 50, "{shared} looks");
        // What was seen a while ago says nothing of now.
        while looks.load(Ordering::Relaxed) == shared {
            breaker.is_alive().await;
            tokio::time::sleep(LOOK_AGE_MAX / 10).await;
        }
    }

    #[test]
    fn a_call_that_says_nothing_is_not_counted() {
        let breaker = breaker();
        for _ in 0..2 * CALLS_MIN {
            drop(breaker.enter().expect("closed"));
        }
        assert!(!breaker.is_open());
    }
}

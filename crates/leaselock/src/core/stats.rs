//! The reports of a lock: counters and times, for a metrics layer to read; and its decisions, for a check that compares
//! a run with the lock's model (`tests/protocol-models`).
//!
//! Its decisions are events of `tracing` at the level `TRACE` and under the target `leaselock::protocol`: each costs a look
//! at one number while nobody listens. A command is said when it is sent and when it is answered; the server runs it at some
//! moment between.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Declares each counter once, for [`Stats`] and for [`StatsSnapshot`].
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one lock. All only rise, except `waiting_now`.
        #[derive(Debug, Default)]
        pub struct Stats {
            $(pub(crate) $name: AtomicU64,)*
            pub(crate) wait: Times,
            pub(crate) hold: Times,
            pub(crate) renewal_lag: Times,
        }

        /// The values of [`Stats`] at about one moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct StatsSnapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// From the call to the grant, of all granted acquires.
            pub wait: TimesSnapshot,
            /// From the grant to the start of the release or to the hand-over.
            pub hold: TimesSnapshot,
            /// From the moment at which a renewal was due to the backend's confirmation.
            pub renewal_lag: TimesSnapshot,
        }

        impl Stats {
            /// All counters, read one after the other, so not at one instant.
            pub fn snapshot(&self) -> StatsSnapshot {
                StatsSnapshot {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    wait: self.wait.snapshot(),
                    hold: self.hold.snapshot(),
                    renewal_lag: self.renewal_lag.snapshot(),
                }
            }
        }

        impl StatsSnapshot {
            /// Every counter with its name, for a metrics page.
            pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Guards granted, also to callers that had gone meanwhile.
    acquired,
    /// Acquires that were not granted at their first attempt, whatever their outcome.
    contended,
    /// Acquires answered with `Busy`.
    busy,
    /// Acquires answered with `TimedOut`.
    timed_out,
    /// Acquires answered with `Unavailable`.
    unavailable,
    /// Guards that another guard of this client handed over, without asking the backend.
    handed_over,
    /// Guards that the release of another client granted, by a notification.
    handed_over_by_others,
    /// Guards whose `lost` signal fired.
    lost,
    /// Writes that the guarded store refused for their fence, counted by [`Stats::count_fenced`].
    fenced,
    /// Renewals that the backend confirmed.
    renewals,
    /// Renewals without a confirmation: errors, time-outs and holds found to be gone.
    renew_failures,
    /// Commands in which renewals were sent: several holds may share one.
    renewal_batches,
    /// Holds that lasted until they were released or handed over.
    released,
    /// Holds that had ended before their release, or whose release was not confirmed in time.
    already_lost,
    /// Guards dropped without a (finished) release, which the background releaser took over.
    released_by_drop,
    /// Dropped guards that were left to expire because the queue of releases was full or closed.
    left_to_expire,
    /// Callers of this client that wait in a queue right now, without the one at its head.
    waiting_now,
}

impl Stats {
    /// Counts a write that the guarded store refused because it had seen a higher fence. To be called
    /// by the user of the lock, who alone sees the refusal.
    pub fn count_fenced(&self) {
        count(&self.fenced);
    }
}

/// The number of buckets of [`Times`]: the bounds go from 64 µs to 2 s and double; the last bucket
/// has no bound.
const BUCKETS: usize = 17;

/// A histogram of durations.
#[derive(Debug, Default)]
pub(crate) struct Times {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Times {
    /// Counts one.
    pub(crate) fn add(&self, duration: Duration) {
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        // How many bits are left above 64 µs.
        let bucket = (u64::BITS - (duration_us >> 6).leading_zeros()) as usize;
        self.counts[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(duration_us, Ordering::Relaxed);
    }

    fn snapshot(&self) -> TimesSnapshot {
        TimesSnapshot {
            counts: std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

/// A histogram of durations at about one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimesSnapshot {
    counts: [u64; BUCKETS],
    /// The sum of all durations, in microseconds.
    pub sum_us: u64,
}

impl TimesSnapshot {
    /// How many durations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// For each upper bound in microseconds, how many durations were below it. The others are above
    /// the last bound.
    pub fn below_us(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut below = 0;
        self.counts[..BUCKETS - 1].iter().zip(6..).map(move |(count, bits)| {
            below += count;
            (1 << bits, below)
        })
    }
}

/// Says what was decided about a token's hold of a name, with further values.
macro_rules! protocol {
    ($what:literal, $name:expr, $token:expr $(, $field:ident = $value:expr)* $(,)?) => {
        tracing::trace!(
            target: "leaselock::protocol",
            what = $what,
            name = %$name,
            token = $token.as_str()
            $(, $field = $value)*
        )
    };
}

pub(crate) use protocol;

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

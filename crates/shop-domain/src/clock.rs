//! The wall clock, which tests can move, and the clock of the ledger, which the service only reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use time::{Duration, OffsetDateTime};

/// Value before the first reading of the ledger's clock.
const UNHEARD: i64 = i64::MIN;

/// The one source of time of day in the service; clones share it.
///
/// [`Self::now`] is this machine's time: schedules, tokens and tickets are compared with it.
/// [`Self::ledger_now`] is the time of the ledger: orders and their holds, which it ends, are stamped
/// with it. Leases and deadlines use the monotonic clock.
#[derive(Clone, Debug)]
pub struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    shift_ms: AtomicI64,
    /// The zero of the monotonic clock of this process.
    begin: Instant,
    /// The ledger's time at `begin`, in microseconds since 1970, or [`UNHEARD`].
    ledger_begin_us: AtomicI64,
}

impl Default for Clock {
    fn default() -> Self {
        let shift_ms = AtomicI64::new(0);
        let ledger_begin_us = AtomicI64::new(UNHEARD);
        Self { shared: Arc::new(Shared { shift_ms, begin: Instant::now(), ledger_begin_us }) }
    }
}

impl Clock {
    /// This machine's time in UTC, cut to microseconds as in the database.
    pub fn now(&self) -> OffsetDateTime {
        cut(OffsetDateTime::now_utc() + self.shifted())
    }

    /// By how much tests have moved this clock.
    pub fn shifted(&self) -> Duration {
        Duration::milliseconds(self.shared.shift_ms.load(Ordering::Relaxed))
    }

    /// The time of the ledger: its last reading plus the monotonic time since. Before the
    /// first reading, this machine's time.
    ///
    /// Every purchase has read its item a moment ago, and with it the time, so that this costs no
    /// round trip.
    pub fn ledger_now(&self) -> OffsetDateTime {
        let begin_us = self.shared.ledger_begin_us.load(Ordering::Relaxed);
        if begin_us == UNHEARD {
            return cut(OffsetDateTime::now_utc());
        }
        let now_us = begin_us.saturating_add(self.us_since_begin(Instant::now()));
        let now = OffsetDateTime::from_unix_timestamp_nanos(i128::from(now_us) * 1_000);
        now.unwrap_or_else(|_| cut(OffsetDateTime::now_utc()))
    }

    /// Takes a reading of the ledger's clock, which was asked at `asked` and has just answered `read`.
    ///
    /// A reading is late by at most the time that its answer took. An earlier reading within that
    /// range took less time, and is kept.
    pub fn heard_from_ledger(&self, read: OffsetDateTime, asked: Instant) {
        let Ok(read_us) = i64::try_from(read.unix_timestamp_nanos() / 1_000) else { return };
        let heard = Instant::now();
        let earliest = read_us.saturating_sub(self.us_since_begin(heard));
        let latest = read_us.saturating_sub(self.us_since_begin(asked));
        let known = self.shared.ledger_begin_us.load(Ordering::Relaxed);
        if !(earliest..=latest).contains(&known) {
            self.shared.ledger_begin_us.store(earliest, Ordering::Relaxed);
        }
    }

    /// Moves this clock and its clones by `by` (tests only; the host's clock is never touched, and
    /// the ledger's is not moved).
    pub fn shift(&self, by: Duration) {
        let by_ms = i64::try_from(by.whole_milliseconds()).unwrap_or(i64::MAX);
        self.shared.shift_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    fn us_since_begin(&self, instant: Instant) -> i64 {
        let since = instant.saturating_duration_since(self.shared.begin);
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
}

fn cut(now: OffsetDateTime) -> OffsetDateTime {
    now.replace_microsecond(now.microsecond()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time by which `clock` is ahead of this machine's clock.
    fn ahead(clock: &Clock) -> Duration {
        clock.ledger_now() - OffsetDateTime::now_utc()
    }

    fn about(seen: Duration, expected: Duration) -> bool {
        // A machine that is busy may stop a test anywhere.
        (seen - expected).abs() < Duration::MINUTE
    }

    #[test]
    fn the_ledgers_clock_is_what_the_ledger_said_moved_on() {
        let clock = Clock::default();
        assert!(about(ahead(&clock), Duration::ZERO), "nothing was heard");
        clock.shift(Duration::HOUR);
        assert!(about(ahead(&clock), Duration::ZERO), "tests move this machine's clock alone");
        // In microseconds, as the ledger answers.
        let read = cut(OffsetDateTime::now_utc() - Duration::HOUR);
        clock.heard_from_ledger(read, Instant::now());
        assert!(about(ahead(&clock), -Duration::HOUR));
        assert!(clock.ledger_now() >= read);
        assert!(clock.clone().ledger_now() >= read);
        // The ledger's clock was set.
        clock.heard_from_ledger(read + Duration::HOUR * 3, Instant::now());
        assert!(about(ahead(&clock), Duration::HOUR * 2));
        clock.heard_from_ledger(read, Instant::now());
        assert!(about(ahead(&clock), -Duration::HOUR));
    }

    #[test]
    fn a_slow_answer_does_not_beat_a_quick_one() {
        let clock = Clock::default();
        let asked_long_ago = clock.shared.begin;
        std::thread::sleep(std::time::Duration::from_millis(20));
        let read = OffsetDateTime::now_utc();
        clock.heard_from_ledger(read, Instant::now());
        let quick = clock.shared.ledger_begin_us.load(Ordering::Relaxed);
        // It was written ten milliseconds before, and arrives only now.
        clock.heard_from_ledger(read - Duration::milliseconds(10), asked_long_ago);
        assert_eq!(clock.shared.ledger_begin_us.load(Ordering::Relaxed), quick);
    }
}

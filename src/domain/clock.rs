//! The wall clock, which tests can move.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use time::{Duration, OffsetDateTime};

/// The one source of wall-clock time in the service; clones share their shift.
///
/// Only schedules and stamps read it. Leases and deadlines count on the monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    shift_ms: Arc<AtomicI64>,
}

impl Clock {
    /// Now in UTC, cut to microseconds, which is what the database keeps.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        let shift = Duration::milliseconds(self.shift_ms.load(Ordering::Relaxed));
        let now = OffsetDateTime::now_utc() + shift;
        now.replace_microsecond(now.microsecond()).unwrap_or(now)
    }

    /// Moves this clock and its clones by `by` (tests only; the host's clock is never touched).
    pub fn shift(&self, by: Duration) {
        let by_ms = i64::try_from(by.whole_milliseconds()).unwrap_or(i64::MAX);
        self.shift_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

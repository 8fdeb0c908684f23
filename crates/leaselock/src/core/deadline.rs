//! The end of a lease on this machine's clocks.
//!
//! The monotonic clock, by which tokio waits, stands still while the machine is suspended. The lease at
//! the backend does not. Linux has a second clock that goes on then, `CLOCK_BOOTTIME`: a lease is over
//! when it is over by either. A virtual machine that its host pauses may learn of the pause from
//! neither.

use std::time::Duration;

use tokio::time::Instant;

use super::store::local_lease;

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    /// Since the machine was started, suspended times included; zero where no clock tells.
    since_start: Duration,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { instant: Instant::now(), since_start: since_start() }
    }
}

/// The moment until which nobody else can hold a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) instant: Instant,
    since_start: Duration,
}

impl Deadline {
    /// The deadline of a lease whose command was sent at `sent_at`.
    pub(crate) fn of(sent_at: Moment, lease: Duration) -> Self {
        let lasts = local_lease(lease);
        let Moment { instant, since_start } = sent_at;
        Self { instant: instant + lasts, since_start: since_start + lasts }
    }

    /// The later one, of two deadlines of one hold.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.instant > self.instant { other } else { self }
    }

    /// The time that is left, by the clock on which less is left.
    pub(crate) fn left(&self) -> Duration {
        let by_monotonic_clock = self.instant.saturating_duration_since(Instant::now());
        by_monotonic_clock.min(self.since_start.saturating_sub(since_start()))
    }

    /// Whether it has passed by one of the clocks.
    pub(crate) fn has_passed(&self) -> bool {
        Instant::now() >= self.instant || since_start() >= self.since_start
    }
}

#[cfg(target_os = "linux")]
fn since_start() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(now).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn since_start() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    #[cfg(target_os = "linux")]
    #[test]
    fn a_lease_that_ended_while_the_machine_was_suspended_has_passed() {
        // The monotonic clock stood still for a lease.
        let mut sent_at = Moment::now();
        assert!(!Deadline::of(sent_at, LEASE).has_passed());
        sent_at.since_start -= LEASE;
        let deadline = Deadline::of(sent_at, LEASE);
        assert!(Instant::now() < deadline.instant);
        assert!(deadline.has_passed(), "another caller may hold the name");
        assert_eq!(deadline.left(), Duration::ZERO, "it must not be handed over");
    }

    #[test]
    fn a_deadline_passes_on_the_monotonic_clock() {
        let mut sent_at = Moment::now();
        sent_at.instant -= LEASE;
        assert!(Deadline::of(sent_at, LEASE).has_passed());
    }
}

//! What happened so far, as plain counters that some metrics layer may read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counters of one lock. All only rise, except `waiting_now`.
#[derive(Debug, Default)]
pub struct Stats {
    pub(super) acquired: AtomicU64,
    pub(super) contended: AtomicU64,
    pub(super) busy: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) unavailable: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) renewals: AtomicU64,
    pub(super) renew_failures: AtomicU64,
    pub(super) released: AtomicU64,
    pub(super) already_lost: AtomicU64,
    pub(super) released_by_drop: AtomicU64,
    pub(super) left_to_expire: AtomicU64,
    pub(super) wait_us: AtomicU64,
    pub(super) hold_us: AtomicU64,
    pub(super) waiting_now: AtomicU64,
}

impl Stats {
    /// All counters, read one after the other (so not one instant's picture).
    pub fn snapshot(&self) -> StatsSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StatsSnapshot {
            acquired: read(&self.acquired),
            contended: read(&self.contended),
            busy: read(&self.busy),
            timed_out: read(&self.timed_out),
            unavailable: read(&self.unavailable),
            lost: read(&self.lost),
            renewals: read(&self.renewals),
            renew_failures: read(&self.renew_failures),
            released: read(&self.released),
            already_lost: read(&self.already_lost),
            released_by_drop: read(&self.released_by_drop),
            left_to_expire: read(&self.left_to_expire),
            wait_us: read(&self.wait_us),
            hold_us: read(&self.hold_us),
            waiting_now: read(&self.waiting_now),
        }
    }
}

/// The values of [`Stats`] at about one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Guards granted, also those whose caller had gone meanwhile.
    pub acquired: u64,
    /// Acquires that did not get the name at their first look, whatever came of them.
    pub contended: u64,
    /// Acquires answered with `Busy`.
    pub busy: u64,
    /// Acquires answered with `TimedOut`.
    pub timed_out: u64,
    /// Acquires answered with `Unavailable`.
    pub unavailable: u64,
    /// Guards whose `lost` signal fired.
    pub lost: u64,
    /// Renewals that the backend confirmed.
    pub renewals: u64,
    /// Renewals without a confirmation: errors, time-outs and holds found to be gone.
    pub renew_failures: u64,
    /// Holds that were given back while they were ours.
    pub released: u64,
    /// Holds that were no longer ours, or could not be confirmed as ours, when given back.
    pub already_lost: u64,
    /// Guards dropped without a (finished) release, which the background releaser took over.
    pub released_by_drop: u64,
    /// Dropped guards that found the releaser's queue full or closed and were left to expire.
    pub left_to_expire: u64,
    /// Total time from the call to the grant, in microseconds, of all granted acquires.
    pub wait_us: u64,
    /// Total time from the grant to the start of the release, in microseconds.
    pub hold_us: u64,
    /// Callers waiting in line in this process right now, without the one at the head.
    pub waiting_now: u64,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Adds a duration in microseconds.
pub(super) fn add_time(counter: &AtomicU64, duration: Duration) {
    let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    counter.fetch_add(duration_us, Ordering::Relaxed);
}

//! The time window of a sale.

use time::OffsetDateTime;

use super::Refusal;

/// A half-open interval of time: open from `starts_at` until just before `ends_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaleWindow {
    starts_at: OffsetDateTime,
    ends_at: OffsetDateTime,
}

/// The phase of a sale at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the start.
    Upcoming,
    /// Within the window.
    Open,
    /// At the end or after it.
    Ended,
}

impl SaleWindow {
    /// The last year that a schedule may name: what MySQL's DATETIME and RFC 3339 both hold.
    pub const YEAR_MAX: i32 = 9999;

    /// Takes a start and an end; `None` unless the start is before the end and both lie between
    /// the years 1970 and [`SaleWindow::YEAR_MAX`].
    #[must_use]
    pub fn new(starts_at: OffsetDateTime, ends_at: OffsetDateTime) -> Option<Self> {
        let years = 1970..=Self::YEAR_MAX;
        let in_range = years.contains(&starts_at.year()) && years.contains(&ends_at.year());
        (in_range && starts_at < ends_at).then_some(Self { starts_at, ends_at })
    }

    /// The phase of the sale at `now`.
    #[must_use]
    pub fn phase(&self, now: OffsetDateTime) -> Phase {
        if now < self.starts_at {
            Phase::Upcoming
        } else if now < self.ends_at {
            Phase::Open
        } else {
            Phase::Ended
        }
    }

    /// Whether a sale that is paused, or not, is open at `now`.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_open(&self, now: OffsetDateTime, is_paused: bool) -> Result<(), Refusal> {
        match self.phase(now) {
            Phase::Upcoming => Err(Refusal::SaleNotStarted { starts_at: self.starts_at }),
            Phase::Ended => Err(Refusal::SaleEnded),
            Phase::Open if is_paused => Err(Refusal::SalePaused),
            Phase::Open => Ok(()),
        }
    }

    /// The first instant at which it is open.
    #[must_use]
    pub fn starts_at(&self) -> OffsetDateTime {
        self.starts_at
    }

    /// The first instant at which it is over.
    #[must_use]
    pub fn ends_at(&self) -> OffsetDateTime {
        self.ends_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::Duration;
    use time::macros::datetime;

    #[test]
    fn the_start_is_inside_and_the_end_is_outside() {
        let window =
            SaleWindow::new(datetime!(2026-11-11 00:00 UTC), datetime!(2026-11-12 00:00 UTC))
                .expect("start before end");
        assert_eq!(window.phase(datetime!(2026-11-10 23:59:59.999 UTC)), Phase::Upcoming);
        assert_eq!(window.phase(datetime!(2026-11-11 00:00 UTC)), Phase::Open);
        assert_eq!(window.phase(datetime!(2026-11-12 00:00 UTC)), Phase::Ended);
    }

    #[test]
    fn an_empty_or_reversed_window_is_refused() {
        let instant = datetime!(2026-11-11 00:00 UTC);
        assert_eq!(SaleWindow::new(instant, instant), None);
        assert_eq!(SaleWindow::new(instant, instant - Duration::SECOND), None);
    }
}

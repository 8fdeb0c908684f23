//! Times in requests.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::problem::Problem;
use crate::problems;

/// Reads an RFC 3339 time with a zone.
///
/// # Errors
/// 422 `invalid_schedule`.
pub fn instant(text: &str) -> Result<OffsetDateTime, Problem> {
    let parsed = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| &problems::INVALID_SCHEDULE)?;
    // At both ends of the calendar a time may have a year in its own zone that MySQL has not in UTC.
    let in_utc = parsed.checked_to_offset(time::UtcOffset::UTC).filter(|time| time.year() >= 0);
    in_utc.ok_or_else(|| problems::INVALID_SCHEDULE.problem())
}

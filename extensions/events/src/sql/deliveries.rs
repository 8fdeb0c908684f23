//! Deliveries to endpoints: which are due, and what came of them.
//!
//! One instance at a time delivers to an endpoint: it claims the row for a while, and each success
//! or refusal after which it goes on prolongs the claim. All times are the database's.

use std::time::Duration;

use sqlx::MySqlConnection;

use super::endpoints::{Endpoint, find};
use mysql_connection::statement::{Binds, Read, Write};
use mysql_connection::{Database, transact};
use shop_domain::{EndpointId, from_row};

/// The longest error that is stored, in characters.
const ERROR_LENGTH_MAX: usize = 300;

/// The claim of one instance to one endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub pool: &'a Database,
    pub endpoint: EndpointId,
    /// The name of the instance.
    pub instance: &'a str,
    /// How long it lasts after it was taken or prolonged.
    pub lease: Duration,
}

/// A range of the log that is delivered again.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    pub id: i64,
    /// The next position to deliver.
    pub next: i64,
    /// The last position to deliver.
    pub last: i64,
    /// Tries in which the receiver refused the next event.
    pub refusals: u32,
}

from_row!(Replay { id, next: "next_position", last: "last_position", refusals });

/// How far an endpoint is behind.
#[derive(Clone, Copy, Debug)]
pub struct Lag {
    pub endpoint: EndpointId,
    /// Events of the log that it has not got.
    pub events: i64,
    /// The age of the oldest of them in seconds; 0 if there is none.
    pub seconds: i64,
}

impl Claim<'_> {
    /// Takes the endpoint, and reads it; `None` when there is nothing to do for this instance.
    pub async fn take(&self) -> sqlx::Result<Option<Endpoint>> {
        let taken = sqlx::query(
            "UPDATE event_endpoints SET claimed_by = ?, \
             claimed_until = UTC_TIMESTAMP(6) + INTERVAL ? SECOND \
             WHERE id = ? AND enabled AND next_try_at <= UTC_TIMESTAMP(6) \
             AND claimed_until <= UTC_TIMESTAMP(6)",
        )
        .binds((self.instance, self.lease.as_secs(), self.endpoint.get()))
        .changed(self.pool)
        .await?;
        if taken == 0 {
            return Ok(None);
        }
        find(self.pool, self.endpoint).await
    }

    /// Ends the claim.
    ///
    /// # Errors
    /// The database's; then it ends with its time.
    pub async fn end(&self) -> sqlx::Result<()> {
        sqlx::query(
            "UPDATE event_endpoints SET claimed_by = '', claimed_until = UTC_TIMESTAMP(6) \
             WHERE id = ? AND claimed_by = ?",
        )
        .binds((self.endpoint.get(), self.instance))
        .run(self.pool)
        .await
    }

    /// Notes that the receiver has everything up to the position `now`, where it had everything up
    /// to `before`, and prolongs the claim. `false` when the claim is lost or the endpoint is
    /// switched off.
    pub async fn delivered(&self, positions: (i64, i64)) -> sqlx::Result<bool> {
        let answered =
            "failures = 0, refusals = 0, last_error = NULL, delivered_at = UTC_TIMESTAMP(6),";
        self.advance(positions, answered).await
    }

    /// Notes a failed try, after which the next one has to wait for `pause`. An endpoint that was switched off meanwhile keeps
    /// the reason of that.
    pub async fn failed(&self, error: &str, is_refusal: bool, pause: Duration) -> sqlx::Result<()> {
        sqlx::query(
            "UPDATE event_endpoints SET failures = failures + 1, refusals = refusals + ?, \
             last_error = IF(enabled, ?, last_error), \
             next_try_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
             WHERE id = ? AND claimed_by = ?",
        )
        .binds((
            is_refusal,
            shortened(error),
            u64::try_from(pause.as_micros()).unwrap_or(u64::MAX),
            self.endpoint.get(),
            self.instance,
        ))
        .run(self.pool)
        .await
    }

    /// Notes that nothing up to the position `now` is for the receiver, else like [`Claim::delivered`]. With the same
    /// position twice it only prolongs the claim.
    pub async fn skipped(&self, positions: (i64, i64)) -> sqlx::Result<bool> {
        self.advance(positions, "").await
    }

    async fn advance(&self, (before, now): (i64, i64), also: &str) -> sqlx::Result<bool> {
        let statement = format!(
            "UPDATE event_endpoints SET delivered = ?, {also} \
             claimed_until = UTC_TIMESTAMP(6) + INTERVAL ? SECOND \
             WHERE id = ? AND claimed_by = ? AND delivered = ? AND enabled"
        );
        let noted = sqlx::query(&statement)
            .binds((now, self.lease.as_secs(), self.endpoint.get(), self.instance, before))
            .changed(self.pool)
            .await?;
        Ok(noted == 1)
    }

    /// Writes a dead letter. `delivered` is the position up to which the receiver then has what it gets from the log: the
    /// dead letter's own, unless a replay was refused.
    pub async fn set_aside(&self, position: i64, reason: &str, delivered: i64) -> sqlx::Result<()> {
        transact(self.pool, |transaction| {
            Box::pin(self.write_aside(transaction, position, reason, delivered))
        })
        .await
    }

    async fn write_aside(
        &self,
        transaction: &mut MySqlConnection,
        position: i64,
        reason: &str,
        delivered: i64,
    ) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO event_dead_letters (endpoint_id, position, reason, created_at) \
             VALUES (?, ?, ?, UTC_TIMESTAMP(6)) \
             ON DUPLICATE KEY UPDATE reason = VALUES(reason), created_at = VALUES(created_at)",
        )
        .binds((self.endpoint.get(), position, shortened(reason)))
        .run(&mut *transaction)
        .await?;
        let forgiven = sqlx::query(
            "UPDATE event_endpoints SET failures = 0, refusals = 0, \
             delivered = GREATEST(delivered, ?), next_try_at = UTC_TIMESTAMP(6) \
             WHERE id = ? AND claimed_by = ?",
        )
        .binds((delivered, self.endpoint.get(), self.instance))
        .changed(transaction)
        .await?;
        if forgiven == 1 {
            return Ok(());
        }
        // Another instance has the endpoint now, and judges for itself.
        Err(sqlx::Error::RowNotFound)
    }

    /// The oldest range that is to be delivered again.
    pub async fn replay(&self) -> sqlx::Result<Option<Replay>> {
        sqlx::query_as(
            "SELECT id, next_position, last_position, refusals FROM event_replays \
             WHERE endpoint_id = ? ORDER BY id LIMIT 1",
        )
        .bind(self.endpoint.get())
        .first(self.pool)
        .await
    }

    /// Notes that a replay was delivered up to the position `now`: the dead letters up to there
    /// are none any more, and a replay that has come to its end is deleted.
    ///
    /// # Errors
    /// The database's; then a part is delivered once more.
    pub async fn replayed(&self, replay: &Replay, now: i64) -> sqlx::Result<()> {
        sqlx::query(
            "DELETE FROM event_dead_letters WHERE endpoint_id = ? AND position BETWEEN ? AND ?",
        )
        .binds((self.endpoint.get(), replay.next, now))
        .run(self.pool)
        .await?;
        self.skip_replay(replay, now, 0).await
    }

    /// Counts a refusal of the next event of a replay.
    pub async fn replay_refused(&self, replay: &Replay) -> sqlx::Result<()> {
        sqlx::query("UPDATE event_replays SET refusals = refusals + 1 WHERE id = ?")
            .bind(replay.id)
            .run(self.pool)
            .await
    }

    /// Goes on with a replay behind the position `now`, with the refusals that the event there has so far. Does nothing
    /// when another instance has moved it since it was read.
    pub async fn skip_replay(&self, replay: &Replay, now: i64, refusals: u32) -> sqlx::Result<()> {
        let noted = if now >= replay.last {
            sqlx::query("DELETE FROM event_replays WHERE id = ? AND next_position = ?")
                .binds((replay.id, replay.next))
        } else {
            sqlx::query(
                "UPDATE event_replays SET next_position = ?, refusals = ? \
                 WHERE id = ? AND next_position = ?",
            )
            .binds((now + 1, refusals, replay.id, replay.next))
        };
        noted.run(self.pool).await
    }
}

/// Lists the endpoints that have something to get, are not in a pause, and are not claimed.
pub async fn due(pool: &Database) -> sqlx::Result<Vec<EndpointId>> {
    sqlx::query_scalar(
        "SELECT id FROM event_endpoints WHERE enabled \
         AND next_try_at <= UTC_TIMESTAMP(6) AND claimed_until <= UTC_TIMESTAMP(6) \
         AND (delivered < (SELECT last_position FROM event_relay WHERE event_relay.id = 1) \
          OR EXISTS (SELECT 1 FROM event_replays WHERE endpoint_id = event_endpoints.id))",
    )
    .all(pool)
    .await
}

/// How far each enabled endpoint is behind.
pub async fn lags(pool: &Database) -> sqlx::Result<Vec<Lag>> {
    sqlx::query_as(
        "SELECT event_endpoints.id AS id, GREATEST(last_position - delivered, 0) AS events, \
         COALESCE(TIMESTAMPDIFF(SECOND, event_log.created_at, UTC_TIMESTAMP(6)), 0) AS seconds \
         FROM event_endpoints JOIN event_relay ON event_relay.id = 1 \
         LEFT JOIN event_log ON event_log.position = delivered + 1 WHERE enabled",
    )
    .all(pool)
    .await
}

/// The last position that every enabled endpoint has which was created in the last `minutes`; `None` if there is no such
/// endpoint.
pub async fn delivered_to_new(pool: &Database, minutes: u32) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar(
        "SELECT MIN(delivered) FROM event_endpoints \
         WHERE enabled AND created_at > UTC_TIMESTAMP(6) - INTERVAL ? MINUTE",
    )
    .bind(minutes)
    .one(pool)
    .await
}

/// Switches endpoints off that are behind the position `last`, and returns their number: the events
/// up to there are about to be deleted.
pub async fn switch_off_behind(pool: &Database, last: i64) -> sqlx::Result<u64> {
    sqlx::query(
        "UPDATE event_endpoints SET enabled = FALSE, \
         last_error = 'switched off: it was further behind than events are kept' \
         WHERE enabled AND delivered < ?",
    )
    .bind(last)
    .changed(pool)
    .await
}

fn shortened(error: &str) -> String {
    error.chars().take(ERROR_LENGTH_MAX).collect()
}

from_row!(Lag { endpoint: "id", events, seconds });

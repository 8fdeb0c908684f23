//! The receiving end of an endpoint.

use outgoing_https::{Connection, Target};
use serde::Serialize;
use time::OffsetDateTime;
use webhooks::{Failure, Message, WebhookClient};

use crate::route::EventBody;
use crate::sql::endpoints::Endpoint;
use crate::sql::event_log::LoggedEvent;

/// A receiver, with the connection to it.
pub(super) struct Receiver {
    target: Target,
    secret: String,
    kept: Option<Connection>,
}

/// The body of a webhook.
#[derive(Serialize)]
struct Body {
    events: Vec<EventBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    covers: Option<Covers>,
}

/// The positions of which a message of an endpoint with a filter has everything that matches.
#[derive(Serialize)]
struct Covers {
    first: i64,
    last: i64,
}

impl Receiver {
    /// The receiver of an endpoint, not connected yet; `None` for an address that cannot be read.
    pub fn of(endpoint: &Endpoint) -> Option<Self> {
        let target = Target::parse(&endpoint.target).ok()?;
        Some(Self { target, secret: endpoint.secret.clone(), kept: None })
    }

    /// Sends events, all or none; with a filter, what matches of the positions behind `span.0` up to `span.1`.
    ///
    /// # Errors
    /// See [`Failure`]. The receiver may have got them all the same.
    pub async fn send(
        &mut self,
        webhooks: &WebhookClient,
        (events, span): (&[LoggedEvent], Option<(i64, i64)>),
        now: OffsetDateTime,
    ) -> Result<(), Failure> {
        let body = serde_json::to_vec(&Body {
            events: events_of(events)?,
            covers: span.map(|(before, last)| Covers { first: before + 1, last }),
        });
        let body = body.map_err(|error| Failure::Away(error.to_string()))?.into();
        let first = events.first().map_or("", |event| &event.id);
        let message = Message { id: format!("{first}-{}", events.len()), body, sent_at: now };
        webhooks.post(&self.target, &self.secret, &message, &mut self.kept).await
    }
}

/// An event that cannot be read counts as refused: it becomes a dead letter, and those behind it are delivered.
fn events_of(events: &[LoggedEvent]) -> Result<Vec<EventBody>, Failure> {
    let events: Vec<EventBody> = events.iter().map(EventBody::from).collect();
    if events.iter().any(|event| event.data.is_none()) {
        return Err(Failure::Refused("event not readable".to_owned()));
    }
    Ok(events)
}

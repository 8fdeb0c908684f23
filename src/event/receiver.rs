//! The receiving end of an endpoint: a webhook or a Redis stream.

use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::target::Target;
use super::webhook::{Failure, Kept, Message, WebhookClient};
use gates::redis_store::RedisClient;
use gates::redis_store::event_stream::{self, StreamEntry};
use ledger::rows::endpoints::Endpoint;
use ledger::rows::event_log::LoggedEvent;

/// The clients of both kinds of receivers.
#[derive(Clone)]
pub struct Clients {
    /// For webhooks.
    pub webhooks: WebhookClient,
    /// For streams.
    pub redis: RedisClient,
    /// Entries that a stream keeps, about.
    pub stream_length_max: u64,
}

/// A receiver, with the connection to it.
pub(super) enum Receiver {
    /// A webhook.
    Webhook { target: Target, secret: String, kept: Option<Kept> },
    /// The name of a stream.
    Stream(String),
    /// An address or a filter that cannot be read.
    Unreadable,
}

/// The body of a webhook.
#[derive(Serialize)]
struct Body<'a> {
    events: Vec<EventOf<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    covers: Option<Covers>,
}

/// The positions of which a message of an endpoint with a filter has everything that matches.
#[derive(Serialize)]
struct Covers {
    first: i64,
    last: i64,
}

#[derive(Serialize)]
struct EventOf<'a> {
    id: &'a str,
    position: i64,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(with = "time::serde::rfc3339")]
    timestamp: OffsetDateTime,
    data: &'a RawValue,
}

impl Receiver {
    /// The receiver of an endpoint, not connected yet.
    #[must_use]
    pub fn of(endpoint: &Endpoint) -> Self {
        match (endpoint.kind.as_str(), Target::parse(&endpoint.target)) {
            ("redis-stream", _) => Self::Stream(endpoint.target.clone()),
            ("webhook", Ok(target)) => {
                Self::Webhook { target, secret: endpoint.secret.clone(), kept: None }
            }
            _ => Self::Unreadable,
        }
    }

    /// Sends events, all or none; with a filter, what matches of the positions behind `span.0` up to `span.1`.
    ///
    /// # Errors
    /// See [`Failure`]. The receiver may have got them all the same.
    pub async fn send(
        &mut self,
        clients: &Clients,
        (events, span): (&[LoggedEvent], Option<(i64, i64)>),
        now: OffsetDateTime,
    ) -> Result<(), Failure> {
        match self {
            Self::Webhook { target, secret, kept } => {
                let body = serde_json::to_vec(&Body {
                    events: events_of(events)?,
                    covers: span.map(|(before, last)| Covers { first: before + 1, last }),
                });
                let body = body.map_err(|error| Failure::Away(error.to_string()))?.into();
                let first = events.first().map_or("", |event| &event.id);
                let message =
                    Message { id: format!("{first}-{}", events.len()), body, sent_at: now };
                clients.webhooks.post(target, secret, &message, kept).await
            }
            Self::Stream(name) => {
                let times: Vec<String> = events
                    .iter()
                    .map(|event| event.created_at.format(&Rfc3339).unwrap_or_default())
                    .collect();
                let entries: Vec<StreamEntry<'_>> = events
                    .iter()
                    .zip(&times)
                    .map(|(event, timestamp)| StreamEntry {
                        id: &event.id,
                        position: event.position,
                        kind: &event.kind,
                        timestamp,
                        data: &event.payload,
                    })
                    .collect();
                event_stream::append(&clients.redis, name, &entries, clients.stream_length_max)
                    .await
                    .map_err(|error| Failure::Away(format!("Redis: {error}")))
            }
            Self::Unreadable => Err(Failure::Away("address or filter not readable".to_owned())),
        }
    }
}

fn events_of(events: &[LoggedEvent]) -> Result<Vec<EventOf<'_>>, Failure> {
    let events: Result<_, _> = events.iter().map(event_of).collect();
    events.map_err(|error| Failure::Away(format!("event not readable: {error}")))
}

fn event_of(event: &LoggedEvent) -> serde_json::Result<EventOf<'_>> {
    Ok(EventOf {
        id: &event.id,
        position: event.position,
        kind: &event.kind,
        timestamp: event.created_at,
        data: serde_json::from_str(&event.payload)?,
    })
}

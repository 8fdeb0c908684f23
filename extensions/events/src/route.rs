//! `/api/admin/endpoints` and `/api/admin/events`: where events go, and which there were.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::endpoints::Endpoints;
use crate::filter::Filter;
use crate::problems;
use crate::sql::endpoints::{self, DeadLetter, Endpoint, EndpointChange, NewEndpoint};
use crate::sql::event_log::{self, LoggedEvent};
use extension::actor_of;
use web::body::{Integer, JsonBody};
use web::extract::{EndpointPath, Operator, QueryPairs};
use web::paging::Page;
use web::problem::Problem;

/// The endpoints.
#[derive(Serialize, ToSchema)]
pub struct EndpointsBody {
    /// Oldest first.
    endpoints: Vec<Endpoint>,
    /// The last position of the log.
    last: i64,
}

/// An endpoint that was created.
#[derive(Serialize, ToSchema)]
pub struct CreatedEndpointBody {
    id: i64,
    /// The secret that signs the messages; it is shown only here.
    secret: String,
}

/// A change of an endpoint; a field that is left out stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchEndpointBody {
    /// Whether events are delivered. `true` also ends the pause after a failure.
    enabled: Option<bool>,
    /// Which events it gets from now on; `{}`: all.
    filter: Option<Filter>,
}

/// A range of the log.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayBody {
    /// The first position.
    #[serde(deserialize_with = "Integer::deserialize")]
    #[schema(value_type = i64, minimum = 1)]
    first: Integer,
    /// The last position; the newest event if it is left out.
    #[schema(value_type = Option<i64>, minimum = 1)]
    last: Integer,
}

/// A page of dead letters.
#[derive(Serialize, ToSchema)]
pub struct DeadLettersBody {
    /// In the order of the log.
    dead_letters: Vec<DeadLetter>,
    /// Pass it as `after` to get the next page; `null` on the last one.
    next: Option<i64>,
}

/// An event, as endpoints get it.
#[derive(Serialize, ToSchema)]
pub struct EventBody {
    /// Its id: an event that is delivered twice has it twice.
    id: String,
    /// Its place in the log.
    position: i64,
    /// `orders.changed` or `offers.changed`.
    r#type: String,
    /// The time of the change.
    #[serde(with = "time::serde::rfc3339")]
    timestamp: OffsetDateTime,
    /// `orders`: the orders as they are after the change.
    #[schema(value_type = Object)]
    pub(crate) data: Option<Box<RawValue>>,
}

impl From<&LoggedEvent> for EventBody {
    fn from(event: &LoggedEvent) -> Self {
        Self {
            id: event.id.clone(),
            position: event.position,
            r#type: event.kind.clone(),
            timestamp: event.created_at,
            data: RawValue::from_string(event.payload.clone()).ok(),
        }
    }
}

/// A page of the log.
#[derive(Serialize, ToSchema)]
pub struct EventsBody {
    /// In the order of the log.
    events: Vec<EventBody>,
    /// Pass it as `after` to get the next page; `null` on the last one.
    next: Option<i64>,
}

/// List the endpoints of events.
#[utoipa::path(get, path = "/api/admin/endpoints", tag = "operator",
    responses((status = 200, description = "The endpoints", body = EndpointsBody)))]
pub async fn list(
    State(endpoints): State<Endpoints>,
    _: Operator,
) -> Result<Json<EndpointsBody>, Problem> {
    let (endpoints, last) = endpoints.list().await?;
    Ok(Json(EndpointsBody { endpoints, last }))
}

/// Create an endpoint of events.
#[utoipa::path(post, path = "/api/admin/endpoints", tag = "operator",
    request_body = NewEndpoint,
    responses((status = 201, description = "The endpoint with its secret", body = CreatedEndpointBody)))]
pub async fn create(
    State(endpoints): State<Endpoints>,
    operator: Operator,
    JsonBody(new): JsonBody<NewEndpoint>,
) -> Result<(StatusCode, Json<CreatedEndpointBody>), Problem> {
    let created = endpoints.create(&new, &actor_of(&operator)).await?;
    tracing::info!(endpoint = %created.id, operator = %operator.user, "event endpoint created");
    let body = CreatedEndpointBody { id: created.id, secret: created.secret };
    Ok((StatusCode::CREATED, Json(body)))
}

/// Switch an endpoint on or off, or change which events it gets.
#[utoipa::path(patch, path = "/api/admin/endpoints/{id}", tag = "operator", params(EndpointPath),
    request_body = SwitchEndpointBody,
    responses((status = 204, description = "Changed")))]
pub async fn switch(
    State(endpoints): State<Endpoints>,
    operator: Operator,
    EndpointPath(id): EndpointPath,
    JsonBody(body): JsonBody<SwitchEndpointBody>,
) -> Result<StatusCode, Problem> {
    if body.enabled.is_none() && body.filter.is_none() {
        return Err(problems::MISSING_FIELD.problem());
    }
    let actor = actor_of(&operator);
    // The filter first, so that an endpoint that is switched on gets nothing by the old one.
    if let Some(filter) = body.filter {
        endpoints.change(id, &EndpointChange::Filter(filter), &actor).await?;
    }
    if let Some(enabled) = body.enabled {
        endpoints.change(id, &EndpointChange::Switch(enabled), &actor).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Delete an endpoint with its dead letters.
#[utoipa::path(delete, path = "/api/admin/endpoints/{id}", tag = "operator", params(EndpointPath),
    responses((status = 204, description = "Deleted")))]
pub async fn delete(
    State(endpoints): State<Endpoints>,
    operator: Operator,
    EndpointPath(id): EndpointPath,
) -> Result<StatusCode, Problem> {
    endpoints.change(id, &EndpointChange::Delete, &actor_of(&operator)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deliver a range of the log again.
#[utoipa::path(post, path = "/api/admin/endpoints/{id}/replays", tag = "operator",
    params(EndpointPath), request_body = ReplayBody,
    responses((status = 202, description = "The events will be delivered again")))]
pub async fn replay(
    State(endpoints): State<Endpoints>,
    operator: Operator,
    EndpointPath(id): EndpointPath,
    JsonBody(body): JsonBody<ReplayBody>,
) -> Result<StatusCode, Problem> {
    let position = |number: i128| i64::try_from(number).ok().filter(|position| *position >= 1);
    let out_of_range = || problems::OUT_OF_RANGE.detail("Send a position from 1.");
    let first = body.first.or(None, position, out_of_range)?;
    let last = body.last.or(Some(i64::MAX), position, out_of_range)?;
    endpoints.replay(id, (first, last), &actor_of(&operator)).await?;
    Ok(StatusCode::ACCEPTED)
}

/// List the dead letters of an endpoint.
#[utoipa::path(get, path = "/api/admin/endpoints/{id}/dead-letters", tag = "operator", params(
    EndpointPath,
    ("limit" = Option<u32>, Query, description = "Lines of a page", minimum = 1, maximum = 200),
    ("after" = Option<i64>, Query, description = "The `next` of the page before"),
), responses((status = 200, description = "A page, in the order of the log", body = DeadLettersBody)))]
pub async fn dead_letters(
    State(endpoints): State<Endpoints>,
    _: Operator,
    EndpointPath(id): EndpointPath,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<DeadLettersBody>, Problem> {
    let page = Page::read(&pairs, "after", position_of)?;
    let Endpoints { ledger, .. } = &endpoints;
    let after = page.cursor.unwrap_or(0);
    let read = endpoints::dead_letters(&ledger.pool, id, after, page.rows());
    let (dead_letters, next) = page.cut(ledger.read(read).await?, |letter| letter.position);
    Ok(Json(DeadLettersBody { dead_letters, next }))
}

/// Reads a position of the log of events.
fn position_of(text: &str) -> Option<i64> {
    text.parse().ok().filter(|position| *position >= 0)
}

/// Read the log of events.
#[utoipa::path(get, path = "/api/admin/events", tag = "operator", params(
    ("limit" = Option<u32>, Query, description = "Events of a page", minimum = 1, maximum = 200),
    ("after" = Option<i64>, Query, description = "The `next` of the page before"),
), responses((status = 200, description = "A page, in the order of the log", body = EventsBody)))]
pub async fn log(
    State(endpoints): State<Endpoints>,
    _: Operator,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<EventsBody>, Problem> {
    let page = Page::read(&pairs, "after", position_of)?;
    let Endpoints { ledger, .. } = &endpoints;
    let first = page.cursor.unwrap_or(0).saturating_add(1);
    let read = event_log::read(&ledger.pool, first, i64::MAX, page.rows());
    let (events, next) = page.cut(ledger.read(read).await?, |event| event.position);
    Ok(Json(EventsBody { events: events.iter().map(EventBody::from).collect(), next }))
}

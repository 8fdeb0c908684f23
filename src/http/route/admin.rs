//! `/api/admin/items`: the operator creates and edits sales.

use axum::extract::State;
use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;

use super::items::{ItemBody, answer};
use super::texts;
use crate::domain::{ArbiterMode, Cents, Item, ItemKind, Refusal, SaleWindow};
use crate::http::Web;
use crate::http::address::ClientAddress;
use crate::http::body::{Integer, JsonBody};
use crate::http::error::invalid_schedule;
use crate::http::extract::{Admin, ItemPath};
use crate::http::problem::{Problem, ProblemBody};
use crate::store::mysql::actions::Actor;
use crate::store::mysql::items::{self, ItemEdit, NewItem};
use crate::strategy;

/// Units that one buyer may have, unless the operator says otherwise.
const PER_BUYER_LIMIT_DEFAULT: u32 = 1;
/// How long an unpaid order keeps its stock, unless the operator says otherwise.
const HOLD_SECONDS_DEFAULT: u32 = 300;
/// The strategy of a sale, unless the operator says otherwise.
const STRATEGY_DEFAULT: &str = "lock-redis";

/// A new sale.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateItemBody {
    name: String,
    #[serde(default)]
    description: String,
    /// A path of this site or an https address.
    #[serde(default)]
    image_url: Option<String>,
    /// The price of one unit in cents.
    #[serde(default)]
    #[schema(value_type = i64, minimum = 0)]
    price_cents: Integer,
    /// Units.
    #[serde(default)]
    #[schema(value_type = i64, minimum = 0)]
    stock: Integer,
    #[schema(format = DateTime)]
    starts_at: String,
    #[schema(format = DateTime)]
    ends_at: String,
    /// Units that one buyer may have; 1 if it is left out.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1)]
    per_buyer_limit: Integer,
    /// How long an unpaid order keeps its stock; 300 if it is left out.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 86400)]
    hold_seconds: Integer,
    /// What `default` stands for; `lock-redis` if it is left out.
    #[serde(default)]
    strategy: Option<String>,
    /// `shop` (if it is left out) or `lab`.
    #[serde(default)]
    kind: Option<String>,
    /// `on` (if it is left out), or `off` for lab items.
    #[serde(default)]
    arbiter: Option<String>,
    /// Whether buyers stand in line for a ticket first; not if it is left out.
    #[serde(default)]
    waiting_room: Option<bool>,
}

/// What to change of a sale; what is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditItemBody {
    #[serde(default)]
    #[schema(format = DateTime)]
    starts_at: Option<String>,
    #[serde(default)]
    #[schema(format = DateTime)]
    ends_at: Option<String>,
    /// Stop the sale for now, or let it go on.
    #[serde(default)]
    paused: Option<bool>,
    /// Open or close the waiting room.
    #[serde(default)]
    waiting_room: Option<bool>,
    #[serde(default)]
    strategy: Option<String>,
    /// Units to add to the sale; below zero, to take out of it.
    #[serde(default)]
    #[schema(value_type = Option<i64>)]
    stock_delta: Integer,
}

/// Create a sale.
#[utoipa::path(
    post,
    path = "/api/admin/items",
    tag = "operator",
    request_body = CreateItemBody,
    responses(
        (status = 201, description = "The item", body = ItemBody),
        (status = "4XX", description = "Not an operator, or a field is not acceptable", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn create(
    State(web): State<Web>,
    Admin(claims): Admin,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<CreateItemBody>,
) -> Result<Response, Problem> {
    let new = new_item(body)?;
    let now = web.clock.now();
    let actor = Actor { user: claims.user, address: Some(address), now };
    let created = web.change(items::create_by(&web.pool, &new, &actor)).await?;
    tracing::info!(item = %created.item.id, operator = %claims.user, "item created");
    Ok((StatusCode::CREATED, answer(&created, now)).into_response())
}

/// Reschedule, pause, restock, or change the strategy of a sale.
#[utoipa::path(
    patch,
    path = "/api/admin/items/{id}",
    tag = "operator",
    params(
        ("id" = i64, Path, minimum = 1),
        ("If-Match" = Option<String>, Header, description = "The item's ETag: refuse if it was edited since"),
    ),
    request_body = EditItemBody,
    responses(
        (status = 200, description = "The item", body = ItemBody),
        (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Look before you try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn edit(
    State(web): State<Web>,
    Admin(claims): Admin,
    ClientAddress(address): ClientAddress,
    ItemPath(id): ItemPath,
    headers: HeaderMap,
    JsonBody(body): JsonBody<EditItemBody>,
) -> Result<Response, Problem> {
    let found = web.ask(items::find(&web.pool, id)).await?;
    let kind = found.ok_or(Refusal::ItemNotFound)?.item.kind;
    if let Some(name) = &body.strategy {
        check_strategy(name, kind)?;
    }
    let stock_delta = body.stock_delta.or(
        Some(0),
        in_range(-Item::STOCK_MAX, Item::STOCK_MAX),
        stock_out_of_range,
    )?;
    let edit = ItemEdit {
        starts_at: body.starts_at.as_deref().map(instant).transpose()?,
        ends_at: body.ends_at.as_deref().map(instant).transpose()?,
        paused: body.paused,
        waiting_room: body.waiting_room,
        strategy: body.strategy,
        stock_delta: Some(stock_delta),
        revision_seen: revision_seen(&headers)?,
    };
    let now = web.clock.now();
    let actor = Actor { user: claims.user, address: Some(address), now };
    let edited = items::edit(&web.pool, id, &edit, &actor).await?;
    web.purchases.item_changed(id).await;
    if let Some(version) = edited.restocked {
        web.counters.apply_restock_delta(id, version, stock_delta).await;
    }
    tracing::info!(item = %id, operator = %claims.user, "item edited");
    Ok(answer(&edited.item, now))
}

fn new_item(body: CreateItemBody) -> Result<NewItem, Problem> {
    let kind = word(body.kind.as_deref(), ItemKind::Shop, ItemKind::parse)?;
    let arbiter = word(body.arbiter.as_deref(), ArbiterMode::On, ArbiterMode::parse)?;
    if kind == ItemKind::Shop && arbiter == ArbiterMode::Off {
        let detail = "A real sale always has its arbiter on; only lab items may turn it off.";
        return Err(Problem::new(422, "arbiter_required", "Arbiter needed", detail));
    }
    let strategy = body.strategy.unwrap_or_else(|| STRATEGY_DEFAULT.to_owned());
    check_strategy(&strategy, kind)?;
    let name = texts::name(&body.name)?;
    let description = texts::description(&body.description)?;
    let price_out_of_range = || {
        let detail = format!("A price is 0 to {} cents.", Cents::MAX);
        Problem::new(422, "price_out_of_range", "Not a price", detail)
    };
    let limit_out_of_range = || {
        let detail = format!("A limit is 1 to {}.", Item::PER_BUYER_LIMIT_MAX);
        Problem::new(422, "limit_out_of_range", "Not a limit", detail)
    };
    let hold_out_of_range = || {
        let detail = format!("A hold is 1 to {} seconds.", Item::HOLD_SECONDS_MAX);
        Problem::new(422, "hold_out_of_range", "Not a hold", detail)
    };
    let price = |cents| i64::try_from(cents).ok().and_then(Cents::new);
    Ok(NewItem {
        name,
        description,
        image_url: body.image_url.map(texts::image_url).transpose()?,
        price: body.price_cents.or(None, price, price_out_of_range)?,
        stock: body.stock.or(None, in_range(0, Item::STOCK_MAX), stock_out_of_range)?,
        window: SaleWindow::new(instant(&body.starts_at)?, instant(&body.ends_at)?)
            .ok_or_else(invalid_schedule)?,
        per_buyer_limit: body.per_buyer_limit.or(
            Some(PER_BUYER_LIMIT_DEFAULT),
            in_range(1, Item::PER_BUYER_LIMIT_MAX),
            limit_out_of_range,
        )?,
        hold_seconds: body.hold_seconds.or(
            Some(HOLD_SECONDS_DEFAULT),
            in_range(1, Item::HOLD_SECONDS_MAX),
            hold_out_of_range,
        )?,
        strategy,
        kind,
        arbiter,
        waiting_room: body.waiting_room.unwrap_or(false),
    })
}

/// Takes numbers of a closed range.
fn in_range<T: TryFrom<i128> + Into<i128> + Copy>(
    least: T,
    most: T,
) -> impl FnOnce(i128) -> Option<T> {
    move |number| {
        (least.into()..=most.into()).contains(&number).then(|| T::try_from(number).ok())?
    }
}

fn stock_out_of_range() -> Problem {
    let detail = format!("A stock is 0 to {} units.", Item::STOCK_MAX);
    Problem::new(422, "stock_out_of_range", "Not a stock", detail)
}

fn check_strategy(name: &str, kind: ItemKind) -> Result<(), Problem> {
    let Some(card) = strategy::card(name) else {
        let detail = "There is no such strategy; see /api/strategies.";
        return Err(Problem::new(422, "unknown_strategy", "No such strategy", detail));
    };
    if kind == ItemKind::Shop && !card.safe {
        return Err(Refusal::UnsafeStrategy.into());
    }
    Ok(())
}

fn word<T>(text: Option<&str>, default: T, parse: fn(&str) -> Option<T>) -> Result<T, Problem> {
    let Some(text) = text else { return Ok(default) };
    parse(text).ok_or_else(|| {
        let detail = "kind is shop or lab; arbiter is on or off.";
        Problem::new(422, "invalid_type", "No such word", detail)
    })
}

fn instant(text: &str) -> Result<OffsetDateTime, Problem> {
    let parsed = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| invalid_schedule())?;
    // Near the ends of time an instant has a year in its own zone and none in ours.
    parsed.checked_to_offset(time::UtcOffset::UTC).ok_or_else(invalid_schedule)
}

/// The revision named by `If-Match`; none is fine, since restocks are deltas.
fn revision_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let tag = value.to_str().unwrap_or_default().trim();
    if tag == "*" {
        return Ok(None);
    }
    let revision = tag.trim_matches('"').parse().ok();
    let detail = "If-Match names no revision of this item.";
    revision
        .map(Some)
        .ok_or_else(|| Problem::new(412, "precondition_failed", "Edited since", detail))
}

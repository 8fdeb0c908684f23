//! `/api/admin/items`: operators create and edit sales.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::fields::{
    choice, currency, extend_seconds, in_range, limit, limit_group, offer_seconds, product,
    return_seconds, stock_out_of_range, unpaid_max,
};
use super::items::{ItemBody, answer};
use super::texts;
use super::variant::{VariantOptionBody, new_variant};
use crate::catalog::Catalog;
use crate::http::outcomes::of_edit;
use crate::http::problems;
use crate::purchase::Purchases;
use crate::waiting_list::WaitingLists;
use extension::actor_of;
use extension::ports::{AnnounceDraws, DrawPromise, KeyedRequest};
use lifecycle::Lifecycle;
use shop_domain::{ArbiterMode, Cents, Currency, Item, ItemEdit, ItemKind, NewItem, SaleWindow};
use web::body::{Integer, JsonBody, RawJson, parse};
use web::cross_site::mark_repeated;
use web::detached;
use web::extract::{IdempotencyKey, ItemPath, Operator};
use web::instant;
use web::problem::Problem;

/// The default of `per_buyer_limit`.
const PER_BUYER_LIMIT_DEFAULT: u32 = 1;
/// The default of `hold_seconds`.
const HOLD_SECONDS_DEFAULT: u32 = 300;
/// The default of `offer_seconds`.
const OFFER_SECONDS_DEFAULT: u32 = 300;
/// The default of `strategy`.
const STRATEGY_DEFAULT: &str = "lock-redis";

/// A new sale.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateItemBody {
    pub(in crate::http) name: String,
    #[serde(default)]
    pub(in crate::http) description: String,
    /// A path of this site or an https address.
    pub(in crate::http) image_url: Option<String>,
    /// The price of one unit in minor units of the currency: cents, or yen.
    #[serde(deserialize_with = "Integer::deserialize")]
    #[schema(value_type = i64, minimum = 0)]
    pub(in crate::http) price_cents: Integer,
    /// The currency of the price (ISO 4217); that of the shop if it is left out.
    pub(in crate::http) currency: Option<String>,
    /// Units.
    #[serde(deserialize_with = "Integer::deserialize")]
    #[schema(value_type = i64, minimum = 0)]
    pub(in crate::http) stock: Integer,
    #[schema(format = DateTime)]
    pub(in crate::http) starts_at: String,
    #[schema(format = DateTime)]
    pub(in crate::http) ends_at: String,
    /// Units that one buyer may have; 1 if it is left out.
    #[schema(value_type = Option<u32>, minimum = 1)]
    pub(in crate::http) per_buyer_limit: Integer,
    /// After how many holds that expired unpaid a buyer may not hold again; 0: no limit. If it is left out, 2, and 0 for
    /// lab items.
    #[schema(value_type = Option<u32>, maximum = 1000)]
    pub(in crate::http) unpaid_max: Integer,
    /// How long an unpaid order keeps its stock; 300 if it is left out.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 86400)]
    pub(in crate::http) hold_seconds: Integer,
    /// The strategy of purchases that name `default`; `lock-redis` if it is left out.
    pub(in crate::http) strategy: Option<String>,
    /// `shop` (if it is left out) or `lab`.
    pub(in crate::http) kind: Option<String>,
    /// `on` (if it is left out), or `off` for lab items.
    pub(in crate::http) arbiter: Option<String>,
    /// Whether buyers need a ticket of the waiting room; `false` if it is left out.
    pub(in crate::http) waiting_room: Option<bool>,
    /// For how many seconds an offer holds a unit for a buyer who waits; 0: nobody can wait. 300 if it
    /// is left out.
    #[schema(value_type = Option<u32>, maximum = 86400)]
    pub(in crate::http) offer_seconds: Integer,
    /// By how many seconds at most a buyer may extend the hold of an unpaid order, once; 0: not at all. 120
    /// if it is left out.
    #[schema(value_type = Option<u32>, maximum = 86400)]
    pub(in crate::http) extend_seconds: Integer,
    /// For how many seconds after the payment a buyer may give an order back; 0 (if it is left out): not at
    /// all.
    #[schema(value_type = Option<u32>, maximum = 31536000)]
    pub(in crate::http) return_seconds: Integer,
    /// The group of items that share a limit; 0 (if it is left out): none.
    #[schema(value_type = Option<i64>, minimum = 0)]
    pub(in crate::http) limit_group_id: Integer,
    /// The product that it is a variant of; 0 (if it is left out): none.
    #[schema(value_type = Option<i64>, minimum = 0)]
    pub(in crate::http) product_id: Integer,
    /// The options by which it differs from the other items of its product.
    #[serde(default)]
    #[schema(max_items = 4)]
    pub(in crate::http) options: Vec<VariantOptionBody>,
    /// `race` (if it is left out), or `draw`: buyers enter until `draw_closes_at`.
    pub(in crate::http) mode: Option<String>,
    /// The end of the time in which buyers enter, between `starts_at` and `ends_at`; for `draw` alone. It cannot be
    /// changed, because the draw is announced with it.
    #[schema(format = DateTime)]
    pub(in crate::http) draw_closes_at: Option<String>,
    /// The most friends who are drawn as one; for `draw` alone. 1 if it is left out: each buyer is drawn alone.
    #[schema(value_type = Option<u8>, minimum = 1, maximum = 4)]
    pub(in crate::http) draw_party_max: Integer,
}

/// The changes of a sale; a field that is left out stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditItemBody {
    #[schema(format = DateTime)]
    starts_at: Option<String>,
    #[schema(format = DateTime)]
    ends_at: Option<String>,
    /// Another currency (ISO 4217), before the sale begins and while the item has no orders.
    currency: Option<String>,
    /// Pause the sale (`true`) or resume it (`false`).
    paused: Option<bool>,
    /// Open or close the waiting room.
    waiting_room: Option<bool>,
    /// After how many holds that expired unpaid a buyer may not hold again; 0: no limit.
    #[schema(value_type = Option<u32>, maximum = 1000)]
    unpaid_max: Integer,
    /// For how many seconds an offer holds a unit for a buyer who waits; 0 ends the waiting list.
    #[schema(value_type = Option<u32>, maximum = 86400)]
    offer_seconds: Integer,
    /// By how many seconds at most a buyer may extend the hold of an unpaid order, once; 0: not at all.
    #[schema(value_type = Option<u32>, maximum = 86400)]
    extend_seconds: Integer,
    /// For how many seconds after the payment a buyer may give an order back; 0: not at all.
    #[schema(value_type = Option<u32>, maximum = 31536000)]
    return_seconds: Integer,
    /// The group of items that share a limit; 0: none. Orders stay in the group in which they were
    /// counted.
    #[schema(value_type = Option<i64>, minimum = 0)]
    limit_group_id: Integer,
    /// The product that it is a variant of, together with `options`; 0: none.
    #[schema(value_type = Option<i64>, minimum = 0)]
    product_id: Integer,
    /// The options by which it differs from the other items of the product.
    options: Option<Vec<VariantOptionBody>>,
    strategy: Option<String>,
    /// Units to add to the stock; a negative number takes units out. A long waiting list gets many units in parts, within
    /// seconds; those that are not in the stock yet cannot be taken out.
    #[schema(value_type = Option<i64>)]
    stock_delta: Integer,
}

/// Create a sale.
#[utoipa::path(post, path = "/api/admin/items", tag = "operator", params(
    ("Idempotency-Key" = Option<String>, Header, description = "A repetition with the same key and body creates nothing, and is answered with the item that the first request has created"),
), request_body = CreateItemBody,
    responses((status = 201, description = "The item", body = ItemBody)))]
pub async fn create(
    State(catalog): State<Catalog>,
    State(draws): State<Option<Arc<dyn AnnounceDraws>>>,
    State(shop_currency): State<Currency>,
    operator: Operator,
    IdempotencyKey(key): IdempotencyKey,
    RawJson(bytes): RawJson,
) -> Result<Response, Problem> {
    let actor = actor_of(&operator);
    let keyed = |key| KeyedRequest { user: actor.user, key, body: &bytes, charset: None };
    let request = key.as_ref().map(keyed);
    let new = parse(&bytes).and_then(|body| new_item(body, shop_currency, draws.as_deref()));
    let created = match new {
        Ok(new) => catalog.create_all(std::slice::from_ref(&new), &actor, request).await?,
        // What was right when it was created may not be right any more: a draw may be closed.
        Err(problem) => catalog.find_created(request).await?.ok_or(problem)?,
    };
    let item = created.items.first().ok_or_else(|| problems::INTERNAL.problem())?;
    tracing::info!(item = %item.item.id, is_repeated = created.is_repeated, operator = %actor.user, "item created");
    let mut response = (StatusCode::CREATED, answer(item, actor.now)).into_response();
    if created.is_repeated {
        mark_repeated(&mut response);
    }
    Ok(response)
}

/// Reschedule, pause, restock, or change the strategy of a sale.
#[utoipa::path(patch, path = "/api/admin/items/{id}", tag = "operator", params(
    ItemPath,
    ("If-Match" = Option<String>, Header, description = "The item's ETag; the edit is refused if the item was edited since"),
), request_body = EditItemBody,
    responses((status = 200, description = "The item", body = ItemBody)))]
#[expect(clippy::too_many_arguments, reason = "each argument is an extractor")]
pub async fn edit(
    State(catalog): State<Catalog>,
    State(purchases): State<Purchases>,
    State(lists): State<WaitingLists>,
    State(lifecycle): State<Lifecycle>,
    operator: Operator,
    ItemPath(id): ItemPath,
    headers: HeaderMap,
    JsonBody(body): JsonBody<EditItemBody>,
) -> Result<Response, Problem> {
    let stock_delta = body.stock_delta.or(
        Some(0),
        in_range(-Item::STOCK_MAX, Item::STOCK_MAX),
        stock_out_of_range,
    )?;
    // Without a product the options say nothing.
    let variant = match (product(body.product_id)?, body.options) {
        (None, None) => None,
        (product, options) => Some(new_variant(product.flatten(), &options.unwrap_or_default())?),
    };
    let edit = ItemEdit {
        starts_at: body.starts_at.as_deref().map(instant).transpose()?,
        ends_at: body.ends_at.as_deref().map(instant).transpose()?,
        currency: body.currency.as_deref().map(currency).transpose()?,
        paused: body.paused,
        waiting_room: body.waiting_room,
        unpaid_max: unpaid_max(body.unpaid_max)?,
        offer_seconds: offer_seconds(body.offer_seconds)?,
        extend_seconds: extend_seconds(body.extend_seconds)?,
        return_seconds: return_seconds(body.return_seconds)?,
        limit_group: limit_group(body.limit_group_id)?,
        variant,
        strategy: body.strategy,
        stock_delta: Some(stock_delta),
        revision_seen: revision_seen(&headers)?,
    };
    let actor = actor_of(&operator);
    // To its end: counters and buyers have to hear of a change that was made.
    let edited = detached(&lifecycle, async move {
        let (edited, change) = catalog.edit(id, &edit, &actor).await.map_err(of_edit)?;
        lists.publish(id, &change).await;
        purchases.item_changed(id);
        tracing::info!(item = %id, operator = %actor.user, "item edited");
        Ok::<_, Problem>(edited)
    });
    Ok(answer(&edited.await?, actor.now))
}

/// Checks the fields of a new sale. Without a currency it has that of the shop.
pub(in crate::http) fn new_item(
    body: CreateItemBody,
    shop_currency: Currency,
    draws: Option<&dyn AnnounceDraws>,
) -> Result<NewItem, Problem> {
    let kind = choice(body.kind.as_deref(), ItemKind::Shop, ItemKind::parse)?;
    let arbiter = choice(body.arbiter.as_deref(), ArbiterMode::On, ArbiterMode::parse)?;
    let name = texts::name(&body.name)?;
    let description = texts::description(&body.description)?;
    let price_out_of_range =
        || problems::PRICE_OUT_OF_RANGE.detail(format!("Send a price of 0 to {}.", Cents::MAX));
    let hold_out_of_range = || {
        let detail = format!("Send a hold of 1 to {} seconds.", Item::HOLD_SECONDS_MAX);
        problems::HOLD_OUT_OF_RANGE.detail(detail)
    };
    let price = |cents| i64::try_from(cents).ok().and_then(Cents::new);
    let window = SaleWindow::new(instant(&body.starts_at)?, instant(&body.ends_at)?)
        .ok_or(&problems::INVALID_SCHEDULE)?;
    let party_max = body.draw_party_max.or(
        Some(None),
        |friends| u8::try_from(friends).ok().map(Some),
        || problems::INVALID_DRAW.problem(),
    )?;
    let promise = match (body.mode.as_deref(), &body.draw_closes_at) {
        (None | Some("race"), None) if party_max.is_none() => None,
        (Some("draw"), Some(closes_at)) => {
            let party_max = party_max.unwrap_or(1);
            Some(DrawPromise { closes_at: instant(closes_at)?, party_max })
        }
        _ => return Err(problems::INVALID_DRAW.problem()),
    };
    let item = NewItem {
        name,
        description,
        image_url: body.image_url.map(texts::image_url).transpose()?,
        price: body.price_cents.or(None, price, price_out_of_range)?,
        currency: body.currency.as_deref().map_or(Ok(shop_currency), currency)?,
        stock: body.stock.or(None, in_range(0, Item::STOCK_MAX), stock_out_of_range)?,
        window,
        per_buyer_limit: limit(body.per_buyer_limit, Some(PER_BUYER_LIMIT_DEFAULT))?,
        unpaid_max: unpaid_max(body.unpaid_max)?.unwrap_or(match kind {
            ItemKind::Shop => Item::UNPAID_MAX_DEFAULT,
            ItemKind::Lab => 0,
        }),
        hold_seconds: body.hold_seconds.or(
            Some(HOLD_SECONDS_DEFAULT),
            in_range(1, Item::HOLD_SECONDS_MAX),
            hold_out_of_range,
        )?,
        strategy: body.strategy.unwrap_or_else(|| STRATEGY_DEFAULT.to_owned()),
        kind,
        arbiter,
        waiting_room: body.waiting_room.unwrap_or(false),
        offer_seconds: offer_seconds(body.offer_seconds)?.unwrap_or(OFFER_SECONDS_DEFAULT),
        extend_seconds: extend_seconds(body.extend_seconds)?
            .unwrap_or(Item::EXTEND_SECONDS_DEFAULT),
        return_seconds: return_seconds(body.return_seconds)?.unwrap_or_default(),
        limit_group: limit_group(body.limit_group_id)?.flatten(),
        variant: new_variant(product(body.product_id)?.flatten(), &body.options)?,
        draw: None,
    };
    let Some(promise) = promise else { return Ok(item) };
    let draw = draws.ok_or(&problems::INVALID_DRAW)?.announce(&item, promise)?;
    Ok(NewItem { draw: Some(draw), ..item })
}

/// The revision that `If-Match` names, if any. A weak tag never matches (RFC 9110, section 13.1.1).
fn revision_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let tag = value.to_str().unwrap_or_default().trim();
    if tag == "*" {
        return Ok(None);
    }
    let revision = tag.trim_matches('"').parse().ok();
    revision.map(Some).ok_or_else(|| {
        problems::PRECONDITION_FAILED.detail(
            "If-Match must be one ETag of the item, in quotes. A weak one (W/) never matches: a proxy that compresses \
             answers makes it weak, so read the item without Accept-Encoding.",
        )
    })
}

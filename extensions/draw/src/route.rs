//! `/api/items/{id}/entry` and `/api/items/{id}/draw`: entering a draw, what it announces, and its proof.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::draws::{Draws, PromisedEntry};
use crate::problems;
use crate::sql::PartyChoice;
use crate::sql::rows::DrawRow;
use draw_proof::beacon_line;
use ledger::rows::draws::beacon_of;
use lifecycle::Lifecycle;
use shop_domain::{Clock, ItemId};
use web::body::OptionalJsonBody;
use web::detached;
use web::extract::{Buyer, ItemPath, Operator};
use web::problem::Problem;

/// The media type of proofs: the checkers take ASCII alone.
const TEXT: &str = "text/plain; charset=utf-8";

/// A buyer's entry in the draw of an item.
#[derive(Serialize, ToSchema)]
pub struct EntryBody {
    item_id: i64,
    /// `none`; `entered`; or `placed`, after the draw.
    status: &'static str,
    /// The id of the entry in the published list.
    entry: Option<String>,
    /// The signed promise of the shop, see docs/draw.md. Keep it: it proves that you have entered. Each answer has the same
    /// until you change the party.
    promise: Option<String>,
    /// The key of your party: friends who enter with it are drawn together with you, and are offered units together or
    /// not at all. Null: you are alone.
    party: Option<String>,
    /// The entries of your party, with yours.
    members: Option<u32>,
    /// The place from 1. The units are offered in this order, see `GET /api/items/{id}/waiting`.
    place: Option<u32>,
    #[serde(with = "time::serde::rfc3339::option")]
    entered_at: Option<OffsetDateTime>,
    /// The time of the server, to correct the clock of the client.
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
}

impl EntryBody {
    fn new(item: ItemId, found: Option<PromisedEntry>, now: OffsetDateTime) -> Self {
        let promise = found.as_ref().and_then(|found| found.promise.clone());
        let entry = found.map(|found| found.entry);
        let place = entry.as_ref().and_then(|entry| entry.place);
        Self {
            item_id: item.get(),
            status: match (&entry, place) {
                (None, _) => "none",
                (Some(_), None) => "entered",
                (Some(_), Some(_)) => "placed",
            },
            place,
            promise,
            party: entry.as_ref().filter(|entry| entry.is_in_party()).map(|own| own.party.clone()),
            members: entry.as_ref().map(|entry| entry.members),
            entered_at: entry.as_ref().map(|entry| entry.entered_at),
            entry: entry.map(|entry| entry.entry),
            server_time: now,
        }
    }
}

/// The body of an entry.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnterBody {
    /// `new`: you want to be drawn together with friends, and the answer has the key that they need. Or the key of a
    /// party. If it is left out, you are alone, or in the party that you have joined before.
    party: Option<String>,
}

/// The draw of an item, as far as it has come.
#[derive(Serialize, ToSchema)]
pub struct DrawBody {
    item_id: i64,
    /// `upcoming`; `open`: buyers can enter; `closed`; or `drawn`: each entry has its place.
    state: &'static str,
    /// `public`: the places follow from a public beacon; `local`: not a proof, the shop made the value; or `none`: the draw
    /// was made before proofs had this format.
    proof: &'static str,
    /// The text that was announced, byte by byte as it is hashed.
    rules: String,
    /// The signed head of the list of entries, byte by byte, from before the round; see docs/draw.md.
    head: Option<String>,
    /// `drand-quicknet` or `local`.
    beacon: &'static str,
    /// The round of the beacon that the places depend on.
    round: u64,
    /// The time of the round.
    #[serde(with = "time::serde::rfc3339::option")]
    round_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    closes_at: OffsetDateTime,
    /// The most friends who are drawn as one; 1: each buyer is drawn alone.
    party_max: u8,
    /// When the list of entries was published.
    #[serde(with = "time::serde::rfc3339::option")]
    listed_at: Option<OffsetDateTime>,
    /// The number of entries.
    entries: Option<u32>,
    /// The root of the entries' Merkle tree.
    root: Option<String>,
    /// The beacon's signature of the round.
    beacon_signature: Option<String>,
    #[serde(with = "time::serde::rfc3339::option")]
    drawn_at: Option<OffsetDateTime>,
    /// The time of the server, to correct the clock of the client.
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
}

impl DrawBody {
    fn new(item: ItemId, (draw, state): (DrawRow, &'static str), now: OffsetDateTime) -> Self {
        let round_at = i128::from(beacon_of(draw.beacon).time_of(draw.round)) * 1_000;
        Self {
            item_id: item.get(),
            state,
            proof: draw.proof(),
            rules: draw.rules,
            head: draw.head,
            beacon: draw.beacon.as_str(),
            round: draw.round,
            round_at: OffsetDateTime::from_unix_timestamp_nanos(round_at).ok(),
            closes_at: draw.closes_at,
            party_max: draw.party_max,
            listed_at: draw.listed_at,
            entries: draw.entries,
            root: draw.root,
            beacon_signature: draw.beacon_signature,
            drawn_at: draw.drawn_at,
            server_time: now,
        }
    }
}

/// Enter the draw of an item, once, before its close, alone or with friends. A repetition answers the entry that you
/// have, with the same promise; with another party it moves the entry there.
#[utoipa::path(post, path = "/api/items/{id}/entry", tag = "buyer", params(ItemPath),
    request_body(content = Option<EnterBody>, description = "May be left out"),
    responses((status = 200, description = "Your entry", body = EntryBody)))]
pub async fn enter(
    State(draws): State<Draws>,
    State(clock): State<Clock>,
    State(lifecycle): State<Lifecycle>,
    buyer: Buyer,
    ItemPath(id): ItemPath,
    OptionalJsonBody(EnterBody { party }): OptionalJsonBody<EnterBody>,
) -> Result<Json<EntryBody>, Problem> {
    let buyer = buyer.user;
    let choice = match party {
        None => PartyChoice::Unchanged,
        Some(text) if text == "new" => PartyChoice::New,
        Some(key) => PartyChoice::Of(key),
    };
    let enter = async move { draws.enter(id, buyer, &choice).await };
    let entered = detached(&lifecycle, enter).await?;
    Ok(Json(EntryBody::new(id, Some(entered), clock.now())))
}

/// Find your entry in the draw of an item, and its place after the draw.
#[utoipa::path(get, path = "/api/items/{id}/entry", tag = "buyer", params(ItemPath),
    responses((status = 200, description = "Your entry", body = EntryBody)))]
pub async fn find(
    State(draws): State<Draws>,
    State(clock): State<Clock>,
    buyer: Buyer,
    ItemPath(id): ItemPath,
) -> Result<Json<EntryBody>, Problem> {
    let entry = draws.entry(id, buyer.user).await?;
    Ok(Json(EntryBody::new(id, entry, clock.now())))
}

/// Take your entry back, before the close. A repetition has no further effect.
#[utoipa::path(delete, path = "/api/items/{id}/entry", tag = "buyer", params(ItemPath),
    responses((status = 204, description = "You have no entry")))]
pub async fn withdraw(
    State(draws): State<Draws>,
    State(lifecycle): State<Lifecycle>,
    buyer: Buyer,
    ItemPath(id): ItemPath,
) -> Result<StatusCode, Problem> {
    let buyer = buyer.user;
    detached(&lifecycle, async move { draws.withdraw(id, buyer).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Find the draw of an item: its state, and what was announced and signed so far.
#[utoipa::path(get, path = "/api/items/{id}/draw", tag = "everyone", params(ItemPath),
    responses((status = 200, description = "The draw", body = DrawBody)))]
pub async fn draw(
    State(draws): State<Draws>,
    State(clock): State<Clock>,
    ItemPath(id): ItemPath,
) -> Result<Json<DrawBody>, Problem> {
    let found = draws.find(id).await?;
    Ok(Json(DrawBody::new(id, found, clock.now())))
}

/// How far a draw has come.
#[derive(Serialize, ToSchema)]
pub struct DrawProgressBody {
    entries: u64,
    /// The groups of friends who are drawn as one.
    parties: u64,
    /// The entries that have their places.
    placed: u32,
}

/// Count the entries of a draw at any time.
#[utoipa::path(get, path = "/api/admin/items/{id}/draw", tag = "operator", params(ItemPath),
    responses((status = 200, description = "The entries and their places", body = DrawProgressBody)))]
pub async fn progress(
    State(draws): State<Draws>,
    _operator: Operator,
    ItemPath(id): ItemPath,
) -> Result<Json<DrawProgressBody>, Problem> {
    let (entries, parties, placed) = draws.progress(id).await?;
    Ok(Json(DrawProgressBody { entries, parties, placed }))
}

/// Read what the shop has announced: the rules, and behind them the signed head of the list once there is one. Save it
/// before the round: it begins the proof.
#[utoipa::path(get, path = "/api/items/{id}/draw/announcement", tag = "everyone", params(ItemPath),
    responses((status = 200, description = "The texts, see docs/draw.md", body = String, content_type = "text/plain")))]
pub async fn announcement(
    State(draws): State<Draws>,
    ItemPath(id): ItemPath,
) -> Result<Response, Problem> {
    let draw = find_signed(&draws, id).await?;
    let text = draw.rules + &draw.head.unwrap_or_default();
    Ok(([(CONTENT_TYPE, TEXT)], text).into_response())
}

/// Read the proof of a draw after it: rules, head, the beacon's signature, and each entry with its place. `seckill verify` and
/// the page verify.html check it.
#[utoipa::path(get, path = "/api/items/{id}/draw/entries", tag = "everyone", params(ItemPath),
    responses((status = 200, description = "The proof, see docs/draw.md", body = String, content_type = "text/plain")))]
pub async fn proof(
    State(draws): State<Draws>,
    ItemPath(id): ItemPath,
) -> Result<Response, Problem> {
    let draw = find_signed(&draws, id).await?;
    let (Some(_), Some(head), Some(signature)) = (draw.drawn_at, draw.head, draw.beacon_signature)
    else {
        return Err(problems::ENTRIES_OPEN.problem());
    };
    let first = draw.rules + &head + &beacon_line(&signature);
    let lines = stream::iter([Ok(first)]).chain(draws.lines(id));
    Ok(([(CONTENT_TYPE, TEXT)], Body::from_stream(lines)).into_response())
}

/// A draw with a key of the shop; a draw of an earlier build has none, and proves nothing.
async fn find_signed(draws: &Draws, id: ItemId) -> Result<DrawRow, Problem> {
    let draw = draws.find(id).await?.0;
    if draw.shop_key.is_none() {
        return Err(problems::NO_PROOF.problem());
    }
    Ok(draw)
}

//! `/api/items/{id}/log` and the receipts from it: what anybody can check of a sale.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::draw::Draws;
use crate::http::document::TryAgain;
use crate::http::extract::{Buyer, ItemPath, OrderPath, QueryPairs};
use crate::http::problem::{Problem, ProblemType};
use crate::order::Orders;
use crate::receipt::{BatchRow, LogSummary, Receipt, Receipts};
use shop_domain::ItemId;

/// A signed head of a log: what one signature says of all entries before it.
#[derive(Serialize, ToSchema)]
pub struct HeadBody {
    /// The number of entries.
    size: u64,
    /// The root of their Merkle tree (RFC 9162).
    root: String,
    /// In microseconds since 1970.
    time: i64,
    /// Units that were sold and have not come back.
    units: i64,
    /// Orders that have them.
    orders: i64,
    /// Refusals with a receipt.
    refusals: i64,
    /// The public key (Ed25519).
    key: String,
    signature: String,
}

impl From<BatchRow> for HeadBody {
    fn from(batch: BatchRow) -> Self {
        Self {
            size: batch.size,
            root: batch.root,
            time: batch.signed_at,
            units: batch.units,
            orders: batch.orders,
            refusals: batch.refusals,
            key: batch.public_key,
            signature: batch.signature,
        }
    }
}

/// The log of a sale in short. Keep it: a later log must be a continuation of it.
#[derive(Serialize, ToSchema)]
pub struct LogBody {
    item_id: i64,
    /// Whether the log says that the sale is over.
    is_over: bool,
    /// The address of all entries.
    entries: String,
    head: HeadBody,
}

/// The proof that an answer is in the log of its sale.
#[derive(Serialize, ToSchema)]
pub struct ReceiptBody {
    item: i64,
    /// The place of the entry in the log, from 0.
    position: u64,
    /// The entry: what was asked and answered, and when.
    entry: String,
    /// The order that the entry means.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<String>,
    /// The number that proves it: only you get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<String>,
    /// The inclusion proof (RFC 9162): the hashes from the entry to the root.
    path: Vec<String>,
    head: HeadBody,
}

impl From<Receipt> for ReceiptBody {
    fn from(receipt: Receipt) -> Self {
        let Receipt { item, position, entry, order, path, batch } = receipt;
        let (order, nonce) = order.unzip();
        Self { item: item.get(), position, entry, order, nonce, path, head: batch.into() }
    }
}

/// The receipts of an order, one for each line.
#[derive(Serialize, ToSchema)]
pub struct ReceiptsBody {
    receipts: Vec<ReceiptBody>,
}

/// The keys that sign heads.
#[derive(Serialize, ToSchema)]
pub struct ReceiptKeysBody {
    /// The past ones, the present one, and the next.
    keys: Vec<ReceiptKeyBody>,
}

/// A key that signs heads for some time.
#[derive(Serialize, ToSchema)]
pub struct ReceiptKeyBody {
    /// Ed25519, in hexadecimal digits.
    public_key: String,
    #[serde(with = "time::serde::rfc3339")]
    from: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    until: OffsetDateTime,
}

/// Find the last signed head of the log of a sale.
#[utoipa::path(get, path = "/api/items/{id}/log", tag = "everyone", params(ItemPath), responses(
    (status = 200, description = "The log in short", body = LogBody),
    (status = "4XX", description = "The item has no log, or nothing is signed yet"), TryAgain,
))]
pub async fn summary(
    State(receipts): State<Receipts>,
    ItemPath(id): ItemPath,
) -> Result<Json<LogBody>, Problem> {
    let LogSummary { log, last } = receipts.summary(id).await?;
    Ok(Json(LogBody {
        item_id: id.get(),
        is_over: log.ended_for.is_some(),
        entries: format!("/api/items/{id}/log/entries"),
        head: last.into(),
    }))
}

/// Read the whole log of a sale, an entry a line. `seckill verify` and the page verify.html check it.
#[utoipa::path(get, path = "/api/items/{id}/log/entries", tag = "everyone", params(ItemPath), responses(
    (status = 200, description = "The log", body = String, content_type = "text/plain"),
    (status = "4XX", description = "The item has no log, or nothing is signed yet"), TryAgain,
))]
pub async fn entries(
    State(receipts): State<Receipts>,
    ItemPath(id): ItemPath,
) -> Result<Response, Problem> {
    receipts.summary(id).await?;
    let lines = Body::from_stream(receipts.lines(id));
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], lines).into_response())
}

/// Find the receipt of a refusal, at the address that the refusal named.
#[utoipa::path(get, path = "/api/items/{id}/log/receipts/{refusal}", tag = "everyone", params(
    ("id" = i64, Path, description = "The item", minimum = 1),
    ("refusal" = String, Path, description = "The id of the refusal"),
    ("since" = i64, Query, description = "Its time, in seconds since 1970"),
), responses(
    (status = 200, description = "The receipt", body = ReceiptBody),
    (status = "4XX", description = "The item has no log, or the refusal is not in it yet"), TryAgain,
))]
pub async fn refusal(
    State(receipts): State<Receipts>,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<ReceiptBody>, Problem> {
    let Path((item, id)) = path.map_err(|_| ProblemType::InvalidPathParameter)?;
    let item = ItemId::parse(&item).ok_or(ProblemType::InvalidPathParameter)?;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let [(name, since)] = &pairs[..] else {
        return Err(ProblemType::InvalidQueryParameter.into());
    };
    let since = since.parse().ok().filter(|_| is_id && name == "since");
    let since = since.and_then(|since| OffsetDateTime::from_unix_timestamp(since).ok());
    // Times at the end of the calendar cannot be counted from.
    let since = since.filter(|since| (1970..9000).contains(&since.year()));
    let since = since.ok_or(ProblemType::InvalidQueryParameter)?;
    Ok(Json(receipts.of_refusal(item, &id, since).await?.into()))
}

/// Find the receipts of your order. It is in the log a moment after its answer.
#[utoipa::path(get, path = "/api/orders/{id}/receipt", tag = "buyer", params(OrderPath), responses(
    (status = 200, description = "The receipts", body = ReceiptsBody),
    (status = "4XX", description = "No such order of yours, its items have no log, or it is not in the log yet"), TryAgain,
))]
pub async fn order(
    State(receipts): State<Receipts>,
    State(orders): State<Orders>,
    Buyer(claims): Buyer,
    OrderPath(id): OrderPath,
) -> Result<Json<ReceiptsBody>, Problem> {
    let found = orders.find(id, claims.user).await?;
    let order = found.ok_or(ProblemType::OrderNotFound)?;
    let receipts = receipts.of_order(&order).await?.into_iter().map(ReceiptBody::from).collect();
    Ok(Json(ReceiptsBody { receipts }))
}

/// Find the receipt of your entry in the draw of an item.
#[utoipa::path(get, path = "/api/items/{id}/entry/receipt", tag = "buyer", params(ItemPath), responses(
    (status = 200, description = "The receipt", body = ReceiptBody),
    (status = "4XX", description = "You have no entry, the item has no log, or the entry is not in it yet"), TryAgain,
))]
pub async fn entry(
    State(receipts): State<Receipts>,
    State(draws): State<Draws>,
    Buyer(claims): Buyer,
    ItemPath(id): ItemPath,
) -> Result<Json<ReceiptBody>, Problem> {
    let entry = draws.entry(id, claims.user).await?.ok_or(ProblemType::NoLog)?;
    Ok(Json(receipts.of_entry(id, &entry).await?.into()))
}

/// List the keys that sign the logs. Keep them: a log that is signed by another key is not the shop's.
#[utoipa::path(get, path = "/api/receipt-keys", tag = "everyone", responses(
    (status = 200, description = "The keys", body = ReceiptKeysBody),
))]
pub async fn keys(State(receipts): State<Receipts>) -> Json<ReceiptKeysBody> {
    let at = |seconds: u64| {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    };
    let keys = receipts.keys().into_iter().map(|key| ReceiptKeyBody {
        public_key: key.public_key,
        from: at(key.from),
        until: at(key.until),
    });
    Json(ReceiptKeysBody { keys: keys.collect() })
}

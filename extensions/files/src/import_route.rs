//! `POST /api/admin/import`: sales from a table in CSV, all or none.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use encoding_rs::Encoding;
use serde::Serialize;
use utoipa::ToSchema;

use crate::problems;
use crate::table::{FaultBody, Table, charset_named, read_table};
use extension::actor_of;
use extension::ports::{Created, KeyedRequest, NewItems, ReadItem};
use shop_domain::Currency;
use web::body::CsvBody;
use web::cross_site::mark_repeated;
use web::extract::{IdempotencyKey, Operator, QueryPairs};
use web::problem::Problem;

/// What an import did, or would do.
#[derive(Serialize, ToSchema)]
pub struct ImportBody {
    /// Whether nothing was created because the request asked for a check only.
    dry_run: bool,
    /// Sales that the table has.
    sales: usize,
    /// The new items, in the order of the table; empty after a check.
    items: Vec<i64>,
    /// What is wrong, by line.
    faults: Vec<FaultBody>,
}

/// Create sales from a table, all or none; with `dry_run`, only check the table.
#[utoipa::path(post, path = "/api/admin/import", tag = "operator",
    params(
        ("dry_run" = Option<bool>, Query, description = "Check the table, and create nothing"),
        ("Idempotency-Key" = Option<String>, Header, description = "A repetition with the same key and table creates nothing, and is answered with the items that the first request has created"),
    ),
    request_body(content = String, content_type = "text/csv", description = "A line of column names, which are the fields of a new sale, and one line for each sale: in UTF-8, in UTF-16 with a byte order mark, or in the `charset` that the Content-Type names"),
    responses(
        (status = 200, description = "The result of a check", body = ImportBody),
        (status = 201, description = "The new items", body = ImportBody),
    ))]
pub async fn import(
    State(read_item): State<ReadItem>,
    State(shelf): State<Arc<dyn NewItems>>,
    State(shop_currency): State<Currency>,
    operator: Operator,
    IdempotencyKey(key): IdempotencyKey,
    QueryPairs(pairs): QueryPairs,
    CsvBody { bytes, charset }: CsvBody,
) -> Result<Response, Problem> {
    let dry_run = match pairs.as_slice() {
        [] => false,
        [(name, value)] if name == "dry_run" && value == "true" => true,
        [(name, value)] if name == "dry_run" && value == "false" => false,
        _ => return Err(problems::INVALID_QUERY_PARAMETER.problem()),
    };
    let charset = charset.as_deref().map(charset_of).transpose()?;
    let mut table = read_table(&bytes, charset, shop_currency, read_item);
    table.check_names(&*shelf).await?;
    let Table { sales: new, faults, .. } = table;
    if dry_run {
        let body = ImportBody { dry_run, sales: new.len(), items: Vec::new(), faults };
        return Ok(Json(body).into_response());
    }
    if !faults.is_empty() {
        let detail = format!("{} faults; nothing was created.", faults.len());
        let faults = serde_json::to_value(faults).unwrap_or_default();
        return Err(problems::INVALID_TABLE.detail(detail).member("faults", faults));
    }
    let user = operator.user;
    let charset = charset.map(Encoding::name);
    let request = key.as_ref().map(|key| KeyedRequest { user, key, body: &bytes, charset });
    let Created { items, is_repeated } =
        shelf.create_all(&new, &actor_of(&operator), request).await?;
    tracing::info!(items = items.len(), is_repeated, operator = %operator.user, "items imported");
    let items = items.iter().map(|stocked| stocked.item.id.get()).collect();
    let body = ImportBody { dry_run, sales: new.len(), items, faults };
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    if is_repeated {
        mark_repeated(&mut response);
    }
    Ok(response)
}

/// The charset that the sender names.
fn charset_of(name: &str) -> Result<&'static Encoding, Problem> {
    charset_named(name).ok_or_else(|| {
        let detail = "Send a charset of the WHATWG Encoding Standard, such as utf-8, utf-16le, gbk or windows-1252.";
        problems::UNSUPPORTED_MEDIA_TYPE.detail(detail)
    })
}

//! `POST /api/admin/import`: sales from a table in CSV, all or none.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::import_table::{FaultBody, Table, read_table};
use crate::problems;
use extension::actor_of;
use extension::ports::{ItemForm, NewItems};
use shop_domain::Currency;
use web::body::CsvBody;
use web::extract::{Operator, QueryPairs};
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
    params(("dry_run" = Option<bool>, Query, description = "Check the table, and create nothing")),
    request_body(content = String, content_type = "text/csv", description = "A line of column names, which are the fields of a new sale, and one line for each sale"),
    responses(
        (status = 200, description = "The result of a check", body = ImportBody),
        (status = 201, description = "The new items", body = ImportBody),
        (status = "4XX", description = "Not an operator, or faults in the table"),
        (status = "5XX", description = "List the sales before you try again"),
    ))]
pub async fn import(
    State(form): State<Arc<dyn ItemForm>>,
    State(shelf): State<Arc<dyn NewItems>>,
    State(shop_currency): State<Currency>,
    operator: Operator,
    QueryPairs(pairs): QueryPairs,
    CsvBody(table): CsvBody,
) -> Result<Response, Problem> {
    let dry_run = match pairs.as_slice() {
        [] => false,
        [(name, value)] if name == "dry_run" && value == "true" => true,
        [(name, value)] if name == "dry_run" && value == "false" => false,
        _ => return Err(problems::INVALID_QUERY_PARAMETER.problem()),
    };
    let mut table = read_table(&table, shop_currency, &*form);
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
    let created = shelf.create_all(&new, &actor_of(&operator)).await?;
    tracing::info!(items = created.len(), operator = %operator.user, "items imported");
    let items = created.iter().map(|item| item.id.get()).collect();
    let body = ImportBody { dry_run, sales: new.len(), items, faults };
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

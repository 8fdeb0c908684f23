//! `GET /api/admin/export`: sales, orders and movements of stock as a file.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use time::OffsetDateTime;
use tokio_stream::wrappers::ReceiverStream;

use crate::export::{Exporter, Format, Selection, Table};
use crate::problems;
use extension::actor_of;
use ledger::Ledger;
use ledger::rows::actions;
use shop_domain::ItemId;
use web::document::TryAgain;
use web::extract::{Operator, QueryPairs};
use web::problem::{Problem, rfc3339};

/// The parameters of an export.
#[derive(Clone, Copy, Debug)]
struct ExportQuery {
    table: Table,
    format: Format,
    selection: Selection,
}

/// Export sales, orders or movements of stock, with their sums at the end.
#[utoipa::path(get, path = "/api/admin/export", tag = "operator", params(
    ("table" = Option<String>, Query, description = "`sales`, `orders` (if it is left out) or `movements`"),
    ("format" = Option<String>, Query, description = "`csv` (if it is left out) or `jsonl`"),
    ("item" = Option<i64>, Query, minimum = 1, description = "One item"),
    ("from" = Option<String>, Query, description = "Rows of this time and later: sales by their start"),
    ("until" = Option<String>, Query, description = "Rows before this time"),
), responses(
    (status = 200, description = "The file. Its last line is the total; without it the file is not complete", body = String, content_type = "text/csv"),
    (status = "4XX", description = "Not an operator, or a wrong parameter"), TryAgain,
))]
pub async fn export(
    State(exporter): State<Exporter>,
    State(ledger): State<Ledger>,
    operator: Operator,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    let ExportQuery { table, format, selection } = query(&pairs)?;
    let pages = exporter.start(table, format, selection).await?;
    let detail = json!({
        "table": table.as_str(),
        "format": format.as_str(),
        "from": selection.from.map(rfc3339),
        "until": selection.until.map(rfc3339),
    });
    let actor = actor_of(&operator);
    let recorded =
        actions::record_alone(&ledger.pool, &actor, "exported", selection.item, &detail).await;
    if let Err(error) = recorded {
        tracing::error!(%error, operator = %operator.user, "export not recorded, so it is not sent");
        return Err(Problem::dependency("mysql"));
    }
    let (kind, ending) = match format {
        Format::Csv => ("text/csv; charset=utf-8", "csv"),
        Format::JsonLines => ("application/jsonl", "jsonl"),
    };
    let name = format!("attachment; filename=\"seckill-{}.{ending}\"", table.as_str());
    let head = [(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((head, Body::from_stream(ReceiverStream::new(pages))).into_response())
}

fn query(pairs: &[(String, String)]) -> Result<ExportQuery, Problem> {
    let mut query =
        ExportQuery { table: Table::Orders, format: Format::Csv, selection: Selection::default() };
    let wrong = |detail: &'static str| problems::INVALID_QUERY_PARAMETER.detail(detail);
    let mut seen = Vec::new();
    for (name, value) in pairs {
        if seen.contains(&name) {
            return Err(problems::INVALID_QUERY_PARAMETER.problem());
        }
        seen.push(name);
        match name.as_str() {
            "table" => {
                let table = Table::parse(value);
                query.table =
                    table.ok_or_else(|| wrong("Send table as sales, orders or movements."))?;
            }
            "format" => {
                let format = Format::parse(value);
                query.format = format.ok_or_else(|| wrong("Send format as csv or jsonl."))?;
            }
            "item" => {
                let item = ItemId::parse(value);
                query.selection.item =
                    Some(item.ok_or_else(|| wrong("Send item as a whole number from 1."))?);
            }
            "from" => query.selection.from = Some(instant(value)?),
            "until" => query.selection.until = Some(instant(value)?),
            _ => return Err(problems::INVALID_QUERY_PARAMETER.problem()),
        }
    }
    Ok(query)
}

fn instant(text: &str) -> Result<OffsetDateTime, Problem> {
    web::instant(text).map_err(|_| {
        problems::INVALID_QUERY_PARAMETER.detail("Send times as RFC 3339 times with a zone.")
    })
}

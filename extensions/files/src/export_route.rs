//! `GET /api/admin/export`: sales, orders and movements of stock as a file.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use time::OffsetDateTime;
use tokio_stream::wrappers::ReceiverStream;

use crate::export::{Exporter, Form, Format, Selection, Table};
use crate::problems;
use extension::actor_of;
use ledger::Ledger;
use ledger::rows::actions;
use shop_domain::ItemId;
use web::accept::Accepted;
use web::extract::{Operator, QueryPairs};
use web::problem::{Problem, rfc3339};

/// The media types of lines of JSON: ours, and the other one in use.
const JSON_LINES: &str = "application/jsonl";
const NDJSON: &str = "application/x-ndjson";

/// The parameters of an export.
#[derive(Clone, Copy, Debug)]
struct ExportQuery {
    table: Table,
    /// `None`: what the request accepts.
    format: Option<Format>,
    has_mark: bool,
    selection: Selection,
}

/// Export sales, orders or movements of stock, with their sums at the end.
#[utoipa::path(get, path = "/api/admin/export", tag = "operator", params(
    ("table" = Option<String>, Query, description = "`sales`, `orders` (if it is left out) or `movements`"),
    ("format" = Option<String>, Query, description = "`csv` or `jsonl`; if it is left out, what the request accepts, and CSV of both"),
    ("bom" = Option<bool>, Query, description = "Begin CSV with a byte order mark, by which Excel knows UTF-8"),
    ("item" = Option<i64>, Query, minimum = 1, description = "One item"),
    ("from" = Option<String>, Query, description = "Rows of this time and later: sales by their start"),
    ("until" = Option<String>, Query, description = "Rows before this time"),
), responses(
    (status = 200, description = "The file. Its last line is the total; without it the file is not complete", content(
        (String = "text/csv"), (String = "application/jsonl"), (String = "application/x-ndjson"),
    )),
))]
pub async fn export(
    State(exporter): State<Exporter>,
    State(ledger): State<Ledger>,
    operator: Operator,
    QueryPairs(pairs): QueryPairs,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let ExportQuery { table, format, has_mark, selection } = query(&pairs)?;
    let accepted = Accepted::read(&headers).unwrap_or_default();
    let is_ndjson = accepted.wants(NDJSON) > accepted.wants(JSON_LINES);
    let lines = if is_ndjson { NDJSON } else { JSON_LINES };
    let wants_lines = accepted.wants(lines) > accepted.wants("text/csv");
    let format = format.unwrap_or(if wants_lines { Format::JsonLines } else { Format::Csv });
    let pages = exporter.start(table, Form { format, has_mark }, selection).await?;
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
        Format::JsonLines => (lines, "jsonl"),
    };
    let name = format!("attachment; filename=\"seckill-{}.{ending}\"", table.as_str());
    let head = [(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((head, Body::from_stream(ReceiverStream::new(pages))).into_response())
}

fn query(pairs: &[(String, String)]) -> Result<ExportQuery, Problem> {
    let mut query = ExportQuery {
        table: Table::Orders,
        format: None,
        has_mark: false,
        selection: Selection::default(),
    };
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
                query.format = Some(format.ok_or_else(|| wrong("Send format as csv or jsonl."))?);
            }
            "bom" => {
                let bom = value.parse().map_err(|_| wrong("Send bom as true or false."));
                query.has_mark = bom?;
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

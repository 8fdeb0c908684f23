//! The records of each table: rows, sums, and the total at the end.

use std::collections::BTreeSet;

use futures::future::BoxFuture;

use crate::sql::rows::{self, FIRST, Movement, MovementSum, OrderSum, Sale, Selection};
use crate::writer::{Cell, ExportError, Table, Writer};
use mysql_connection::Snapshot;
use shop_domain::{ItemId, Order};

/// Rows that are read at once.
const ROWS_MAX: u32 = 1_000;
/// Sales that are read at once: each has its orders added up.
const SALES_MAX: u32 = 50;

/// The columns of a table, each with its cell in a row. `None`: only sums and totals have it.
type Columns<T> = &'static [(&'static str, Option<fn(&T) -> Cell>)];

static SALES: Columns<Sale> = &[
    ("id", Some(|sale| sale.id.get().into())),
    ("name", Some(|sale| Cell::Typed(sale.name.clone()))),
    ("kind", Some(|sale| Cell::Plain(sale.kind.clone()))),
    ("strategy", Some(|sale| Cell::Plain(sale.strategy.clone()))),
    ("price_cents", Some(|sale| sale.price_cents.into())),
    ("starts_at", Some(|sale| sale.starts_at.into())),
    ("ends_at", Some(|sale| sale.ends_at.into())),
    ("total", Some(|sale| sale.total.into())),
    ("available", Some(|sale| sale.available.into())),
    ("held", Some(|sale| sale.held.into())),
    ("sold", Some(|sale| sale.sold.into())),
    ("orders", Some(|sale| sale.orders.into())),
    ("paid_cents", Some(|sale| sale.paid_cents.into())),
    ("adds_up", Some(|sale| Cell::Flag(adds_up(sale)))),
    ("count", None),
    ("currency", Some(|sale| sale.currency.as_str().into())),
    // With these a sale can be imported again.
    ("description", Some(|sale| Cell::Typed(sale.description.clone()))),
    ("image_url", Some(|sale| sale.image_url.clone().map_or(Cell::Absent, Cell::Typed))),
    ("per_buyer_limit", Some(|sale| i64::from(sale.per_buyer_limit).into())),
    ("unpaid_max", Some(|sale| i64::from(sale.unpaid_max).into())),
    ("hold_seconds", Some(|sale| i64::from(sale.hold_seconds).into())),
    ("arbiter", Some(|sale| Cell::Plain(sale.arbiter.clone()))),
    ("waiting_room", Some(|sale| Cell::Flag(sale.waiting_room))),
    ("offer_seconds", Some(|sale| i64::from(sale.offer_seconds).into())),
    ("extend_seconds", Some(|sale| i64::from(sale.extend_seconds).into())),
    ("return_seconds", Some(|sale| i64::from(sale.return_seconds).into())),
    ("limit_group_id", Some(|sale| sale.limit_group_id.into())),
    ("product_id", Some(|sale| sale.product_id.into())),
    ("options", Some(|sale| sale.options.as_deref().map_or(Cell::Absent, options_cell))),
    ("mode", Some(|sale| Cell::from(if sale.is_drawn { "draw" } else { "race" }))),
    ("offered", Some(|sale| sale.offered.into())),
];

static ORDERS: Columns<Order> = &[
    ("id", Some(|order| Cell::Plain(order.id.to_string()))),
    ("item_id", Some(|order| order.item_id.get().into())),
    ("user_id", Some(|order| order.user_id.get().into())),
    ("quantity", Some(|order| order.quantity.signed().into())),
    ("amount_cents", Some(|order| order.amount.cents().into())),
    ("status", Some(|order| order.status.as_str().into())),
    ("strategy", Some(|order| Cell::Plain(order.strategy.clone()))),
    ("created_at", Some(|order| order.created_at.into())),
    ("expires_at", Some(|order| order.expires_at.into())),
    ("paid_at", Some(|order| order.paid_at.into())),
    ("count", None),
    // The same in all lines of an order.
    ("order_id", Some(|order| Cell::Plain(order.whole_id().to_string()))),
    ("currency", Some(|order| order.currency.as_str().into())),
];

static MOVEMENTS: Columns<Movement> = &[
    ("id", Some(|movement| Cell::Plain(movement.id.clone()))),
    ("item_id", Some(|movement| movement.item.get().into())),
    ("reason", Some(|movement| Cell::Plain(movement.reason.clone()))),
    ("delta", Some(|movement| movement.delta.into())),
    ("created_at", Some(|movement| movement.created_at.into())),
    ("count", None),
];

/// The columns of a table in CSV. `record` says whether a line is a row, a sum, or the total, which is the last line.
pub(super) fn columns(table: Table) -> Vec<&'static str> {
    match table {
        Table::Sales => names(SALES),
        Table::Orders => names(ORDERS),
        Table::Movements => names(MOVEMENTS),
    }
}

fn names<T>(columns: Columns<T>) -> Vec<&'static str> {
    std::iter::once("record").chain(columns.iter().map(|(name, _)| *name)).collect()
}

/// The cells of a row.
fn row<T>(columns: Columns<T>, of: &T) -> Vec<(&'static str, Cell)> {
    columns.iter().filter_map(|(name, cell)| Some((*name, (*cell)?(of)))).collect()
}

/// Writes the table that the writer is for.
pub(super) fn write<'a>(
    snapshot: &'a mut Snapshot,
    writer: &'a mut Writer,
    selection: Selection,
) -> BoxFuture<'a, Result<(), ExportError>> {
    Box::pin(async move {
        match writer.table {
            Table::Sales => sales(snapshot, writer, selection).await?,
            Table::Orders => orders(snapshot, writer, selection).await?,
            Table::Movements => movements(snapshot, writer, selection).await?,
        }
        writer.send().await
    })
}

async fn orders(
    snapshot: &mut Snapshot,
    writer: &mut Writer,
    selection: Selection,
) -> Result<(), ExportError> {
    let mut written = [0_i64; 3];
    let mut after = FIRST.to_owned();
    loop {
        let page = rows::orders(snapshot, selection, &after, ROWS_MAX).await?;
        let Some(last) = page.last() else { break };
        after = last.id.to_string();
        for order in page {
            let sum = [1, order.quantity.signed(), order.amount.cents()];
            written = add(written, sum);
            writer.write("order", row(ORDERS, &order)).await?;
        }
    }
    let mut total = [0_i64; 3];
    let mut currencies = BTreeSet::new();
    for sum in rows::order_sums(snapshot, selection).await? {
        let OrderSum { status, currency, count, quantity, amount_cents } = sum;
        let currency = currency.as_str();
        total = add(total, [count, quantity, amount_cents]);
        currencies.insert(currency);
        let cells = vec![
            ("status", Cell::Plain(status)),
            ("count", count.into()),
            ("quantity", quantity.into()),
            ("amount_cents", amount_cents.into()),
            ("currency", currency.into()),
        ];
        writer.write("sum", cells).await?;
    }
    compare(written, total)?;
    let [count, quantity, amount] = total;
    let mut cells = vec![("count", count.into()), ("quantity", quantity.into())];
    cells.extend(total_of_money("amount_cents", amount, &currencies));
    writer.write("total", cells).await
}

/// The total of money, and its currency. Money of several currencies has none.
fn total_of_money(
    column: &'static str,
    total: i64,
    currencies: &BTreeSet<&'static str>,
) -> Vec<(&'static str, Cell)> {
    let mut cells = Vec::new();
    if currencies.len() <= 1 {
        cells.push((column, total.into()));
        cells.extend(currencies.first().map(|&currency| ("currency", currency.into())));
    }
    cells
}

async fn movements(
    snapshot: &mut Snapshot,
    writer: &mut Writer,
    selection: Selection,
) -> Result<(), ExportError> {
    let mut written = [0_i64; 2];
    let mut after_item = 0;
    loop {
        let items = rows::item_ids(snapshot, selection, after_item, ROWS_MAX).await?;
        let Some(last) = items.last() else { break };
        after_item = last.get();
        for item in items {
            written = movements_of(snapshot, writer, item, selection, written).await?;
        }
    }
    let mut total = [0_i64; 2];
    for MovementSum { reason, count, delta } in rows::movement_sums(snapshot, selection).await? {
        total = add(total, [count, delta]);
        let cells =
            vec![("reason", Cell::Plain(reason)), ("count", count.into()), ("delta", delta.into())];
        writer.write("sum", cells).await?;
    }
    compare(written, total)?;
    let [count, delta] = total;
    writer.write("total", vec![("count", count.into()), ("delta", delta.into())]).await
}

/// Writes the movements and restocks of one item, and answers their sums with those of `written`.
async fn movements_of(
    snapshot: &mut Snapshot,
    writer: &mut Writer,
    item: ItemId,
    selection: Selection,
    mut written: [i64; 2],
) -> Result<[i64; 2], ExportError> {
    let mut after = (FIRST.to_owned(), String::new());
    loop {
        let after_both = (after.0.as_str(), after.1.as_str());
        let page = rows::movements(snapshot, item, selection, after_both, ROWS_MAX).await?;
        let Some(last) = page.last() else { break };
        after = (last.id.clone(), last.reason.clone());
        written = write_movements(writer, page, written).await?;
    }
    let mut after = FIRST.to_owned();
    loop {
        let page = rows::restocks(snapshot, item, selection, &after, ROWS_MAX).await?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.id);
        written = write_movements(writer, page, written).await?;
    }
    Ok(written)
}

async fn write_movements(
    writer: &mut Writer,
    page: Vec<Movement>,
    mut written: [i64; 2],
) -> Result<[i64; 2], ExportError> {
    for movement in page {
        written = add(written, [1, movement.delta]);
        writer.write("movement", row(MOVEMENTS, &movement)).await?;
    }
    Ok(written)
}

async fn sales(
    snapshot: &mut Snapshot,
    writer: &mut Writer,
    selection: Selection,
) -> Result<(), ExportError> {
    let mut sums = [0_i64; 8];
    let mut add_up = true;
    let mut currencies = BTreeSet::new();
    let mut after = 0;
    loop {
        let page = rows::sales(snapshot, selection, after, SALES_MAX).await?;
        let Some(last) = page.last() else { break };
        after = last.id.get();
        for sale in page {
            let Sale { total, available, offered, held, sold, orders, paid_cents, .. } = sale;
            sums = add(sums, [1, total, available, offered, held, sold, orders, paid_cents]);
            add_up &= adds_up(&sale);
            currencies.insert(sale.currency.as_str());
            writer.write("sale", row(SALES, &sale)).await?;
        }
    }
    let [count, total, available, offered, held, sold, orders, paid_cents] = sums;
    let mut cells = vec![
        ("total", total.into()),
        ("available", available.into()),
        ("held", held.into()),
        ("sold", sold.into()),
        ("orders", orders.into()),
        ("adds_up", Cell::Flag(add_up)),
        ("count", count.into()),
        ("offered", offered.into()),
    ];
    cells.extend(total_of_money("paid_cents", paid_cents, &currencies));
    writer.write("total", cells).await
}

/// The audit's first invariant: each unit is left, offered, held or sold.
fn adds_up(sale: &Sale) -> bool {
    sale.total == sale.available + sale.offered + sale.held + sale.sold
}

/// Options as a table has them: `Size=M; Colour=red`. A list in JSON stays one if a text has these signs.
fn options_cell(stored: &str) -> Cell {
    let pairs: Vec<(String, String)> = serde_json::from_str(stored).unwrap_or_default();
    let is_plain = |text: &str| text == text.trim() && !text.contains([';', '=']);
    if !pairs.iter().all(|(name, value)| is_plain(name) && is_plain(value)) {
        return Cell::Typed(stored.to_owned());
    }
    let each = pairs.iter().map(|(name, value)| format!("{name}={value}"));
    Cell::Typed(each.collect::<Vec<_>>().join("; "))
}

fn add<const N: usize>(mut sums: [i64; N], more: [i64; N]) -> [i64; N] {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
    sums
}

fn compare<const N: usize>(written: [i64; N], total: [i64; N]) -> Result<(), ExportError> {
    if written == total {
        return Ok(());
    }
    Err(ExportError::Unequal(format!("{written:?} in rows, {total:?} in the ledger")))
}

//! The rows that a new order writes, and the statement that takes its units. Each statement has one text,
//! from which the forms of a single order, of a batch and of the procedure are made. Before these rows the fence of the
//! item's lock is raised, so that a late holder is refused.
//!
//! A call contains its values, so that it needs no round trip to be prepared. No text of a buyer stands
//! in it as it came: see [`Text`].

use std::collections::HashMap;
use std::fmt::{self, Display, Write};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;
use sqlx::{MySql, MySqlConnection};
use time::format_description::FormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

use Value::{Ascii, At, Id, Signed, Unsigned, Word};

use super::Conflict;
use crate::rows::order::orders::buyer_bucket;
use mysql_connection::statement::{Binds, Read};
use shop_domain::order::MovementReason;
use shop_domain::{OrderId, OrderStatus, Purchase};

/// Rows that one statement writes at most.
const ROWS_MAX: usize = 256;
/// The longest name of a counter, as the ledger's column has it.
const BACKEND_LENGTH_MAX: usize = 32;

/// How purchases are written: the same for all orders of a transaction.
#[derive(Clone, Copy)]
pub(super) struct Written {
    pub(super) status: OrderStatus,
    /// The fence under which they are written.
    pub(super) fence: Option<Fence>,
    /// The number of the write among those under the same counter.
    pub(super) fence_sequence: Option<u64>,
}

/// A fencing token with the name of its counter: tokens of different backends cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Names the counter.
    pub backend: &'static str,
    pub token: u64,
}

impl Fence {
    /// Makes a fence of the counter that the ledger calls `backend`.
    pub fn new(backend: &'static str, token: u64) -> Self {
        let fits = (1..=BACKEND_LENGTH_MAX).contains(&backend.len());
        assert!(fits, "the fence counter's name does not fit");
        Self { backend, token }
    }
}

/// A column of `orders`.
struct Column {
    name: &'static str,
    /// Its value in the procedure.
    in_procedure: &'static str,
    /// The type of the parameter that has this value; empty: the procedure finds the value itself.
    parameter: &'static str,
    value: for<'a> fn(&'a Purchase, &Written) -> Value<'a>,
}

/// The columns of a new order. A column that is added here is in every statement that writes one.
#[rustfmt::skip]
static COLUMNS: [Column; 16] = [
    Column { name: "id", in_procedure: "p_order", parameter: "CHAR(36) CHARACTER SET ascii", value: |purchase, _| Id(purchase.order_id) },
    Column { name: "item_id", in_procedure: "p_item", parameter: "BIGINT", value: |purchase, _| Signed(Some(purchase.item.id.get())) },
    Column { name: "user_id", in_procedure: "p_buyer", parameter: "BIGINT", value: |purchase, _| Signed(Some(purchase.buyer.get())) },
    Column { name: "quantity", in_procedure: "p_units", parameter: "INT UNSIGNED", value: |purchase, _| Signed(Some(purchase.quantity.signed())) },
    Column { name: "amount_cents", in_procedure: "p_amount", parameter: "BIGINT", value: |purchase, _| Signed(Some(purchase.amount.cents())) },
    Column { name: "status", in_procedure: "p_status", parameter: "VARCHAR(16) CHARACTER SET ascii", value: |_, written| Word(written.status.as_str()) },
    Column { name: "strategy", in_procedure: "p_strategy", parameter: "VARCHAR(64) CHARACTER SET ascii", value: |purchase, _| Word(purchase.strategy) },
    Column { name: "fence", in_procedure: "p_token", parameter: "BIGINT UNSIGNED", value: |_, written| Unsigned(written.fence.map(|fence| fence.token)) },
    Column { name: "fence_backend", in_procedure: "p_backend", parameter: "VARCHAR(32) CHARACTER SET ascii", value: |_, written| Ascii(written.fence.map(|fence| fence.backend)) },
    Column { name: "fence_sequence", in_procedure: "v_sequence", parameter: "", value: |_, written| Unsigned(written.fence_sequence) },
    Column { name: "request_key", in_procedure: "p_key", parameter: "VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin", value: |purchase, _| Ascii(Some(purchase.key.as_str())) },
    Column { name: "limit_group_id", in_procedure: "p_group", parameter: "BIGINT", value: |purchase, written| Signed(group_of(purchase, written)) },
    Column { name: "buyer_bucket", in_procedure: "p_bucket", parameter: "INT UNSIGNED", value: |purchase, _| Unsigned(Some(buyer_bucket(purchase.item.id))) },
    Column { name: "created_at", in_procedure: "p_created_at", parameter: "DATETIME(6)", value: |purchase, _| At(purchase.created_at) },
    Column { name: "expires_at", in_procedure: "p_expires_at", parameter: "DATETIME(6)", value: |purchase, _| At(purchase.expires_at) },
    Column { name: "line_count", in_procedure: "NULL", parameter: "", value: |purchase, _| Unsigned(purchase.line_count.map(u64::from)) },
];

/// The group in whose limit the units of an order are counted; a rejected order counts in none.
fn group_of(purchase: &Purchase, written: &Written) -> Option<i64> {
    let group = purchase.counted_group().filter(|_| written.status != OrderStatus::Rejected);
    group.map(|group| group.id.get())
}

/// The value of a column.
#[derive(Clone, Copy)]
enum Value<'a> {
    Id(OrderId),
    /// One of few, such as the strategy.
    Word(&'static str),
    Signed(Option<i64>),
    Unsigned(Option<u64>),
    Ascii(Option<&'a str>),
    At(OffsetDateTime),
}

impl Display for Value<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Id(id) => write!(formatter, "'{id}'"),
            Self::Word(word) => Text(word).fmt(formatter),
            Self::Signed(number) => OrNull(number).fmt(formatter),
            Self::Unsigned(number) => OrNull(number).fmt(formatter),
            Self::Ascii(text) => OrNull(text.map(Text)).fmt(formatter),
            Self::At(time) => Time(time).fmt(formatter),
        }
    }
}

type Statement<'a> = Query<'a, MySql, MySqlArguments>;

impl<'a> Value<'a> {
    fn is_null(self) -> bool {
        matches!(self, Signed(None) | Unsigned(None) | Ascii(None))
    }

    fn bind(self, statement: Statement<'a>) -> Statement<'a> {
        match self {
            // Texts as bytes: the server would convert them character by character.
            Self::Id(id) => statement.bind(id.to_string().into_bytes()),
            Self::Word(word) => statement.bind(word.as_bytes()),
            Self::Signed(number) => statement.bind(number),
            Self::Unsigned(number) => statement.bind(number),
            Self::Ascii(text) => statement.bind(text.map(str::as_bytes)),
            Self::At(time) => statement.bind(time),
        }
    }
}

/// The arguments of a call that writes an order, in the order of the procedure's parameters.
pub(super) fn arguments(purchase: &Purchase, written: &Written) -> String {
    let columns = COLUMNS.iter().filter(|column| !column.parameter.is_empty());
    let values = columns.map(|column| (column.value)(purchase, written).to_string());
    values.collect::<Vec<_>>().join(", ")
}

/// An INSERT of one or many rows.
struct Insert {
    head: String,
    /// The placeholders of a row.
    row: String,
    tail: &'static str,
    /// The text for each power of two of rows.
    texts: [OnceLock<String>; ROWS_MAX.ilog2() as usize + 1],
}

/// How the values of a column stand in a statement that inserts orders. A value that all orders of a batch have
/// is no parameter of each row: the server takes longer for a parameter than for a word or a default.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// A parameter in each row.
    Parameter,
    /// The one word of all rows, in the text.
    Word(&'static str),
    /// Left out: all rows have NULL, the column's default.
    Absent,
}

type Places = [Place; COLUMNS.len()];

/// The statements that insert orders, by the places of their values. There are as many as strategies, times the
/// columns that may be NULL.
static ORDERS: LazyLock<Mutex<HashMap<Places, Arc<Insert>>>> = LazyLock::new(Mutex::default);

impl Place {
    fn of(column: &Column, purchases: &[&Purchase], written: &Written) -> Self {
        let mut others = purchases.iter().map(|purchase| (column.value)(purchase, written));
        let Some(first) = others.next() else { return Self::Parameter };
        match first {
            Word(word) if others.all(|one| matches!(one, Word(other) if other == word)) => {
                Self::Word(word)
            }
            first if first.is_null() && others.all(Value::is_null) => Self::Absent,
            _ => Self::Parameter,
        }
    }

    /// Its text in the row; `None` where it is left out.
    fn text(self) -> Option<String> {
        match self {
            Self::Parameter => Some("?".to_owned()),
            Self::Word(word) => Some(Text(word).to_string()),
            Self::Absent => None,
        }
    }
}

/// The INSERT of orders with these values.
fn insert_of_orders(places: Places) -> Arc<Insert> {
    let mut known = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let columns = COLUMNS.iter().zip(places);
        let columns = columns.filter_map(|(column, place)| Some((column.name, place.text()?)));
        let columns: Vec<_> = columns.collect();
        let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
        let values: Vec<_> = columns.iter().map(|(_, value)| value.as_str()).collect();
        Arc::new(Insert::new(head_of_orders(&names), format!("({})", values.join(", ")), ""))
    };
    Arc::clone(known.entry(places).or_insert_with(make))
}

fn head_of_orders(columns: &[&str]) -> String {
    format!("INSERT INTO orders ({})", columns.join(", "))
}

/// Counts units against the limits of items. A buyer whose holds have expired too often is allowed less than nothing, so
/// that the table's CHECK refuses the order.
static BUYERS: LazyLock<Insert> = LazyLock::new(|| {
    let head = "INSERT INTO buyer_limits (item_id, user_id, bought, allowed, unpaid_max)";
    let tail = " ON DUPLICATE KEY UPDATE bought = bought + VALUES(bought), \
         unpaid_max = VALUES(unpaid_max), \
         allowed = IF(VALUES(unpaid_max) > 0 AND expired >= VALUES(unpaid_max), -1, VALUES(allowed))";
    Insert::new(head.to_owned(), "(?, ?, ?, ?, ?)".to_owned(), tail)
});

/// Counts units against the limits of groups; the table's CHECK refuses the unit too many.
static GROUPS: LazyLock<Insert> = LazyLock::new(|| {
    let head = "INSERT INTO group_limits (group_id, user_id, bought, allowed)";
    let tail = " ON DUPLICATE KEY UPDATE bought = bought + VALUES(bought), \
         allowed = VALUES(allowed)";
    Insert::new(head.to_owned(), "(?, ?, ?, ?)".to_owned(), tail)
});

static MOVEMENTS: LazyLock<Insert> = LazyLock::new(|| {
    let head = "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at)";
    let row = format!("(?, ?, '{}', ?, ?)", MovementReason::Sold.as_str());
    Insert::new(head.to_owned(), row, "")
});

impl Insert {
    fn new(head: String, row: String, tail: &'static str) -> Self {
        Self { head, row, tail, texts: Default::default() }
    }

    fn of(&self, rows: &str) -> String {
        format!("{} VALUES {rows}{}", self.head, self.tail)
    }

    /// The text for a power of two of rows, so that there are few statements to prepare.
    fn text(&self, rows: usize) -> &str {
        assert!(rows.is_power_of_two() && rows <= ROWS_MAX, "few lengths, each prepared once");
        let text = || self.of(&vec![&*self.row; rows].join(", "));
        self.texts[rows.ilog2() as usize].get_or_init(text)
    }
}

/// Raises the accepted fence and counts the write, unless a later fence was accepted before. Answers the number of
/// this write among those under the same counter, from 1 on. The orders keep it, and by it the audit knows the order
/// of the writes.
pub(super) async fn raise_fence(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    fence: Fence,
) -> sqlx::Result<Result<u64, Conflict>> {
    let item = purchase.item.id.get();
    // LAST_INSERT_ID(n) answers n with the statement, which spares a SELECT.
    let raised = sqlx::query(
        "UPDATE fences SET fence = ?, accepted_writes = LAST_INSERT_ID(accepted_writes + 1) \
         WHERE item_id = ? AND backend = ? AND fence <= ?",
    )
    .binds((fence.token, item, fence.backend, fence.token))
    .execute(&mut *connection)
    .await?;
    if raised.rows_affected() == 1 {
        return Ok(Ok(raised.last_insert_id()));
    }
    // The row is missing (the item's first write under this backend) or holds a later token.
    let first = sqlx::query(
        "INSERT IGNORE INTO fences (item_id, backend, fence, accepted_writes) VALUES (?, ?, ?, 1)",
    )
    .binds((item, fence.backend, fence.token))
    .execute(&mut *connection)
    .await?;
    if first.rows_affected() == 1 {
        return Ok(Ok(1));
    }
    let accepted = sqlx::query_scalar("SELECT fence FROM fences WHERE item_id = ? AND backend = ?");
    let accepted: u64 = accepted.binds((item, fence.backend)).one(connection).await?;
    Ok(Err(Conflict::Fenced { accepted }))
}

/// Inserts orders: a power of two, at most 256.
pub(super) async fn insert_orders(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
    written: &Written,
) -> sqlx::Result<()> {
    let place = |index: usize| Place::of(&COLUMNS[index], purchases, written);
    let places: Places = std::array::from_fn(place);
    let insert = insert_of_orders(places);
    let parameters = COLUMNS.iter().zip(places).filter(|(_, place)| *place == Place::Parameter);
    let mut statement = sqlx::query(insert.text(purchases.len()));
    for purchase in purchases {
        let values = parameters.clone().map(|(column, _)| (column.value)(purchase, written));
        statement = values.fold(statement, |statement, value| value.bind(statement));
    }
    statement.execute(connection).await.map(drop)
}

/// Counts units against the limit of the purchase's item, for its buyer: a power of two of rows, at most 256.
pub(super) async fn count_buyers(
    connection: &mut MySqlConnection,
    counted: &[(&Purchase, i64)],
    is_offer: bool,
) -> sqlx::Result<()> {
    let mut statement = sqlx::query(BUYERS.text(counted.len()));
    for (purchase, units) in counted {
        let item = &purchase.item;
        // Whoever accepts an offer has waited behind all others: holds that expired do not count.
        let unpaid_max = if is_offer { 0 } else { item.unpaid_max };
        statement = statement.bind(item.id.get()).bind(purchase.buyer.get()).bind(units);
        statement = statement.bind(item.per_buyer_limit).bind(unpaid_max);
    }
    statement.execute(connection).await.map(drop)
}

/// Counts units like [`count_buyers`] against the limit of the item's group. Each item is in one.
pub(super) async fn count_in_groups(
    connection: &mut MySqlConnection,
    counted: &[(&Purchase, i64)],
) -> sqlx::Result<()> {
    let mut statement = sqlx::query(GROUPS.text(counted.len()));
    for (purchase, units) in counted {
        let group = purchase.counted_group();
        statement = statement.bind(group.map(|group| group.id.get())).bind(purchase.buyer.get());
        statement = statement.bind(units).bind(group.map(|group| group.per_buyer_limit));
    }
    statement.execute(connection).await.map(drop)
}

/// Writes the movements of sold units: a power of two, at most 256.
pub(super) async fn insert_movements(
    connection: &mut MySqlConnection,
    sold: &[&Purchase],
) -> sqlx::Result<()> {
    let mut statement = sqlx::query(MOVEMENTS.text(sold.len()));
    for purchase in sold {
        statement = statement
            .bind(purchase.item.id.get())
            .bind(purchase.order_id.to_string().into_bytes())
            .bind(-purchase.quantity.signed())
            .bind(purchase.created_at);
    }
    statement.execute(connection).await.map(drop)
}

/// The statement that takes `units` of the items that `items` names, where enough are left. `stock` is the table, with a hint if need be.
pub(super) fn stock_update(stock: &str, units: &str, items: &str) -> String {
    format!(
        "UPDATE {stock} SET available = available - {units}, version = version + 1 \
         WHERE item_id {items} AND available >= {units}"
    )
}

/// Fills the statements into the text of the procedure.
pub(crate) fn fill_in(text: &str) -> String {
    let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
    let values: Vec<_> = COLUMNS.iter().map(|column| column.in_procedure).collect();
    let order = format!("{} VALUES ({})", head_of_orders(&names), values.join(", "));
    let sold = MovementReason::Sold.as_str();
    let movement = format!("(p_item, p_order, '{sold}', -CAST(p_units AS SIGNED), p_created_at)");
    let columns = COLUMNS.iter().filter(|column| !column.parameter.is_empty());
    let typed = columns.map(|column| format!("{} {}", column.in_procedure, column.parameter));
    let parameters: Vec<_> = typed.collect();
    text.replace("ORDER_PARAMETERS", &parameters.join(",\n    "))
        .replace("INSERT_ORDER", &order)
        .replace("COUNT_BUYER", &BUYERS.of("(p_item, p_buyer, p_units, p_limit, p_unpaid_max)"))
        .replace("COUNT_IN_GROUP", &GROUPS.of("(p_group, p_buyer, p_units, p_group_limit)"))
        .replace("INSERT_MOVEMENT", &MOVEMENTS.of(&movement))
        .replace("TAKE_STOCK", &stock_update("stock", "p_units", "= p_item"))
}

/// A string literal. What is not plain ASCII, or could end the literal, is written as hexadecimal
/// digits, whatever the server's SQL mode makes of backslashes.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'\\');
        if self.0.bytes().all(is_plain) {
            return write!(formatter, "'{}'", self.0);
        }
        formatter.write_str("_utf8mb4 X'")?;
        self.0.bytes().try_for_each(|byte| write!(formatter, "{byte:02X}"))?;
        formatter.write_char('\'')
    }
}

/// A value, or `NULL`.
pub(super) struct OrNull<T>(pub(super) Option<T>);

impl<T: Display> Display for OrNull<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(formatter),
            None => formatter.write_str("NULL"),
        }
    }
}

/// A point in time as a DATETIME(6) literal in UTC.
pub(super) struct Time(pub(super) OffsetDateTime);

const DATETIME: &[FormatItem<'_>] =
    format_description!("'[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:6]'");

impl Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_offset(UtcOffset::UTC).format(DATETIME).map_err(|_| fmt::Error)?;
        formatter.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn no_text_ends_its_literal() {
        assert_eq!(Text("order 7: {\"a\":[1]}").to_string(), "'order 7: {\"a\":[1]}'");
        assert_eq!(Text("").to_string(), "''");
        for hostile in ["'", "\\", "' OR 1=1 -- ", "\u{fc}", "\0", "\n", "\u{ff07}", "\\'"] {
            let literal = Text(hostile).to_string();
            let digits =
                literal.strip_prefix("_utf8mb4 X'").and_then(|rest| rest.strip_suffix('\''));
            let digits = digits.unwrap_or_else(|| panic!("{hostile:?} is quoted: {literal}"));
            assert_eq!(digits.len(), hostile.len() * 2);
            assert!(digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{literal}");
        }
    }

    #[test]
    fn times_are_written_in_utc_with_microseconds() {
        let time = datetime!(2026-03-01 00:30:05.000042 +02:00);
        assert_eq!(Time(time).to_string(), "'2026-02-28 22:30:05.000042'");
        assert_eq!(OrNull::<u64>(None).to_string(), "NULL");
        assert_eq!(OrNull(Some(7)).to_string(), "7");
    }
}

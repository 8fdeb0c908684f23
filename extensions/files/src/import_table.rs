//! Sales as a table in CSV: what its lines mean, and every fault in it.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::ToSchema;

use crate::formula;
use crate::problems;
use extension::ports::{ItemForm, NewItems};
use shop_domain::{Currency, NewItem};
use web::problem::Problem;

/// The most sales of one table.
const ITEMS_MAX: usize = 500;
/// The most faults of one answer.
const FAULTS_MAX: usize = 1_000;
/// The most columns whose names are compared: twice as many as there are, so that wrong ones are named.
const COLUMNS_MAX: usize = 2 * COLUMNS.len();
/// The longest name of a column that an answer repeats, in bytes.
const COLUMN_BYTES_MAX: usize = 64;
/// The columns of a table, which are the fields of a new sale: the name, whether a table must have it, and
/// the columns that it is checked with.
const COLUMNS: [(&str, bool, &[&str]); 21] = [
    ("name", true, &[]),
    ("description", false, &[]),
    ("image_url", false, &[]),
    ("price_cents", true, &[]),
    ("currency", false, &[]),
    ("stock", true, &[]),
    ("starts_at", true, &["ends_at"]),
    ("ends_at", true, &["starts_at"]),
    ("per_buyer_limit", false, &[]),
    ("unpaid_max", false, &["kind"]),
    ("hold_seconds", false, &[]),
    ("kind", false, &[]),
    ("strategy", false, &["kind"]),
    ("arbiter", false, &["kind"]),
    ("waiting_room", false, &[]),
    ("offer_seconds", false, &[]),
    ("extend_seconds", false, &[]),
    ("return_seconds", false, &[]),
    ("limit_group_id", false, &[]),
    ("product_id", false, &[]),
    ("options", false, &["product_id"]),
];

/// A fault in a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FaultBody {
    /// The line of the file, from 1; a record may have several lines.
    pub line: u64,
    /// The column, if the fault has one.
    pub column: Option<String>,
    /// The type of problem, as for a single sale.
    pub code: String,
    /// What to do about it.
    pub detail: String,
}

/// A table that was read.
#[derive(Debug)]
pub struct Table {
    /// The sales of the lines without faults.
    pub sales: Vec<NewItem>,
    /// The line of each sale.
    lines: Vec<u64>,
    /// The first [`FAULTS_MAX`] faults.
    pub faults: Vec<FaultBody>,
}

impl Table {
    /// Adds a fault for each product and group of items that a sale names and that does not exist.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn check_names(&mut self, shelf: &dyn NewItems) -> Result<(), Problem> {
        for unknown in shelf.unknown_names(&self.sales).await? {
            let line = self.lines[unknown.place];
            self.faults.push(fault(line, Some(unknown.column), &unknown.problem));
        }
        self.keep_first_faults();
        Ok(())
    }

    fn keep_first_faults(&mut self) {
        self.faults.sort_by_key(|fault| fault.line);
        self.faults.truncate(FAULTS_MAX);
    }
}

/// Reads a table. Sales without a currency have that of the shop.
#[must_use]
pub fn read_table(table: &[u8], shop_currency: Currency, form: &dyn ItemForm) -> Table {
    let mut faults = Vec::new();
    let (lines, sales): (Vec<_>, Vec<_>) =
        read_lines(table, shop_currency, form, &mut faults).into_iter().unzip();
    if sales.is_empty() && faults.is_empty() {
        faults.push(fault(1, None, &problems::INVALID_TABLE.detail("The table has no sale.")));
    }
    let mut table = Table { sales, lines, faults };
    table.keep_first_faults();
    table
}

/// The names of the columns; `None` if there are too many, or one is too long.
fn column_names(line: &csv::StringRecord) -> Option<Vec<String>> {
    let fit = line.len() <= COLUMNS_MAX && line.iter().all(|it| it.len() <= COLUMN_BYTES_MAX);
    fit.then(|| line.iter().map(|name| name.trim().to_owned()).collect())
}

/// Reads lines until there are [`FAULTS_MAX`] faults; returns the sales of those without, each with its line.
fn read_lines(
    table: &[u8],
    shop_currency: Currency,
    form: &dyn ItemForm,
    faults: &mut Vec<FaultBody>,
) -> Vec<(u64, NewItem)> {
    let wrong = |detail: String| problems::INVALID_TABLE.detail(detail);
    // Spreadsheets put a mark in front of UTF-8.
    let table = table.strip_prefix(b"\xef\xbb\xbf").unwrap_or(table);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(table);
    let names = match reader.headers().map(column_names) {
        Ok(Some(names)) => names,
        Ok(None) => {
            let detail = format!("Send {} columns at most, with short names.", COLUMNS.len());
            faults.push(fault(1, None, &wrong(detail)));
            return Vec::new();
        }
        Err(error) => {
            faults.push(fault(1, None, &wrong(format!("No line of column names: {error}."))));
            return Vec::new();
        }
    };
    for (at, name) in names.iter().enumerate() {
        if !COLUMNS.iter().any(|(column, ..)| column == name) {
            let known = COLUMNS.map(|(column, ..)| column).join(", ");
            let detail = format!("No such column; the columns are {known}.");
            faults.push(fault(1, Some(name), &wrong(detail)));
        } else if names[..at].contains(name) {
            faults.push(fault(1, Some(name), &wrong("The column comes twice.".to_owned())));
        }
    }
    for (name, is_required, _) in COLUMNS {
        if is_required && !names.iter().any(|it| it == name) {
            faults.push(fault(1, Some(name), &wrong("The table needs this column.".to_owned())));
        }
    }
    let mut new = Vec::new();
    if !faults.is_empty() {
        return new;
    }
    for record in reader.records() {
        if faults.len() >= FAULTS_MAX {
            break;
        }
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(1, csv::Position::line);
                faults.push(fault(line, None, &wrong("Send this line in UTF-8.".to_owned())));
                continue;
            }
        };
        let line = record.position().map_or(1, csv::Position::line);
        if record.len() != names.len() {
            let detail = format!("{} fields, but {} columns.", record.len(), names.len());
            faults.push(fault(line, None, &wrong(detail)));
            continue;
        }
        if new.len() >= ITEMS_MAX {
            let detail = format!("Send at most {ITEMS_MAX} sales at once.");
            faults.push(fault(line, None, &wrong(detail)));
            break;
        }
        let field = |name: &str| {
            let at = names.iter().position(|it| it == name)?;
            record.get(at).map(formula::unguarded).filter(|text| !text.is_empty())
        };
        match read_line(line, shop_currency, form, &field) {
            Ok(item) => new.push((line, item)),
            Err(of_line) => faults.extend(of_line),
        }
    }
    new
}

/// Reads one line; on failure returns the faults of all its columns.
fn read_line<'a>(
    line: u64,
    shop_currency: Currency,
    form: &dyn ItemForm,
    field: &impl Fn(&str) -> Option<Cow<'a, str>>,
) -> Result<NewItem, Vec<FaultBody>> {
    let first = match form.read(&|name| field(name).map(Cow::into_owned), shop_currency) {
        Ok(new) => return Ok(new),
        Err(problem) => problem,
    };
    // Each column with those that it depends on, in a sale that is right otherwise.
    let mut faults: Vec<FaultBody> = Vec::new();
    for (column, _, others) in COLUMNS {
        let is_checked = |name: &str| name == column || others.contains(&name);
        if faults.iter().any(|fault| fault.column.as_deref().is_some_and(is_checked)) {
            continue;
        }
        let only = |name: &str| if is_checked(name) { field(name) } else { sample(name) };
        if let Err(problem) = form.read(&|name| only(name).map(Cow::into_owned), shop_currency) {
            faults.push(fault(line, Some(column), &problem));
        }
    }
    if faults.is_empty() {
        faults.push(fault(line, None, &first));
    }
    Err(faults)
}

/// A value that is right, for the columns that are required.
fn sample(name: &str) -> Option<Cow<'static, str>> {
    let value = match name {
        "name" => "A sale",
        "price_cents" | "stock" => "1",
        "starts_at" => "2000-01-01T00:00:00Z",
        "ends_at" => "2000-01-02T00:00:00Z",
        _ => return None,
    };
    Some(value.into())
}

fn fault(line: u64, column: Option<&str>, problem: &Problem) -> FaultBody {
    let code = problem.code().to_owned();
    let detail = problem.detail_text().to_owned();
    FaultBody { line, column: column.map(str::to_owned), code, detail }
}

//! Sales as a table in CSV: what its rows mean, and every fault in it.
//!
//! Spreadsheets and shops write tables in many forms. A form with one reading is taken; one with two is refused with
//! the text that was read, its place, and the way to mend it.

mod charset;
mod columns;
mod heads;
mod records;
mod values;

use std::borrow::Cow;
use std::collections::HashMap;

use encoding_rs::Encoding;
use serde::Serialize;
use utoipa::ToSchema;

use crate::formula;
use crate::problems;
use columns::{Column, Kind};
use extension::ports::{NewItems, ReadItem};
use heads::Head;
use records::{Record, Records, Spot};
use shop_domain::{Currency, NewItem};
use web::problem::Problem;

pub use charset::charset_named;

/// The most sales of one table.
const ITEMS_MAX: usize = 500;
/// The most faults of one answer.
const FAULTS_MAX: usize = 1_000;

/// A fault in a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FaultBody {
    /// The line of the file, from 1; a record may have several lines.
    pub line: u64,
    /// The row as a spreadsheet shows it, from 1.
    pub row: u64,
    /// The cell as a spreadsheet names it, such as `B3`, if the fault is in one.
    pub cell: Option<String>,
    /// The column, if the fault has one.
    pub column: Option<String>,
    /// What was read there, its first 40 characters.
    pub read: Option<String>,
    /// The type of problem, as for a single sale.
    pub code: String,
    /// What to do about it.
    pub detail: String,
}

/// A table that was read.
#[derive(Debug)]
pub struct Table {
    /// The sales of the rows without faults.
    pub sales: Vec<NewItem>,
    /// Where each sale stands.
    spots: Vec<Spot>,
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
            let spot = self.spots[unknown.place];
            self.faults.push(fault(spot, &unknown.problem).column(unknown.column));
        }
        self.keep_first_faults();
        Ok(())
    }

    fn keep_first_faults(&mut self) {
        self.faults.sort_by_key(|fault| fault.line);
        self.faults.truncate(FAULTS_MAX);
    }
}

/// Reads a table in a charset, if the sender names one. Sales without a currency have that of the shop.
pub fn read_table(
    bytes: &[u8],
    charset: Option<&'static Encoding>,
    shop_currency: Currency,
    read_item: ReadItem,
) -> Table {
    let mut table = Table { sales: Vec::new(), spots: Vec::new(), faults: Vec::new() };
    let top = Spot { row: 1, line: 1 };
    match charset::text_of(bytes, charset) {
        Ok(text) => {
            let mut records = records::records(&text, heads::names_field);
            match read_heads(&mut records) {
                Ok((heads, count)) => {
                    let cells_max = cells_max(&heads, count, &records);
                    Rows { heads, cells_max, shop_currency, read_item }.read(records, &mut table);
                }
                Err(faults) => table.faults = faults,
            }
        }
        Err(why) => table.faults.push(fault(top, &problems::INVALID_TABLE.detail(why))),
    }
    if table.sales.is_empty() && table.faults.is_empty() {
        table.faults.push(fault(top, &problems::INVALID_TABLE.detail("The table has no sale.")));
    }
    table.keep_first_faults();
    table
}

/// Reads the names of the columns, the first row that is not empty, and counts its cells.
fn read_heads(records: &mut Records<'_>) -> Result<(Vec<Head>, usize), Vec<FaultBody>> {
    let invalid = |detail: &str| problems::INVALID_TABLE.detail(detail.to_owned());
    let Some(record) = records.find(|record| !record.as_ref().is_ok_and(is_empty)) else {
        let top = Spot { row: 1, line: 1 };
        return Err(vec![fault(
            top,
            &invalid("The table is empty: begin with the names of the columns."),
        )]);
    };
    let Record { spot, cells, count } = record
        .map_err(|it| vec![fault(it.spot, &invalid(it.mend)).place(it.column).read(&it.read)])?;
    let found = heads::heads(&cells).map_err(|faults| {
        let each = faults.into_iter().map(|it| {
            let mut body = fault(spot, &invalid(&it.detail));
            body.column = it.column;
            match it.place {
                Some(place) => body.place(place).read(&cells[place]),
                None => body,
            }
        });
        each.collect::<Vec<_>>()
    });
    Ok((found?, count))
}

/// The most cells of a row: those with a name. Spreadsheets add empty columns to the head and to every row. A cell more
/// in some rows may be a separator inside a value, such as `49,50`, behind which each value is in the next column.
fn cells_max(heads: &[Head], count: usize, records: &Records<'_>) -> usize {
    let named = heads.iter().rposition(|head| *head != Head::Unnamed).map_or(0, |last| last + 1);
    let mut rows = records.clone().flatten().filter(|record| !is_empty(record));
    if rows.all(|record| record.count == count) { count } else { named }
}

fn is_empty(record: &Record) -> bool {
    record.cells.iter().all(|cell| values::trimmed(cell).is_empty())
}

/// A cell of a field: the text that was read, and the value of the field, or the way to mend it.
struct Field {
    place: usize,
    read: String,
    text: Result<String, String>,
}

/// The fields of a row, by their column.
type Fields = HashMap<&'static str, Field>;

/// How the rows of a table are read.
struct Rows {
    heads: Vec<Head>,
    /// The most cells of a row.
    cells_max: usize,
    shop_currency: Currency,
    read_item: ReadItem,
}

impl Rows {
    /// Reads rows until there are [`FAULTS_MAX`] faults.
    fn read(&self, records: Records<'_>, table: &mut Table) {
        for record in records {
            if table.faults.len() >= FAULTS_MAX {
                return;
            }
            let record = match record {
                Ok(record) => record,
                Err(broken) => {
                    let problem = problems::INVALID_TABLE.detail(broken.mend);
                    let body = fault(broken.spot, &problem).place(broken.column);
                    table.faults.push(self.named(body.read(&broken.read), broken.column));
                    continue;
                }
            };
            if is_empty(&record) || self.is_sum(&record) {
                continue;
            }
            if table.sales.len() >= ITEMS_MAX {
                let detail = format!("Send at most {ITEMS_MAX} sales at once.");
                table.faults.push(fault(record.spot, &problems::INVALID_TABLE.detail(detail)));
                return;
            }
            match self.read_row(&record) {
                Ok(item) => {
                    table.sales.push(item);
                    table.spots.push(record.spot);
                }
                Err(faults) => table.faults.extend(faults),
            }
        }
    }

    /// Whether a row of our own export is no sale, but their sum.
    fn is_sum(&self, record: &Record) -> bool {
        let place = self.heads.iter().position(|head| *head == Head::Record);
        place.and_then(|place| record.cells.get(place)).is_some_and(|cell| cell == "total")
    }

    /// Reads one row; on failure returns the faults of all its columns.
    fn read_row(&self, record: &Record) -> Result<NewItem, Vec<FaultBody>> {
        let fields = self.fields(record)?;
        let text_of = |name: &str| fields.get(name).and_then(|field| field.text.clone().ok());
        let mut faults: Vec<FaultBody> = columns::ALL
            .iter()
            .filter_map(|column| value_fault(record.spot, column, fields.get(column.name)?))
            .collect();
        let first = match (self.read_item)(&text_of, self.shop_currency) {
            Ok(new) if faults.is_empty() => return Ok(new),
            Ok(_) => return Err(faults),
            Err(problem) => problem,
        };
        // Each column with those that it depends on, in a sale that is right otherwise.
        for column in &columns::ALL {
            let is_checked = |name: &str| name == column.name || column.others.contains(&name);
            if faults.iter().any(|fault| fault.column.as_deref().is_some_and(is_checked)) {
                continue;
            }
            let only = |name: &str| {
                if is_checked(name) { text_of(name) } else { sample(name).map(str::to_owned) }
            };
            if let Err(problem) = (self.read_item)(&only, self.shop_currency) {
                let body = fault(record.spot, &problem).column(column.name);
                faults.push(self.located(body, column, fields.get(column.name)));
            }
        }
        if faults.is_empty() {
            faults.push(fault(record.spot, &first));
        }
        let place = |name: &str| columns::ALL.iter().position(|column| column.name == name);
        faults.sort_by_key(|fault| fault.column.as_deref().and_then(place));
        Err(faults)
    }

    /// The fields of a row; cells that are empty have none.
    fn fields(&self, record: &Record) -> Result<Fields, Vec<FaultBody>> {
        let mut fields = Fields::new();
        let mut faults = Vec::new();
        let has_floats = self.has_floats(record);
        let currency = self.currency_of(record);
        for (place, cell) in record.cells.iter().enumerate() {
            let said = content(cell);
            let read = values::trimmed(&said);
            let wrong = |detail: &str| {
                let body = fault(record.spot, &problems::INVALID_TABLE.detail(detail.to_owned()));
                self.named(body.place(place).read(read), place)
            };
            if read.is_empty() {
                continue;
            }
            match self.heads.get(place) {
                Some(Head::Field(_)) if read.contains(charset::LOST) => {
                    faults.push(wrong(
                        "The bytes of this cell are no text in the charset of the table: save it as CSV UTF-8, or \
                         name the charset, such as Content-Type: text/csv; charset=gbk.",
                    ));
                }
                Some(Head::Field(column)) => {
                    let text = values::plain(column.kind, read, has_floats, currency);
                    fields.insert(column.name, Field { place, read: read.to_owned(), text });
                }
                Some(Head::Record) if read != "sale" => {
                    faults.push(wrong("Only an export of sales can be imported."));
                }
                Some(Head::Record | Head::Ignored) => (),
                Some(Head::Unnamed) | None => {
                    faults.push(wrong(
                        "No column has a name here: remove the cell, or quote the cell before it that has the separator.",
                    ));
                }
            }
        }
        if faults.is_empty() && record.count > self.cells_max {
            let detail = "This row has more cells than columns have a name: quote the cell that has the separator, such as \
                \"49,50\", or remove the empty cells at the end.";
            let body = fault(record.spot, &problems::INVALID_TABLE.detail(detail));
            faults.push(body.place(self.cells_max).read(""));
        }
        if let Some(Field { place, read, .. }) =
            fields.get("mode").filter(|field| field.text.as_deref() == Ok("draw"))
        {
            let detail = "A sale that is drawn is created by itself: write race.";
            let body = fault(record.spot, &problems::INVALID_TABLE.detail(detail));
            faults.push(body.place(*place).read(read).column("mode"));
        }
        if faults.is_empty() { Ok(fields) } else { Err(faults) }
    }

    /// The currency of a row: that of the shop, if it names none that there is.
    fn currency_of(&self, record: &Record) -> Currency {
        let is_currency =
            |head: &Head| matches!(head, Head::Field(column) if column.kind == Kind::Code);
        let cell = self.heads.iter().position(is_currency).and_then(|at| record.cells.get(at));
        let code = cell.map(|cell| values::trimmed(&content(cell)).to_uppercase());
        code.and_then(|code| Currency::parse(&code)).unwrap_or(self.shop_currency)
    }

    /// Whether a program has written all whole numbers of a row, besides money, as floats.
    fn has_floats(&self, record: &Record) -> bool {
        let is_whole =
            |head: &Head| matches!(head, Head::Field(column) if column.kind == Kind::Whole);
        let each = self.heads.iter().zip(&record.cells).filter(|(head, _)| is_whole(head));
        let mut said = each.map(|(_, cell)| content(cell));
        said.all(|said| {
            let read = values::trimmed(&said);
            read.is_empty() || values::is_float(read)
        })
    }

    /// Adds to a fault of a column the cell, and what was read in it.
    fn located(
        &self,
        body: FaultBody,
        column: &'static Column,
        field: Option<&Field>,
    ) -> FaultBody {
        if let Some(field) = field {
            return body.place(field.place).read(&field.read);
        }
        let place = self.heads.iter().position(|head| *head == Head::Field(column));
        let Some(place) = place else { return body };
        let body = body.place(place).read("");
        if !column.is_required {
            return body;
        }
        FaultBody { detail: "The cell is empty.".to_owned(), ..body }
    }

    /// Adds the name of the column to a fault.
    fn named(&self, body: FaultBody, place: usize) -> FaultBody {
        match self.heads.get(place) {
            Some(Head::Field(column)) => body.column(column.name),
            Some(Head::Record) => body.column("record"),
            _ => body,
        }
    }
}

/// The fault of a cell that has no reading, or two.
fn value_fault(spot: Spot, column: &Column, field: &Field) -> Option<FaultBody> {
    let why = field.text.as_ref().err()?.clone();
    let problem = match column.kind {
        Kind::Time => problems::INVALID_SCHEDULE.detail(why),
        _ => problems::INVALID_TYPE.detail(why),
    };
    Some(fault(spot, &problem).place(field.place).read(&field.read).column(column.name))
}

/// What a cell says: without the guard of our exports, and without the form `="00123"`, with which spreadsheets keep
/// digits as a text.
fn content(cell: &str) -> Cow<'_, str> {
    let quoted = cell.strip_prefix("=\"").and_then(|rest| rest.strip_suffix('"'));
    match quoted.filter(|text| !text.contains('"')) {
        Some(text) => text.into(),
        None => formula::unguarded(cell),
    }
}

/// A value that is right, for the columns that are required.
fn sample(name: &str) -> Option<&'static str> {
    match name {
        "name" => Some("A sale"),
        "price_cents" | "stock" => Some("1"),
        "starts_at" => Some("2000-01-01T00:00:00Z"),
        "ends_at" => Some("2000-01-02T00:00:00Z"),
        _ => None,
    }
}

fn fault(spot: Spot, problem: &Problem) -> FaultBody {
    FaultBody {
        line: spot.line,
        row: spot.row,
        cell: None,
        column: None,
        read: None,
        code: problem.code().to_owned(),
        detail: problem.detail_text().to_owned(),
    }
}

impl FaultBody {
    fn column(self, name: &str) -> Self {
        Self { column: Some(name.to_owned()), ..self }
    }

    fn place(self, place: usize) -> Self {
        Self { cell: Some(format!("{}{}", columns::letters(place), self.row)), ..self }
    }

    fn read(self, cell: &str) -> Self {
        // A control character in an answer shows nothing.
        let shown = cell.chars().map(|it| if it.is_control() { charset::LOST } else { it });
        Self { read: Some(shown.take(columns::READ_LENGTH_MAX).collect()), ..self }
    }
}

//! The form of an export: what it has, how it ends, and records as lines of CSV or JSON, collected into pages.

use hyper::body::Bytes;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::mpsc;

use crate::{formula, problems};
use ledger::work::failed_read;
use shop_domain::LedgerError;
use shop_domain::item::word_enum;
use web::problem::Problem;

/// The size of a page, in bytes.
const PAGE_BYTES: usize = 64 << 10;

/// The byte order mark in UTF-8.
const BYTE_ORDER_MARK: [u8; 3] = *b"\xef\xbb\xbf";

word_enum! {
    /// What is exported.
    Table {
        /// Sales with their figures.
        Sales = "sales",
        /// Orders.
        Orders = "orders",
        /// Movements of stock, restocks among them.
        Movements = "movements",
    }
}

word_enum! {
    /// How it is written.
    Format {
        /// Comma-separated values with a line of column names.
        Csv = "csv",
        /// One JSON object a line.
        JsonLines = "jsonl",
    }
}

/// How an export is written.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub format: Format,
    /// Whether CSV begins with a byte order mark, by which spreadsheets know UTF-8.
    pub has_mark: bool,
}

/// The reason why an export did not begin, or broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Too many run.
    #[error("too many exports run")]
    Busy,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The rows do not add up to the sums of the ledger.
    #[error("the rows do not add up to the sums of the ledger: {0}")]
    Unequal(String),
    /// The export took too long.
    #[error("the export took too long")]
    TooLong,
    /// Its reader has gone.
    #[error("the reader has gone")]
    NoReader,
    /// A fault of the program ended it.
    #[error("a fault of the program ended it")]
    Panicked,
}

impl From<ExportError> for Problem {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Busy => problems::OVERLOADED
                .detail("Too many exports are running; try again when one has ended."),
            ExportError::Ledger(error) => error.into(),
            ExportError::Unequal(_)
            | ExportError::TooLong
            | ExportError::NoReader
            | ExportError::Panicked => problems::INTERNAL.problem(),
        }
    }
}

/// For `?` while rows are read.
impl From<ledger::Error> for ExportError {
    fn from(error: ledger::Error) -> Self {
        Self::Ledger(failed_read(&error))
    }
}

/// Where an export sends its pages.
pub(super) type PageSender = mpsc::Sender<Result<Bytes, ExportError>>;

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// A text that a person typed.
    Typed(String),
    /// A text that the service made: an id, a word, a time.
    Plain(String),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// Nothing.
    Absent,
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(word: &str) -> Self {
        Self::Plain(word.to_owned())
    }
}

impl From<OffsetDateTime> for Cell {
    fn from(time: OffsetDateTime) -> Self {
        time.format(&Rfc3339).map_or(Self::Absent, Self::Plain)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}

/// Writes records, and sends pages.
pub(super) struct Writer {
    pub table: Table,
    columns: Vec<&'static str>,
    format: Format,
    page: Vec<u8>,
    pages: PageSender,
    has_head: bool,
}

impl Writer {
    /// A writer of the `columns` of a table.
    pub(super) fn new(
        table: Table,
        columns: Vec<&'static str>,
        form: Form,
        pages: PageSender,
    ) -> Self {
        let Form { format, has_mark } = form;
        let is_marked = has_mark && format == Format::Csv;
        let page = if is_marked { BYTE_ORDER_MARK.to_vec() } else { Vec::new() };
        Self { table, columns, format, page, pages, has_head: false }
    }

    /// Writes one record, and sends a page when it is full.
    pub(super) async fn write(
        &mut self,
        record: &'static str,
        cells: Vec<(&'static str, Cell)>,
    ) -> Result<(), ExportError> {
        match self.format {
            Format::Csv => self.write_csv(record, &cells),
            Format::JsonLines => self.write_json(record, cells),
        }
        if self.page.len() >= PAGE_BYTES { self.send().await } else { Ok(()) }
    }

    /// Sends the page that is not full yet.
    pub(super) async fn send(&mut self) -> Result<(), ExportError> {
        let page = Bytes::from(std::mem::take(&mut self.page));
        self.pages.send(Ok(page)).await.map_err(|_| ExportError::NoReader)
    }

    fn write_csv(&mut self, record: &str, cells: &[(&'static str, Cell)]) {
        let columns = &self.columns;
        debug_assert!(
            cells.iter().all(|(name, _)| columns.contains(name)),
            "each cell has a column"
        );
        let mut lines = csv::Writer::from_writer(&mut self.page);
        // Writing into memory cannot fail.
        if !self.has_head {
            self.has_head = true;
            let _ = lines.write_record(columns);
        }
        let _ = lines.write_record(columns.iter().map(|column| {
            if *column == "record" {
                return record.to_owned();
            }
            let cell = cells.iter().find(|(name, _)| name == column);
            cell.map(|(_, cell)| csv_text(cell)).unwrap_or_default()
        }));
        let _ = lines.flush();
    }

    fn write_json(&mut self, record: &str, cells: Vec<(&'static str, Cell)>) {
        let mut object = Map::from_iter([("record".to_owned(), record.into())]);
        object.extend(cells.into_iter().map(|(name, cell)| (name.to_owned(), json(cell))));
        self.page.extend(Value::Object(object).to_string().into_bytes());
        self.page.push(b'\n');
    }
}

/// A field in CSV. A text that a spreadsheet would run as a formula gets an apostrophe in front.
fn csv_text(cell: &Cell) -> String {
    match cell {
        Cell::Typed(text) => formula::guarded(text).into_owned(),
        Cell::Plain(text) => text.clone(),
        Cell::Number(number) => number.to_string(),
        Cell::Flag(flag) => flag.to_string(),
        Cell::Absent => String::new(),
    }
}

fn json(cell: Cell) -> Value {
    match cell {
        Cell::Typed(text) | Cell::Plain(text) => text.into(),
        Cell::Number(number) => number.into(),
        Cell::Flag(flag) => flag.into(),
        Cell::Absent => Value::Null,
    }
}

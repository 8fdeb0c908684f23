//! The first row of a table: which of its columns is which field.

use super::columns::{self, Column};
use super::values::trimmed;

/// Names of columns in other shops' exports, and our column that has what they have, one pair a line.
const OTHER_NAMES: &str = include_str!("other_names.txt");
/// The column of our own exports that says what a row is.
const RECORD: &str = "record";
/// The columns that only our own exports have, and that say nothing of a new sale.
const OF_EXPORTS: [&str; 9] =
    ["id", "available", "offered", "held", "sold", "orders", "paid_cents", "adds_up", "count"];

/// What a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A field of a new sale.
    Field(&'static Column),
    /// What a row of our own export is.
    Record,
    /// A column that says nothing of a new sale.
    Ignored,
    /// A column without a name, which must be empty.
    Unnamed,
}

/// A fault of the first row.
pub(super) struct HeadFault {
    /// The number of the cell, from 0, if it is one cell.
    pub place: Option<usize>,
    /// The column, if it has a name.
    pub column: Option<String>,
    pub detail: String,
}

/// The name of a column in the form of our names: `Price (cents)` is `price_cents`.
pub(super) fn plain_name(cell: &str) -> String {
    let words = cell.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_lowercase()
}

/// Whether a cell names a field of a new sale.
pub(super) fn names_field(cell: &str) -> bool {
    columns::named(&plain_name(cell)).is_some()
}

/// Reads the first row.
///
/// # Errors
/// Its faults.
pub(super) fn heads(cells: &[String]) -> Result<Vec<Head>, Vec<HeadFault>> {
    let names: Vec<String> = cells.iter().map(|cell| plain_name(trimmed(cell))).collect();
    if !names.iter().any(|name| columns::named(name).is_some() || ours_of(name).is_some()) {
        let read: String = cells.join(",").chars().take(columns::READ_LENGTH_MAX).collect();
        let detail = format!(
            "None of these is the name of a column: {read:?}. Delete what stands above the names; name, price_cents, \
             stock, starts_at and ends_at are needed."
        );
        return Err(vec![HeadFault { place: None, column: None, detail }]);
    }
    let is_export = names.iter().any(|name| name == RECORD);
    let mut faults = Vec::new();
    let mut heads = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let head = head_named(name, is_export);
        heads.push(head.unwrap_or(Head::Ignored));
        let mut fault = |detail: String| {
            let column = name.chars().take(columns::READ_LENGTH_MAX).collect();
            faults.push(HeadFault { place: Some(place), column: Some(column), detail });
        };
        match head {
            Some(Head::Field(column)) => {
                let first = heads[..place].iter().position(|it| *it == Head::Field(column));
                if let Some(first) = first {
                    let first = columns::letters(first);
                    fault(format!("The column comes twice, first as column {first}: delete one."));
                }
            }
            Some(_) => (),
            None => fault(unknown(name)),
        }
    }
    for column in columns::ALL.iter().filter(|column| column.is_required) {
        if !heads.contains(&Head::Field(column)) {
            let detail = "The table needs this column.".to_owned();
            let column = Some(column.name.to_owned());
            faults.push(HeadFault { place: None, column, detail });
        }
    }
    if faults.is_empty() { Ok(heads) } else { Err(faults) }
}

fn head_named(name: &str, is_export: bool) -> Option<Head> {
    if name.is_empty() {
        return Some(Head::Unnamed);
    }
    if is_export && name == RECORD {
        return Some(Head::Record);
    }
    if is_export && OF_EXPORTS.contains(&name) {
        return Some(Head::Ignored);
    }
    // An export has the units that are left, and the stock that the sale began with.
    let name = if is_export && name == "total" { "stock" } else { name };
    columns::named(name).map(Head::Field)
}

/// Our column that has what another shop's column of this name has.
fn ours_of(theirs: &str) -> Option<&'static str> {
    let mut pairs = OTHER_NAMES.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(name, _)| *name == theirs).map(|(_, ours)| ours)
}

/// The sentence about a column that there is not.
fn unknown(name: &str) -> String {
    match ours_of(name) {
        Some("price_cents") => {
            "Call this column price_cents, and write 4900 for 49.00 USD.".to_owned()
        }
        Some(ours) => format!("Call this column {ours}."),
        None => format!("No such column: delete it. The columns are {}.", columns::list()),
    }
}

//! The records of a table: its lines, cut into cells.
//!
//! The crate `csv`, which writes our exports, takes `"24" wide"` for a cell and goes on; a price could end in the
//! wrong column that way. So this reads cells by itself, and refuses what has two readings.

/// The most cells of a record that are kept; further ones must be empty.
pub(super) const CELLS_MAX: usize = 200;
/// What may separate cells.
const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];
/// What may stand between a separator and a quote.
const SPACES: [char; 3] = [' ', '\u{a0}', '\u{feff}'];
const QUOTE: char = '"';

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The row as a spreadsheet shows it, from 1.
    pub row: u64,
    /// The line of the file on which it begins, from 1.
    pub line: u64,
}

/// A record.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub spot: Spot,
    /// The first [`CELLS_MAX`] cells without their quotes.
    pub cells: Vec<String>,
    /// How many cells there are.
    pub count: usize,
}

/// A record that has two readings.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub spot: Spot,
    /// The number of the cell, from 0.
    pub column: usize,
    /// What was read from the beginning of the cell.
    pub read: String,
    /// How to mend it.
    pub mend: &'static str,
}

/// The records of a text.
#[derive(Clone)]
pub(super) struct Records<'a> {
    rest: &'a str,
    separator: char,
    /// Where the next record begins.
    spot: Spot,
}

/// Begins to read a text, with the separator of its line `sep=`, else with the one that finds most cells which `knows`.
pub(super) fn records<'a>(text: &'a str, knows: impl Fn(&str) -> bool) -> Records<'a> {
    let begin = |rest, separator, line| Records { rest, separator, spot: Spot { row: 1, line } };
    if let Some((separator, rest)) = separator_line(text) {
        return begin(rest, separator, 2);
    }
    let known = |separator: &char| {
        let head = begin(text, *separator, 1).find(|record| {
            record.as_ref().is_ok_and(|record| record.cells.iter().any(|cell| !cell.is_empty()))
        });
        let cells = head.and_then(Result::ok).map(|record| record.cells).unwrap_or_default();
        cells.iter().filter(|cell| knows(cell)).count()
    };
    // Of equals, the last one is taken: the comma.
    let found = SEPARATORS.into_iter().rev().max_by_key(known);
    begin(text, found.unwrap_or(','), 1)
}

/// The separator that a first line such as `sep=;` names, and what follows the line.
fn separator_line(text: &str) -> Option<(char, &str)> {
    let end = text.find(['\r', '\n']).unwrap_or(text.len());
    let (key, values) = text[..end].trim_matches(QUOTE).split_at_checked("sep=".len())?;
    let separator = values.chars().next()?;
    // A spreadsheet that has saved the file again has filled the line with empty cells.
    let is_one = values.chars().all(|it| SEPARATORS.contains(&it));
    let rest = &text[end..];
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.get(1..)).unwrap_or_default();
    (key.eq_ignore_ascii_case("sep=") && is_one).then_some((separator, rest))
}

impl<'a> Records<'a> {
    /// The next cell.
    fn cell(&mut self) -> Result<String, &'static str> {
        let opened: Option<&'a str> = self.rest.trim_start_matches(SPACES).strip_prefix(QUOTE);
        let Some(quoted) = opened else { return Ok(self.plain_cell()) };
        let mut cell = String::new();
        let mut rest = quoted;
        loop {
            let Some((text, after)) = rest.split_once(QUOTE) else {
                return Err(
                    "The quote that opens this cell is never closed: close it, or remove it.",
                );
            };
            cell.push_str(text);
            match after.strip_prefix(QUOTE) {
                Some(further) => {
                    cell.push(QUOTE);
                    rest = further;
                }
                None => {
                    rest = after.trim_start_matches(SPACES);
                    break;
                }
            }
        }
        let is_end = rest.is_empty() || rest.starts_with(['\r', '\n', self.separator]);
        if !is_end {
            return Err("Double each quote inside a quoted cell: \"24\"\" wide\".");
        }
        self.go_to(rest);
        Ok(cell.replace("\r\n", "\n").replace('\r', "\n"))
    }

    /// The next cell, which no quote opens.
    fn plain_cell(&mut self) -> String {
        let end = self.rest.find(['\r', '\n', self.separator]).unwrap_or(self.rest.len());
        let cell = self.rest[..end].to_owned();
        self.rest = &self.rest[end..];
        cell
    }

    /// Goes on at `rest`, and counts the lines on the way.
    fn go_to(&mut self, rest: &'a str) {
        let passed = &self.rest[..self.rest.len() - rest.len()];
        let ends = passed.replace("\r\n", "\n");
        self.spot.line += ends.matches(['\r', '\n']).count() as u64;
        self.rest = &self.rest[passed.len()..];
    }

    /// Goes behind the end of this line.
    fn end_line(&mut self) {
        let end = self.rest.find(['\r', '\n']).unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
        let behind = self.rest.strip_prefix("\r\n").or_else(|| self.rest.get(1..));
        self.rest = behind.unwrap_or_default();
        self.spot.line += 1;
        self.spot.row += 1;
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let spot = self.spot;
        let mut cells = Vec::new();
        let mut count = 0;
        for column in 0.. {
            count = column + 1;
            let before = self.rest;
            let cell = self.cell().and_then(|cell| match column {
                CELLS_MAX.. if !cell.trim().is_empty() => Err("Send fewer cells in a row."),
                _ => Ok(cell),
            });
            match cell {
                Ok(cell) if column < CELLS_MAX => cells.push(cell),
                Ok(_) => (),
                Err(mend) => {
                    let read = before.lines().next().unwrap_or_default().to_owned();
                    self.end_line();
                    return Some(Err(Broken { spot, column, read, mend }));
                }
            }
            match self.rest.strip_prefix(self.separator) {
                Some(rest) => self.rest = rest,
                None => break,
            }
        }
        self.end_line();
        Some(Ok(Record { spot, cells, count }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_tail_of_empty_cells_costs_nothing() {
        let first = |text: &str| records(text, |name| name == "x").next().expect("a record");
        let record = first(&format!("a,b{}\n", ",".repeat(16_384))).expect("one reading");
        assert_eq!((record.cells.len(), record.count), (CELLS_MAX, 16_386));
        assert!(first(&format!("{}x", "x,".repeat(CELLS_MAX))).is_err());
    }
}

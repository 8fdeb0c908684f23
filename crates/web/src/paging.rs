//! Pages of lists: `limit` and a cursor in the query, and the cursor of the next page in the answer.

use crate::problem::Problem;
use crate::problems;

/// Rows of one page, unless asked otherwise.
const ROWS_DEFAULT: u32 = 50;
/// The most rows of one page.
const ROWS_MAX: u32 = 200;

/// The page that a request asks for.
pub struct Page<C> {
    limit: u32,
    /// `None` for the first page.
    pub cursor: Option<C>,
}

impl<C> Page<C> {
    /// Reads the query. Its parameter `cursor_name` has the `next` of the page before, which `parse` reads.
    ///
    /// # Errors
    /// 400 for any other parameter.
    pub fn read(
        pairs: &[(String, String)],
        cursor_name: &str,
        parse: fn(&str) -> Option<C>,
    ) -> Result<Self, Problem> {
        let invalid = |detail: String| problems::INVALID_QUERY_PARAMETER.detail(detail);
        let mut limit = None;
        let mut cursor = None;
        for (name, value) in pairs {
            if name == "limit" && limit.is_none() {
                let number = value.parse().ok().filter(|limit| (1..=ROWS_MAX).contains(limit));
                let detail = || invalid(format!("Send a limit of 1 to {ROWS_MAX}."));
                limit = Some(number.ok_or_else(detail)?);
            } else if name == cursor_name && cursor.is_none() {
                let detail = || invalid(format!("Send as {name} the next of the last page."));
                cursor = Some(parse(value).ok_or_else(detail)?);
            } else {
                return Err(problems::INVALID_QUERY_PARAMETER.problem());
            }
        }
        Ok(Self { limit: limit.unwrap_or(ROWS_DEFAULT), cursor })
    }

    /// The rows to read: one more than the page has shows whether there is a next page.
    pub fn rows(&self) -> u32 {
        self.limit + 1
    }

    /// Cuts the rows that were read to the page, and names the next one by the last row's cursor.
    pub fn cut<T, N>(&self, mut rows: Vec<T>, cursor: impl FnOnce(&T) -> N) -> (Vec<T>, Option<N>) {
        let more = rows.len() > self.limit as usize;
        rows.truncate(self.limit as usize);
        let next = rows.last().filter(|_| more).map(cursor);
        (rows, next)
    }
}

//! A type of problem: which failure has which status, code, title and advice.
//!
//! Clients compare `code`. `title` names the problem as one would search for it. `detail` says what
//! to do about it; a handler that knows more replaces it ([`ProblemType::detail`]).

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use super::Problem;

/// What follows the id of the request, which is the last member of a body.
const END: &[u8] = b"\"}";

/// A type of problem (RFC 9457): a row of a table that [`problem_types!`](crate::problem_types) declares.
pub struct ProblemType {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) title: &'static str,
    pub(super) detail: &'static str,
    /// 0: the same request fails again.
    pub(super) retry_after_seconds: u32,
    /// The body of a problem that says no more than its row, up to the id of the request. It is written once: of the
    /// refusals of a rush only the id varies.
    beginning: OnceLock<Vec<u8>>,
}

/// Declares a table of types of problem, one a row: status, code, title, detail and, where it is worth
/// while to send the same request again, after how many seconds. `ALL` lists them.
#[macro_export]
macro_rules! problem_types {
    ($($name:ident: $status:literal $code:literal, $title:literal, $detail:literal $(, retry $seconds:literal)?;)*) => {
        $(#[doc = $title] pub static $name: $crate::problem::ProblemType =
            $crate::problem::ProblemType::new($status, $code, $title, $detail, 0 $(+ $seconds)?);)*

        /// Every type of this table, in its order.
        pub static ALL: &[&$crate::problem::ProblemType] = &[$(&$name,)*];
    };
}

impl ProblemType {
    /// A row of a table, see [`problem_types!`](crate::problem_types). A same request may succeed after
    /// `retry_after_seconds`; 0: it fails again.
    #[must_use]
    pub const fn new(
        status: u16,
        code: &'static str,
        title: &'static str,
        detail: &'static str,
        retry_after_seconds: u32,
    ) -> Self {
        let beginning = OnceLock::new();
        Self { status, code, title, detail, retry_after_seconds, beginning }
    }

    /// A problem of this type with the detail of the table.
    #[must_use]
    pub fn problem(&'static self) -> Problem {
        Problem::of_row(self)
    }

    /// A problem of this type with a detail of its own.
    #[must_use]
    pub fn detail(&'static self, detail: impl Into<Cow<'static, str>>) -> Problem {
        self.problem().detail(detail)
    }

    /// The code that clients compare.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What to do about it, as the table says.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        self.detail
    }

    /// The body for the request `request_id`, which holds no character that JSON escapes.
    pub(super) fn body(&'static self, request_id: &str) -> Vec<u8> {
        let beginning = self.beginning.get_or_init(|| {
            let mut body = self.problem().written("");
            body.truncate(body.len().saturating_sub(END.len()));
            body
        });
        let mut body = Vec::with_capacity(beginning.len() + request_id.len() + END.len());
        body.extend_from_slice(beginning);
        body.extend_from_slice(request_id.as_bytes());
        body.extend_from_slice(END);
        body
    }
}

impl fmt::Debug for ProblemType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ProblemType({})", self.code)
    }
}

impl From<&'static ProblemType> for Problem {
    fn from(kind: &'static ProblemType) -> Self {
        kind.problem()
    }
}

/// Tables as one in Markdown, by status, for the description of the API.
#[must_use]
pub fn table(tables: &[&[&ProblemType]]) -> String {
    let mut rows: Vec<&ProblemType> = tables.concat();
    rows.sort_by_key(|kind| kind.status);
    let rows = rows.iter().map(|kind| {
        let ProblemType { status, code, title, detail, .. } = kind;
        format!("| {status} | `{code}` | {title} | {detail} |\n")
    });
    let head = "| status | code | title | what to do |\n|---|---|---|---|\n".to_owned();
    std::iter::once(head).chain(rows).collect()
}

/// Finds what is wrong in tables: a code with two rows, or a text that does not read as the others do.
#[must_use]
pub fn fault_of(tables: &[&[&ProblemType]]) -> Option<String> {
    let rows: Vec<&ProblemType> = tables.concat();
    let is_code = |code: &str| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let is_sound = |kind: &ProblemType| {
        let title = kind.title;
        rows.iter().filter(|other| other.code == kind.code).count() == 1
            && (400..600).contains(&kind.status)
            && is_code(kind.code)
            && title.starts_with(char::is_uppercase)
            && !title.ends_with(['.', '?', '!'])
            && kind.detail.ends_with('.')
    };
    rows.iter().find(|kind| !is_sound(kind)).map(|kind| format!("{kind:?}: {}", kind.title))
}

#[cfg(test)]
mod tests {
    use crate::problems;

    #[test]
    fn a_prebuilt_body_is_the_body_that_is_written() {
        for kind in problems::ALL {
            let problem = kind.problem();
            assert!(problem.row.is_some());
            let id = "0123456789abcdef";
            assert_eq!(problem.body(id), problem.written(id), "{}", kind.code());
        }
    }

    #[test]
    fn a_problem_with_more_than_its_row_is_written() {
        let plain = problems::SOLD_OUT.problem();
        let others = [
            plain.clone().detail("Two units are left."),
            plain.clone().member("left", 2),
            plain.clone().retry_after(1),
            plain.clone().outcome_unknown(),
        ];
        for problem in others {
            assert!(problem.row.is_none());
            assert_ne!(problem.body("id"), plain.body("id"));
        }
    }
}

//! Errors as RFC 9457 problem details.
//!
//! A [`ProblemType`] is a row of a table of failures: status, code, detail. A [`Problem`] travels in the
//! response's extensions, and a layer writes its body, since only there the request's id is known; a failure that axum
//! answers by itself gets the same shape there.
//!
//! Clients compare `code`, and `title` is the code in words. `detail` says what to do about it; a handler that knows more
//! replaces it ([`ProblemType::detail`]).

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;

/// A failure on its way to the client. It is made from a [`ProblemType`].
#[derive(Clone, Debug)]
pub struct Problem {
    /// Its type, as long as the body says no more than the row of the type.
    row: Option<&'static ProblemType>,
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
    outcome_unknown: bool,
    retry_after_seconds: Option<u32>,
    members: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    close: bool,
}

/// The body of an error.
#[derive(Serialize, ToSchema)]
pub struct ProblemBody<'a> {
    /// The type of problem: an address that says what it means. `/docs` lists all types.
    #[schema(example = "/problems/sold_out")]
    r#type: String,
    /// The type of problem in words.
    title: String,
    /// The status code of the answer.
    status: u16,
    /// What to do, or what went wrong this time.
    detail: &'a str,
    /// The type of problem for programs to compare.
    #[schema(example = "sold_out")]
    code: &'static str,
    /// Whether anything may have changed: `none`, or `unknown` (send the request again with the
    /// same key).
    outcome: &'static str,
    /// Whether the same request may succeed later.
    retryable: bool,
    /// The id of the request in the log.
    request_id: &'a str,
    /// Members that this type of problem adds.
    #[serde(flatten)]
    #[schema(ignore)]
    members: &'a Map<String, Value>,
}

impl Problem {
    /// Replaces the status, for an answer that has one already.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self.row = None;
        self
    }

    /// Replaces the detail.
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = detail.into();
        self.row = None;
        self
    }

    /// Says after how many seconds the same request may succeed.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_seconds = Some(seconds);
        self.row = None;
        self
    }

    /// Says that something may have changed.
    pub fn outcome_unknown(mut self) -> Self {
        self.outcome_unknown = true;
        self.row = None;
        self
    }

    /// Adds a member to the body.
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self.row = None;
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Closes the connection after the answer, for requests whose body was not read to the end.
    pub fn close(mut self) -> Self {
        self.close = true;
        self
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The code that clients compare.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What to do, or what went wrong this time.
    pub fn detail_text(&self) -> &str {
        &self.detail
    }

    /// The body for the request `request_id`.
    pub fn body(&self, request_id: &str) -> Vec<u8> {
        match self.row {
            Some(row) => row.body(request_id),
            None => self.written(request_id),
        }
    }

    fn written(&self, request_id: &str) -> Vec<u8> {
        let body = ProblemBody {
            r#type: format!("/problems/{}", self.code),
            title: title_of(self.code),
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
            outcome: if self.outcome_unknown { "unknown" } else { "none" },
            retryable: self.is_retryable(),
            request_id,
            members: &self.members,
        };
        // Strings and numbers: nothing that could not be written.
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn is_retryable(&self) -> bool {
        self.outcome_unknown || self.retry_after_seconds.is_some()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        headers.extend(self.headers.iter().cloned());
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// A time as it stands in answers.
pub fn rfc3339(instant: OffsetDateTime) -> String {
    instant.format(&Rfc3339).unwrap_or_default()
}

/// The sentence about a value that is too long, which names it: whose length is `length`, and could be `most`.
pub fn too_long(field: &str, length: usize, most: usize) -> String {
    format!("{field} has {length} characters; send at most {most}.")
}

/// What follows the id of the request, which is the last member of a body.
const END: &[u8] = b"\"}";

/// A type of problem (RFC 9457): a row of a table that [`problem_types!`](crate::problem_types) declares.
pub struct ProblemType {
    status: u16,
    code: &'static str,
    detail: &'static str,
    /// 0: the same request fails again.
    retry_after_seconds: u32,
    /// The body of a problem that says no more than its row, up to the id of the request. It is written once: of the
    /// refusals of a rush only the id varies.
    beginning: OnceLock<Vec<u8>>,
}

/// Declares a table of types of problem, one a row: status, code, detail and, where it is worth while
/// to send the same request again, after how many seconds. `ALL` lists them.
#[macro_export]
macro_rules! problem_types {
    ($($name:ident: $status:literal $code:literal, $detail:literal $(, retry $seconds:literal)?;)*) => {
        $(#[doc = $detail] pub static $name: $crate::problem::ProblemType =
            $crate::problem::ProblemType::new($status, $code, $detail, 0 $(+ $seconds)?);)*

        /// Every type of this table, in its order.
        pub static ALL: &[&$crate::problem::ProblemType] = &[$(&$name,)*];
    };
}

impl ProblemType {
    /// A row of a table, see [`problem_types!`](crate::problem_types). A same request may succeed after
    /// `retry_after_seconds`; 0: it fails again.
    pub const fn new(
        status: u16,
        code: &'static str,
        detail: &'static str,
        retry_after_seconds: u32,
    ) -> Self {
        let beginning = OnceLock::new();
        Self { status, code, detail, retry_after_seconds, beginning }
    }

    /// A problem of this type with the detail of the table.
    pub fn problem(&'static self) -> Problem {
        Problem {
            row: Some(self),
            status: StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code: self.code,
            detail: self.detail.into(),
            outcome_unknown: false,
            retry_after_seconds: Some(self.retry_after_seconds).filter(|seconds| *seconds > 0),
            members: Map::new(),
            headers: Vec::new(),
            close: false,
        }
    }

    /// A problem of this type with a detail of its own.
    pub fn detail(&'static self, detail: impl Into<Cow<'static, str>>) -> Problem {
        self.problem().detail(detail)
    }

    /// The code that clients compare.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What to do about it, as the table says.
    pub fn advice(&self) -> &'static str {
        self.detail
    }

    /// The body for the request `request_id`, which holds no character that JSON escapes.
    fn body(&'static self, request_id: &str) -> Vec<u8> {
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

/// The title of a type of problem, such as `Sold out` of `sold_out`.
fn title_of(code: &str) -> String {
    let mut title = code.replace('_', " ");
    title[..1].make_ascii_uppercase();
    title
}

/// Tables as one in Markdown, by status, for the description of the API.
pub fn table(tables: &[&[&ProblemType]]) -> String {
    let mut rows: Vec<&ProblemType> = tables.concat();
    rows.sort_by_key(|kind| kind.status);
    let rows = rows.iter().map(|kind| {
        let ProblemType { status, code, detail, .. } = kind;
        format!("| {status} | `{code}` | {detail} |\n")
    });
    let head = "| status | code | what to do |\n|---|---|---|\n".to_owned();
    std::iter::once(head).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    crate::problem_types! {
        SOLD_OUT: 409 "sold_out", "Fewer units are left than you want.";
        OVERLOADED: 503 "overloaded", "Say \"again\" in a moment.", retry 1;
    }

    #[test]
    fn a_prebuilt_body_is_the_body_that_is_written() {
        for kind in ALL {
            let problem = kind.problem();
            assert!(problem.row.is_some());
            let id = "0123456789abcdef";
            assert_eq!(problem.body(id), problem.written(id), "{}", kind.code());
        }
    }
}

//! Errors as RFC 9457 problem details: one shape. Which outcome has which code and status is in
//! [`error`](super::error).
//!
//! A [`Problem`] travels in the response's extensions; the outermost layer writes the body, since
//! only there the request's id is known. Errors that axum makes by itself get the same shape there.

use std::borrow::Cow;

use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;

/// An error on its way to the client.
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: Cow<'static, str>,
    unknown: bool,
    retry_after_seconds: Option<u32>,
    more: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    close: bool,
}

/// The body of an error.
#[derive(Serialize, ToSchema)]
pub struct ProblemBody<'a> {
    /// Names the kind of problem; `/docs` explains it.
    #[schema(example = "/problems/sold_out")]
    #[schema(value_type = String)]
    r#type: TypeOf,
    /// The kind of problem in words.
    title: &'static str,
    /// The status code again.
    status: u16,
    /// What went wrong this time.
    detail: &'a str,
    /// The kind of problem for programs.
    #[schema(example = "sold_out")]
    code: &'static str,
    /// Whether anything may have changed: `none`, or `unknown` (ask again with the same key).
    outcome: &'static str,
    /// Whether the same request may succeed later.
    retryable: bool,
    /// Quote this when you ask for help.
    request_id: &'a str,
    /// What this kind of problem adds.
    #[serde(flatten)]
    #[schema(ignore)]
    more: &'a Map<String, Value>,
}

/// The address of a code's explanation.
struct TypeOf(&'static str);

impl Serialize for TypeOf {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("/problems/{}", self.0))
    }
}

impl Problem {
    /// An error with a code of the catalogue.
    #[must_use]
    pub fn new(
        status: u16,
        code: &'static str,
        title: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code,
            title,
            detail: detail.into(),
            unknown: false,
            retry_after_seconds: None,
            more: Map::new(),
            headers: Vec::new(),
            close: false,
        }
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// Says that something may have changed.
    #[must_use]
    pub fn outcome_unknown(mut self) -> Self {
        self.unknown = true;
        self
    }

    /// Adds a member of its own kind.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Closes the connection after the answer: its body was not read to the end.
    #[must_use]
    pub fn close(mut self) -> Self {
        self.close = true;
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The body for the request `request_id`.
    #[must_use]
    pub fn body(&self, request_id: &str) -> Vec<u8> {
        let body = ProblemBody {
            r#type: TypeOf(self.code),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
            outcome: if self.unknown { "unknown" } else { "none" },
            retryable: self.is_retryable(),
            request_id,
            more: &self.more,
        };
        // Strings and numbers: nothing that could not be written.
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn is_retryable(&self) -> bool {
        self.unknown || self.retry_after_seconds.is_some()
    }

    /// Whatever went wrong inside.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(500, "internal", "Something went wrong", "The service failed; it has been noted.")
    }

    /// A server that is needed does not answer; nothing changed.
    #[must_use]
    pub fn dependency(name: &str) -> Self {
        let detail = format!("{name} does not answer; nothing changed.");
        Self::new(503, "dependency_unavailable", "A server does not answer", detail).retry_after(1)
    }

    /// A server that was asked for a change did not answer: it may have been made.
    #[must_use]
    pub fn dependency_lost(name: &str) -> Self {
        let detail = format!("{name} did not answer; the change may or may not have been made.");
        Self { detail: detail.into(), ..Self::dependency(name) }.outcome_unknown()
    }

    /// The database answers, but takes no writes.
    #[must_use]
    pub fn read_only() -> Self {
        let detail = "mysql answers, but it is read-only; nothing changed.";
        Self { detail: detail.into(), ..Self::dependency("mysql") }
    }

    /// There is nothing there.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(404, "not_found", "Not found", "There is nothing at this address.")
    }

    /// An error that axum or a layer made by itself.
    #[must_use]
    pub fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            404 => Self::not_found(),
            405 => {
                Self::new(405, "method_not_allowed", "Method not allowed", "See the Allow header.")
            }
            408 => {
                Self::new(408, "request_timeout", "Too slow", "The request did not arrive in time.")
            }
            413 => Self::new(
                413,
                "payload_too_large",
                "Body too large",
                "The body is above the limit.",
            )
            .close(),
            415 => Self::new(415, "unsupported_media_type", "Not JSON", "Send application/json."),
            code @ 400..=499 => {
                Self::new(code, "bad_request", "Bad request", "The request was not understood.")
            }
            503 => Self::new(503, "overloaded", "Busy", "Try again in a moment.").retry_after(1),
            _ => Self::internal(),
        }
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
#[must_use]
pub fn rfc3339(instant: OffsetDateTime) -> String {
    instant.format(&Rfc3339).unwrap_or_default()
}

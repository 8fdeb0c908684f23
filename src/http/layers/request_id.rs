//! The id of a request, which is in the response's head, in a problem's body and in the log.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Makes a random id of 16 hexadecimal digits.
pub(super) fn make(_request: &Request) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("{:016x}", rand::random::<u64>())).ok()
}

//! The id of a request, which is in the response's head, in a problem's body and in the log. It is
//! our own: an id in the log cannot be chosen from outside.

use axum::http::{HeaderName, HeaderValue};

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A random id of 16 hexadecimal digits.
#[derive(Clone, Copy)]
pub struct RequestId([u8; 16]);

impl RequestId {
    /// A new id.
    pub fn generate() -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let bits: u64 = rand::random();
        Self(std::array::from_fn(|at| DIGITS[(bits >> (60 - 4 * at) & 0xf) as usize]))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The id as a header's value; `None` never happens, since all digits are ASCII.
    pub(super) fn header_value(self) -> Option<HeaderValue> {
        HeaderValue::from_bytes(&self.0).ok()
    }
}

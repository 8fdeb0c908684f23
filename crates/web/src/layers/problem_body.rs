//! Gives each request its id, writes the body of a problem with it, and turns failures that axum
//! answered by itself into problems.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};

use super::is_api;
use crate::problem::Problem;
use crate::problems;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Headers that the layers add to one response at most.
const HEADERS_ADDED: usize = 10;

/// The id of a request, which is in the response's head, in a problem's body and in the log: 16 random hexadecimal
/// digits. It is our own: an id in the log cannot be chosen from outside.
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
    fn header_value(self) -> Option<HeaderValue> {
        HeaderValue::from_bytes(&self.0).ok()
    }
}

/// Writes and logs the problem of `request`, if it fails.
pub(super) fn write(request: &Request) -> impl FnOnce(Response) -> Response + use<> {
    let id = RequestId::generate();
    let uri = request.uri().clone();
    move |response| {
        let mut response = write_problem(response, id.as_str(), &uri);
        let headers = response.headers_mut();
        // One allocation for this header and those of the layers around this one.
        headers.reserve(HEADERS_ADDED);
        headers.extend(id.header_value().map(|value| (REQUEST_ID, value)));
        response
    }
}

fn write_problem(mut response: Response, request_id: &str, uri: &Uri) -> Response {
    let problem = match response.extensions_mut().remove::<Problem>() {
        Some(problem) => problem,
        None if needs_problem(&response, is_api(uri.path())) => adopt_problem(&mut response),
        None => return response,
    };
    let code = problem.code();
    let path = uri.path();
    if code == problems::INTERNAL.code() {
        tracing::error!(request_id, path, "internal error in request {request_id}");
    } else if response.status().is_server_error() {
        tracing::debug!(request_id, path, code, "request {request_id} failed");
    }
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    Response::from_parts(parts, Body::from(problem.body(request_id)))
}

/// Gives a response of a layer or of axum the status and the headers of its problem.
fn adopt_problem(response: &mut Response) -> Problem {
    let problem = Problem::of_status(response.status());
    let made = problem.clone().into_response();
    *response.status_mut() = made.status();
    for (name, value) in made.headers() {
        response.headers_mut().insert(name, value.clone());
    }
    problem
}

/// Whether a failure without a problem needs one. Not the page for an unknown address, and not a
/// handler's own document (`/readyz`).
fn needs_problem(response: &Response, is_api: bool) -> bool {
    let status = response.status();
    let failed = status.is_client_error() || status.is_server_error();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is = |wanted: &str| kind.is_some_and(|kind| kind.starts_with(wanted));
    failed && !is("application/json") && (is_api || !is("text/html"))
}

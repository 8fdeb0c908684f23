//! Refuses requests that no handler should see: without or with a foreign host name, with an
//! ambiguous path, or for media types that the API does not have.

use axum::extract::Request;
use axum::http::Version;
use axum::http::header::{ACCEPT, HOST};
use axum::response::{IntoResponse, Response};

use super::is_api;
use crate::hosts::Hosts;
use crate::problem::Problem;
use crate::problems;

/// The media types of the API, and the patterns that include them.
const MEDIA_TYPES: [&str; 8] = [
    "*/*",
    "application/*",
    "application/json",
    "application/problem+json",
    "text/*",
    "text/csv",
    "application/jsonl",
    "text/event-stream",
];

/// The answer to a request that is refused.
pub(super) fn check(hosts: &Hosts, request: &Request) -> Option<Response> {
    refusal(hosts, request).map(IntoResponse::into_response)
}

fn refusal(hosts: &Hosts, request: &Request) -> Option<Problem> {
    if request.version() == Version::HTTP_11 && !request.headers().contains_key(HOST) {
        return Some(problems::HOST_MISSING.problem());
    }
    if !hosts.match_request(request.uri(), request.headers()) {
        return Some(problems::MISDIRECTED_REQUEST.problem().close());
    }
    // The file server reads two slashes as one, and a proxy may read them as another host.
    if request.uri().path().contains("//") {
        return Some(problems::NOT_FOUND.problem());
    }
    if is_api(request.uri().path()) && !accepts_our_types(request) {
        return Some(problems::NOT_ACCEPTABLE.problem());
    }
    None
}

fn accepts_our_types(request: &Request) -> bool {
    let mut accepted = request.headers().get_all(ACCEPT).iter().peekable();
    if accepted.peek().is_none() {
        return true;
    }
    let types = accepted.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    types
        .map(|media| media.split(';').next().unwrap_or_default().trim())
        .any(|media| MEDIA_TYPES.contains(&media))
}

//! Refuses requests that no handler should see: without or with a foreign host name, with an
//! ambiguous path, or for media types that the API does not have.

use axum::extract::Request;
use axum::http::Version;
use axum::http::header::HOST;

use super::is_api;
use crate::accept::Accepted;
use crate::hosts::Hosts;
use crate::problem::Problem;
use crate::problems;

/// The media types of the API. A test compares them with the document.
const MEDIA_TYPES: [&str; 7] = [
    "application/json",
    "application/problem+json",
    "text/csv",
    "text/plain",
    "application/jsonl",
    "application/x-ndjson",
    "text/event-stream",
];

/// The problem of a request that is refused.
pub(super) fn check(hosts: &Hosts, request: &Request) -> Option<Problem> {
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
    let accepted = Accepted::read(request.headers());
    accepted.is_none_or(|accepted| MEDIA_TYPES.iter().any(|media| accepted.wants(media) > 0))
}

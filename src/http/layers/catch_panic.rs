//! Answers 500 when a handler panics. The panic hook has written its message to the log, and
//! `problem_body` adds the request's id.

use std::any::Any;

use axum::BoxError;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use tower_http::body::UnsyncBoxBody;

use crate::http::problem::ProblemType;

/// The response to a panic.
pub(super) fn answer(_panic: Box<dyn Any + Send + 'static>) -> Response {
    ProblemType::Internal.problem().into_response()
}

/// Gives a response that has passed the panic net axum's type of body again.
pub(super) fn with_axum_body(response: Response<UnsyncBoxBody<Bytes, BoxError>>) -> Response {
    response.map(Body::new)
}

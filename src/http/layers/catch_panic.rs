//! Answers 500 when a handler panics. The panic hook has written its message to the log, and
//! `problem_body` adds the request's id.

use std::any::Any;

use axum::response::{IntoResponse, Response};

use crate::http::problem::ProblemType;

/// The response to a panic.
pub(super) fn answer(_panic: Box<dyn Any + Send + 'static>) -> Response {
    ProblemType::Internal.problem().into_response()
}

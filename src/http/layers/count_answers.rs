//! Counts responses by method and status, for `GET /metrics`.

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use crate::http::Web;

/// Runs a request and counts its response.
pub(super) async fn count(State(web): State<Web>, request: Request, next: Next) -> Response {
    let method = method_label(request.method());
    let response = next.run(request).await;
    web.metrics.request_answered(method, response.status().as_u16());
    response
}

/// A method as a label. Methods that a client invents share one label.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

//! Counts responses by method and status, for `GET /metrics`.

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;

use crate::http::Web;

/// Counts the response of `request`.
pub(super) fn count(web: Web, request: &Request) -> impl FnOnce(Response) -> Response + use<> {
    let method = method_label(request.method());
    move |response| {
        web.metrics.request_answered(method, response.status().as_u16());
        response
    }
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

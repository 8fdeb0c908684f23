//! Counts responses by method and status, for `GET /metrics`.

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;

use shop_metrics::Metrics;

/// Counts the response of `request`.
pub(super) fn count(
    metrics: Metrics,
    request: &Request,
) -> impl FnOnce(Response) -> Response + use<> {
    let method = method_label(request.method());
    move |response| {
        metrics.request_answered(method, response.status().as_u16());
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

//! Sends each answer piece by piece, and refuses a large one while too many bytes wait for clients that do
//! not read.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};

use crate::budget::{Budgets, PIECE_BYTES};
use crate::flight::{Flight, PieceBody};
use crate::problems;

/// Changes an answer.
pub(super) type Lease = Box<dyn FnOnce(Response) -> Response + Send>;

/// Holds the answer of `request` until it is taken.
pub(super) fn hold(request: &Request) -> impl FnOnce(Response) -> Response + use<> {
    let budgets = budgets_of(request);
    move |response| held(response, budgets, Flight::of_task())
}

/// Takes the bytes of a large answer of `request` from the budgets, and leaves the pieces to [`hold`].
pub(super) fn lease(request: &Request) -> Lease {
    let budgets = budgets_of(request);
    Box::new(move |response| held(response, budgets, None))
}

fn budgets_of(request: &Request) -> Option<Budgets> {
    request.extensions().get::<Budgets>().cloned()
}

/// `flight` is that of a stream of HTTP/2. In HTTP/1.1 the time limit of writes sees a client that does not
/// read, and the connection holds one chunk: only large answers are looked after.
fn held(response: Response, budgets: Option<Budgets>, flight: Option<Arc<Flight>>) -> Response {
    let length = response.body().size_hint().exact();
    let length = length.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let large = length.filter(|bytes| *bytes > PIECE_BYTES);
    if length == Some(0) || (large.is_none() && flight.is_none()) {
        return response;
    }
    let lease = match large.zip(budgets.as_ref()) {
        None => None,
        Some((bytes, budgets)) => match budgets.take(bytes) {
            Some(lease) => Some(lease),
            None => return problems::OVERLOADED.problem().into_response(),
        },
    };
    let flight = flight.unwrap_or_default();
    response.map(|body| Body::new(PieceBody::new(body, flight, budgets, lease)))
}

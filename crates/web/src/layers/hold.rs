//! Sends each answer piece by piece, and refuses a large one while too many bytes wait for clients that do
//! not read. The answer to a change is always sent, because its client must know the change.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};

use crate::flight::{Budgets, Flight, PIECE_BYTES, PieceBody};
use crate::problems;

/// Changes an answer.
pub(super) type Lease = Box<dyn FnOnce(Response) -> Response + Send>;

/// Holds the answer of `request` until it is taken.
pub(super) fn hold(request: &Request) -> impl FnOnce(Response) -> Response + use<> {
    let budgets = budgets_of(request);
    let is_safe = request.method().is_safe();
    move |response| held(response, is_safe, budgets, Flight::of_task())
}

/// Takes the bytes of a large answer of `request` from the budgets, and leaves the pieces to [`hold`].
pub(super) fn lease(request: &Request) -> Lease {
    let budgets = budgets_of(request);
    let is_safe = request.method().is_safe();
    Box::new(move |response| held(response, is_safe, budgets, None))
}

fn budgets_of(request: &Request) -> Option<Budgets> {
    request.extensions().get::<Budgets>().cloned()
}

/// `flight` is that of a stream of HTTP/2. In HTTP/1.1 the time limit of writes sees a client that does not
/// read, and the connection holds one chunk: only large answers are looked after.
fn held(
    response: Response,
    is_safe: bool,
    budgets: Option<Budgets>,
    flight: Option<Arc<Flight>>,
) -> Response {
    let length = response.body().size_hint().exact();
    let length = length.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let large = length.filter(|bytes| *bytes > PIECE_BYTES);
    if length == Some(0) || (large.is_none() && flight.is_none()) {
        return response;
    }
    let lease = large.zip(budgets.as_ref()).map(|(bytes, budgets)| budgets.take(bytes));
    let is_over = lease.as_ref().is_some_and(Option::is_none);
    if is_over && is_safe {
        return problems::OVERLOADED.problem().into_response();
    }
    // An answer to a change that is above the budgets goes out without them.
    let budgets = budgets.filter(|_| !is_over);
    let flight = flight.unwrap_or_default();
    response.map(|body| Body::new(PieceBody::new(body, flight, budgets, lease.flatten())))
}

#[cfg(test)]
mod tests {
    use axum::http::{Method, StatusCode};
    use futures::FutureExt;
    use http_body_util::BodyExt;

    use super::*;
    use crate::flight::Budget;

    /// The length of a whole body. Its pieces are dropped one by one, as if they were written.
    fn length(response: Response) -> usize {
        let mut body = response.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().now_or_never().expect("no wait") {
            length += frame.expect("a whole body").into_data().expect("no trailers").len();
        }
        length
    }

    #[test]
    fn a_change_is_told_also_when_the_budgets_are_used_up() {
        const LARGE: usize = PIECE_BYTES + 1_024;
        let budgets = Budgets::of_connection(None, Budget::of_process());
        let _others = std::iter::from_fn(|| budgets.take(1 << 20)).collect::<Vec<_>>();
        let answer = |method: Method| {
            let mut request = Request::new(Body::empty());
            *request.method_mut() = method;
            request.extensions_mut().insert(budgets.clone());
            let made = || (StatusCode::CREATED, vec![b'x'; LARGE]).into_response();
            [hold(&request)(made()), lease(&request)(made())]
        };
        for told in answer(Method::POST) {
            assert_eq!(told.status(), StatusCode::CREATED);
            assert_eq!(length(told), LARGE);
        }
        for refused in answer(Method::GET) {
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
    }
}

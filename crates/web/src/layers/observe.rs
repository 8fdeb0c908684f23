//! A service that reads a request on its way in and changes the response on its way out, and one that refuses some
//! requests. Unlike axum's `from_fn` they neither box a future nor clone the service behind them.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures::TryFutureExt;
use futures::future::{Either, MapOk, Ready, ready};
use tower::Service;

use crate::problem::Problem;

/// Puts `read` around a service: it gets each request, and returns what changes the request's response.
pub(super) fn observe<R, C, S>(read: R, inner: S) -> Observed<R, S>
where
    R: Fn(&Request) -> C,
    C: FnOnce(Response) -> Response,
{
    Observed { read, inner }
}

/// The service that [`observe`] makes.
#[derive(Clone)]
pub(super) struct Observed<R, S> {
    read: R,
    inner: S,
}

impl<R, C, S> Service<Request> for Observed<R, S>
where
    R: Fn(&Request) -> C,
    C: FnOnce(Response) -> Response,
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = MapOk<S::Future, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let change = (self.read)(&request);
        self.inner.call(request).map_ok(change)
    }
}

/// Puts `check` around a service: it gets each request, and returns the problem of those that it refuses.
pub(super) fn refuse<R, S>(check: R, inner: S) -> Checked<R, S>
where
    R: Fn(&Request) -> Option<Problem>,
{
    Checked { check, inner }
}

/// The service that [`refuse`] makes.
#[derive(Clone)]
pub(super) struct Checked<R, S> {
    check: R,
    inner: S,
}

impl<R, S> Service<Request> for Checked<R, S>
where
    R: Fn(&Request) -> Option<Problem>,
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response, Infallible>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match (self.check)(&request) {
            Some(problem) => Either::Left(ready(Ok(problem.into_response()))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}

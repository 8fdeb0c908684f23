//! A layer that reads a request on its way in and changes the response on its way out, and one that refuses some
//! requests. Unlike axum's `from_fn` they neither box a future nor clone the service behind them.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures::TryFutureExt;
use futures::future::{Either, MapOk, Ready, ready};
use tower::{Layer, Service};

use crate::problem::Problem;

/// Makes a layer of `read`: it gets each request, and returns what changes the request's response.
pub(super) fn observe<R, C>(read: R) -> Observe<R>
where
    R: Fn(&Request) -> C + Clone,
    C: FnOnce(Response) -> Response,
{
    Observe { read }
}

/// The layer that [`observe`] makes.
#[derive(Clone)]
pub(super) struct Observe<R> {
    read: R,
}

/// A service behind [`Observe`].
#[derive(Clone)]
pub(super) struct ObservedService<R, S> {
    read: R,
    inner: S,
}

impl<R: Clone, S> Layer<S> for Observe<R> {
    type Service = ObservedService<R, S>;

    fn layer(&self, inner: S) -> Self::Service {
        ObservedService { read: self.read.clone(), inner }
    }
}

impl<R, C, S> Service<Request> for ObservedService<R, S>
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

/// Makes a layer of `check`: it gets each request, and returns the problem of those that it
/// refuses.
pub(super) fn refuse<R>(check: R) -> Refuse<R>
where
    R: Fn(&Request) -> Option<Problem> + Clone,
{
    Refuse { check }
}

/// The layer that [`refuse`] makes.
#[derive(Clone)]
pub(super) struct Refuse<R> {
    check: R,
}

/// A service behind [`Refuse`].
#[derive(Clone)]
pub(super) struct RefusingService<R, S> {
    check: R,
    inner: S,
}

impl<R: Clone, S> Layer<S> for Refuse<R> {
    type Service = RefusingService<R, S>;

    fn layer(&self, inner: S) -> Self::Service {
        RefusingService { check: self.check.clone(), inner }
    }
}

impl<R, S> Service<Request> for RefusingService<R, S>
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

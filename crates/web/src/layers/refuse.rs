//! A layer that answers some requests by itself and passes the others on.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::Response;
use futures::future::{Either, Ready, ready};
use tower::{Layer, Service};

/// Makes a layer of `check`: it gets each request, and returns the response of those that it
/// refuses.
pub(super) fn refuse<R>(check: R) -> Refuse<R>
where
    R: Fn(&Request) -> Option<Response> + Clone,
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
    R: Fn(&Request) -> Option<Response>,
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
            Some(response) => Either::Left(ready(Ok(response))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}

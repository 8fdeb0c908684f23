//! A layer that reads a request on its way in and changes the response on its way out. Unlike axum's
//! `from_fn` it neither boxes a future nor clones the service behind it.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::Response;
use futures::TryFutureExt;
use futures::future::MapOk;
use tower::{Layer, Service};

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

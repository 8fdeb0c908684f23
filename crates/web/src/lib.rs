//! The HTTP kit below all routes: the only crate that knows status codes and problem details.
//!
//! [`server`] accepts connections, on a [`listener`] of TCP or a unix socket; [`layers`] has the middleware around every request; [`extract`],
//! [`body`] and [`paging`] parse requests, [`token`] and [`session`] say who sends them; [`address`], [`hosts`],
//! [`connection_limiter`], [`stream_limiter`] and [`rates`] limit one client, [`flight`] what it does not read; [`problem`] is
//! how a failure is answered, [`problems`] the table of the failures that all routes share, [`accept`] what an answer may be. An extractor takes its part
//! of the routes' state by `FromRef`.

pub mod accept;
pub mod address;
pub mod body;
pub mod connection_limiter;
pub mod cross_site;
mod detached;
pub mod extract;
pub mod flight;
pub mod hosts;
pub mod kit;
pub mod layers;
pub mod listen_address;
pub mod listener;
pub mod order_body;
pub mod paging;
pub mod prober;
pub mod problem;
pub mod problems;
pub mod rates;
pub mod runtimes;
pub mod server;
pub mod session;
mod socket_file;
pub mod stream_limiter;
pub mod streams;
pub mod token;

pub use body::instant;
pub use detached::detached;
pub use problem::too_long;

use std::convert::Infallible;

use axum::extract::Request;
use axum::response::Response;
use tower::Service;

/// A service that answers every request; clones are cheap and share everything.
pub trait Application:
    Service<Request, Response = Response, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Application for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

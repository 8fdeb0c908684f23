//! Streams of server-sent events: how many a client may have open, and when one ends.
//!
//! Every stream ends when the service stops, and one that was opened with a session ends with it. A slow
//! reader misses figures, which are not buffered for it.
//!
//! A proxy between may keep events until it has many: its headers ask it not to, and the event `alive` lets a reader
//! notice.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::problem::Problem;
use crate::problems;
use crate::rates::Rates;
use crate::session::Authenticator;
use crate::stream_limiter::{StreamGroup, StreamLimiter, StreamPermit};
use crate::token::Claims;
use lifecycle::Lifecycle;
use shop_domain::UserId;
use shop_metrics::Metrics;

/// The longest pause in a stream; then the event `alive` is sent, which finds dead connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The time between two checks of the session that opened a stream.
const SESSION_CHECK_PERIOD: Duration = Duration::from_secs(1);
/// Events that one stream buffers; the next event waits for the reader.
const BUFFERED_MAX: usize = 8;

/// What proxies obey: nginx passes each piece on at once, and none compresses the whole.
const UNBUFFERED: [(HeaderName, HeaderValue); 2] = [
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform")),
];

/// An answer that is a stream of events.
pub type Events = ([(HeaderName, HeaderValue); 2], Sse<KeepAliveStream<EventStream>>);
type EventStream = std::pin::Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>>;

/// Opens streams of events. Clones share everything.
#[derive(Clone)]
pub struct Streams {
    pub limiter: StreamLimiter,
    pub rates: Arc<Rates>,
    pub authenticator: Authenticator,
    pub lifecycle: Lifecycle,
    pub metrics: Metrics,
}

impl Streams {
    /// Opens a stream for a client at `address`, who is `user` if signed in.
    ///
    /// # Errors
    /// 429 when the client has too many open, 503 when all clients together have.
    pub fn open(&self, user: Option<UserId>, address: IpAddr) -> Result<StreamPermit, Problem> {
        let counted = self.rates.key(address);
        self.limiter.take(user, counted).map_err(|full| match full {
            StreamGroup::All | StreamGroup::Strangers => {
                let detail = "Too many event streams are open; poll the item or the order instead.";
                problems::OVERLOADED.detail(detail).retry_after(5)
            }
            _ => {
                let by = if user.is_some() { "user" } else { "address" };
                self.metrics.rate_limited(by);
                let detail = format!("Close an event stream first: this {by} has too many open.");
                problems::RATE_LIMITED.detail(detail)
            }
        })
    }

    /// Sends the events of `work` on a stream, after the event `alive`. It ends with `work`, with the connection, when
    /// the service stops, and when the session of `claims` is over.
    pub fn send<F, W>(self, permit: StreamPermit, claims: Option<Claims>, work: W) -> Events
    where
        F: Future<Output = ()> + Send + 'static,
        W: FnOnce(mpsc::Sender<Event>) -> F,
    {
        let (out, receiver) = mpsc::channel(BUFFERED_MAX);
        let stop = self.lifecycle.stopping();
        let over = session_over(self.authenticator, claims);
        let work = work(out);
        self.lifecycle.connections().spawn(async move {
            tokio::select! {
                () = work => {}
                () = over => {}
                () = stop.cancelled() => {}
            }
            drop(permit);
        });
        let events = futures::stream::iter([alive()]).chain(ReceiverStream::new(receiver)).map(Ok);
        let events: EventStream = Box::pin(events);
        let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).event(alive());
        (UNBUFFERED, Sse::new(events).keep_alive(keep_alive))
    }
}

/// Browsers give comments to no script, so it is an event.
fn alive() -> Event {
    Event::default().event("alive").data("{}")
}

/// Waits until a session has expired or was signed out on any instance; forever without claims.
async fn session_over(authenticator: Authenticator, claims: Option<Claims>) {
    let Some(claims) = claims else { return std::future::pending().await };
    while authenticator.is_live(&claims) {
        tokio::time::sleep(SESSION_CHECK_PERIOD).await;
    }
}

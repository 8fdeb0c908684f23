//! Server-sent events: the stock of an item, and the changes of a buyer's own orders.
//!
//! Every stream ends when the service stops, and a stream of orders when the session ends. A slow
//! reader misses figures, which are not buffered for it.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use serde_json::json;
use tokio::sync::{broadcast, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use super::orders::OrderBody;
use super::waiting_list::PlaceBody;
use crate::account::Claims;
use crate::catalog::StockedItem;
use crate::http::Web;
use crate::http::address::ClientAddress;
use crate::http::extract::{Buyer, ItemPath};
use crate::http::problem::{Problem, ProblemType, rfc3339};
use crate::live::{self, TooManyStreams, Watcher, What};
use shop_domain::window::Phase;
use shop_domain::{Item, ItemState, Refusal, SaleWindow};

/// The longest pause in a stream; then a comment is sent, which finds dead connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The time between two checks of the session that opened a stream.
const SESSION_CHECK_PERIOD: Duration = Duration::from_secs(1);
/// Events that one stream buffers; the next event waits for the reader.
const BUFFERED_MAX: usize = 8;
/// The longest sleep until the start or the end of a sale; then the sale is checked again.
const BOUNDARY_MAX: Duration = Duration::from_secs(3_600);

pub(super) type Events = Sse<axum::response::sse::KeepAliveStream<EventStream>>;
type EventStream = std::pin::Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>>;

/// Watch the stock and the state of an item: an event now, and one at each change.
#[utoipa::path(get, path = "/api/items/{id}/events", tag = "everyone", params(ItemPath), responses(
    (status = 200, description = "Events `stock` and `state`", content_type = "text/event-stream", body = String),
    (status = "4XX", description = "No such item, or too many streams of one user or address"),
    (status = "5XX", description = "Too many streams"),
))]
pub async fn stock(
    State(web): State<Web>,
    buyer: Option<Buyer>,
    ClientAddress(address): ClientAddress,
    ItemPath(id): ItemPath,
) -> Result<Events, Problem> {
    let first = web.catalog.find(id).await?.value.ok_or(Refusal::ItemNotFound)?;
    let watcher = match buyer {
        Some(buyer) => Watcher::User(buyer.user, web.rates.key(address)),
        None => Watcher::Stranger(web.rates.key(address)),
    };
    let stream = open(&web, watcher)?;
    let mut watched = web.watch.item(id);
    // The stock is public, so the stream does not end with the session.
    Ok(events(web, stream, None, move |web, out| async move {
        let mut seen = first;
        let mut sent: Option<Figures> = None;
        loop {
            let now = web.clock.now();
            let figures = Figures::of(&seen, now);
            let stock_changed = sent.as_ref().is_none_or(|sent| sent.stock != figures.stock);
            let state_changed = sent.as_ref().is_none_or(|sent| sent.sale != figures.sale);
            if stock_changed && out.send(stock_event(&seen, now)).await.is_err() {
                return;
            }
            if state_changed && out.send(state_event(&seen, now)).await.is_err() {
                return;
            }
            sent = Some(figures);
            tokio::select! {
                changed = watched.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(until_boundary(&seen.item, now)) => {}
                () = out.closed() => return,
            }
            if let Some(latest) = watched.borrow_and_update().clone() {
                seen = latest;
            }
        }
    }))
}

/// Watch your orders and your places in waiting lists: an event at each change.
#[utoipa::path(get, path = "/api/orders/events", tag = "buyer", responses(
    (status = 200, description = "Events `order`, each with the order after the change, and `waiting`, each with the place after the change", content_type = "text/event-stream", body = String),
    (status = "4XX", description = "Not signed in, or too many streams of one user"),
    (status = "5XX", description = "Too many streams"),
))]
pub async fn orders(
    State(web): State<Web>,
    buyer: Buyer,
    ClientAddress(address): ClientAddress,
) -> Result<Events, Problem> {
    let stream = open(&web, Watcher::User(buyer.user, web.rates.key(address)))?;
    let mut changes = web.hub.watch_orders(buyer.user);
    let owner = buyer.user;
    Ok(events(web, stream, Some(buyer.claims), move |web, out| async move {
        loop {
            let changed = tokio::select! {
                changed = changes.recv() => changed,
                () = out.closed() => return,
            };
            let changed = match changed {
                Ok(changed) => changed,
                // This stream missed events: the page reads its orders at the next one.
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return,
            };
            let (name, body) = match changed.what {
                What::Order(order) => match web.orders.find(order, owner).await {
                    Ok(Some(order)) => ("order", serde_json::to_string(&OrderBody::from(order))),
                    _ => continue,
                },
                What::Place(item) => match web.waiting_lists.find(item, owner).await {
                    Ok(found) => {
                        let place = PlaceBody::new(item, found, web.clock.now());
                        ("waiting", serde_json::to_string(&place))
                    }
                    Err(_) => continue,
                },
            };
            let event = Event::default().event(name).data(body.unwrap_or_default());
            if out.send(event).await.is_err() {
                return;
            }
        }
    }))
}

pub(super) fn open(web: &Web, watcher: Watcher) -> Result<live::Stream, Problem> {
    web.hub.open_stream(watcher).map_err(|why| match why {
        TooManyStreams::InTotal => {
            let detail = "Too many event streams are open; poll the item or the order instead.";
            ProblemType::Overloaded.detail(detail).retry_after(5)
        }
        TooManyStreams::PerClient => {
            let by = if matches!(watcher, Watcher::User(..)) { "user" } else { "address" };
            web.metrics.rate_limited(by);
            let detail = format!("Close an event stream first: this {by} has too many open.");
            ProblemType::RateLimited.detail(detail)
        }
    })
}

/// Starts a stream of the events that `work` sends. It ends with `work`, with the connection, when
/// the service stops, and when the session of `claims` is over.
pub(super) fn events<F, W>(
    web: Web,
    stream: live::Stream,
    claims: Option<Claims>,
    work: W,
) -> Events
where
    F: Future<Output = ()> + Send + 'static,
    W: FnOnce(Web, mpsc::Sender<Event>) -> F,
{
    let (out, receiver) = mpsc::channel(BUFFERED_MAX);
    let stop = web.lifecycle.stopping();
    let tracker = web.lifecycle.connections().clone();
    let over = session_over(web.clone(), claims);
    let work = work(web, out);
    tracker.spawn(async move {
        tokio::select! {
            () = work => {}
            () = over => {}
            () = stop.cancelled() => {}
        }
        drop(stream);
    });
    let events = futures::StreamExt::map(ReceiverStream::new(receiver), Ok);
    let events: EventStream = Box::pin(events);
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Waits until a session has expired or was signed out on any instance; forever without claims.
async fn session_over(web: Web, claims: Option<Claims>) {
    let Some(claims) = claims else { return std::future::pending().await };
    while web.is_live(&claims) {
        tokio::time::sleep(SESSION_CHECK_PERIOD).await;
    }
}

/// The figures of the last events of a stream: a new event is sent when they change.
struct Figures {
    stock: (i64, i64),
    sale: (ItemState, bool, SaleWindow),
}

impl Figures {
    fn of(seen: &StockedItem, now: time::OffsetDateTime) -> Self {
        let state = seen.item.state(seen.available, now);
        Self {
            stock: (seen.available, seen.total),
            sale: (state, seen.item.paused, seen.item.window),
        }
    }
}

fn stock_event(seen: &StockedItem, now: time::OffsetDateTime) -> Event {
    let body = json!({
        "item_id": seen.item.id.get(),
        "available": seen.available,
        "total": seen.total,
        "server_time": rfc3339(now),
    });
    Event::default().event("stock").data(body.to_string())
}

fn state_event(seen: &StockedItem, now: time::OffsetDateTime) -> Event {
    let body = json!({
        "item_id": seen.item.id.get(),
        "state": seen.item.state(seen.available, now).as_str(),
        "paused": seen.item.paused,
        "starts_at": rfc3339(seen.item.window.starts_at()),
        "ends_at": rfc3339(seen.item.window.ends_at()),
        "server_time": rfc3339(now),
    });
    Event::default().event("state").data(body.to_string())
}

/// The time until the start or the end of the sale.
fn until_boundary(item: &Item, now: time::OffsetDateTime) -> Duration {
    let boundary = match item.window.phase(now) {
        Phase::Upcoming => item.window.starts_at(),
        Phase::Open => item.window.ends_at(),
        Phase::Ended => return BOUNDARY_MAX,
    };
    let left = Duration::try_from(boundary - now).unwrap_or_default();
    left.clamp(Duration::from_millis(1), BOUNDARY_MAX)
}

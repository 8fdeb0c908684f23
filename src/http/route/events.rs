//! Server-sent events: the stock of an item, and the changes of a buyer's own orders.

use std::time::Duration;

use axum::extract::State;
use axum::response::sse::Event;
use serde_json::json;
use tokio::sync::broadcast;

use super::waiting_list::PlaceBody;
use crate::catalog::{Catalog, StockedItem};
use crate::live::{Hub, Watch, What};
use crate::order::Orders;
use crate::waiting_list::WaitingLists;
use shop_domain::item::Phase;
use shop_domain::{Clock, Item, ItemState, Refusal, SaleWindow};
use web::address::ClientAddress;
use web::extract::{Buyer, ItemPath};
use web::order_body::OrderBody;
use web::problem::{Problem, rfc3339};
use web::streams::{Events, Streams};

/// The longest sleep until the start or the end of a sale; then the sale is checked again.
const BOUNDARY_MAX: Duration = Duration::from_secs(3_600);

/// Watch the stock and the state of an item: an event now, and one at each change.
#[utoipa::path(get, path = "/api/items/{id}/events", tag = "everyone", params(ItemPath), responses(
    (status = 200, description = "Events `alive` (at once, and every 15 s), `stock` and `state`", content_type = "text/event-stream", body = String),
))]
pub async fn stock(
    State(streams): State<Streams>,
    State(catalog): State<Catalog>,
    State(watch): State<Watch>,
    State(clock): State<Clock>,
    buyer: Option<Buyer>,
    ClientAddress(address): ClientAddress,
    ItemPath(id): ItemPath,
) -> Result<Events, Problem> {
    let first = catalog.find(id).await?.value.ok_or(Refusal::ItemNotFound)?;
    let stream = streams.open(buyer.map(|buyer| buyer.user), address)?;
    let mut watched = watch.item(id);
    // The stock is public, so the stream does not end with the session.
    Ok(streams.send(stream, None, move |out| async move {
        let mut seen = first;
        let mut sent: Option<Figures> = None;
        loop {
            let now = clock.now();
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
    (status = 200, description = "Events `alive`, `order`, each with the order after the change, and `waiting`, each with the place after the change", content_type = "text/event-stream", body = String),
))]
pub async fn orders(
    State(streams): State<Streams>,
    State(hub): State<Hub>,
    State(orders): State<Orders>,
    State(waiting_lists): State<WaitingLists>,
    State(clock): State<Clock>,
    buyer: Buyer,
    ClientAddress(address): ClientAddress,
) -> Result<Events, Problem> {
    let stream = streams.open(Some(buyer.user), address)?;
    let mut changes = hub.watch_orders(buyer.user);
    let owner = buyer.user;
    Ok(streams.send(stream, Some(buyer.claims), move |out| async move {
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
                What::Order(order) => match orders.find(order, owner).await {
                    Ok(Some(order)) => ("order", serde_json::to_string(&OrderBody::from(order))),
                    _ => continue,
                },
                What::Place(item) => match waiting_lists.find(item, owner).await {
                    Ok(found) => {
                        let place = PlaceBody::new(item, found, clock.now());
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

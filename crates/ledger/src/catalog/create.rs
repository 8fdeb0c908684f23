//! Creating items. One transaction writes the items, their stock and the operator's log.

use serde_json::{Value, json};
use sqlx::MySqlConnection;
use time::OffsetDateTime;

use super::{read_back, rfc3339};
use crate::rows::account::actions::{self, Actor};
use crate::rows::item::creations::{self, Earlier, KeyedRequest};
use crate::rows::item::items::{self, StockedItem};
use crate::rows::item::{draws, limit_groups};
use crate::write::restock::create_stock;
use mysql_connection::{Database, shards, transact, with_new_id};
use shop_domain::{ItemId, LimitGroupId, NewItem};

/// Items that are created together.
#[derive(Clone, Copy)]
pub struct NewItems<'a> {
    pub items: &'a [NewItem],
    pub now: OffsetDateTime,
    /// The operator; `None` for demo sales and the lab.
    pub actor: Option<&'a Actor>,
    /// The id of the first item; `None` makes a new one. For demo sales, which pages name.
    pub first_id: Option<ItemId>,
    /// The request, if it may come again.
    pub request: Option<KeyedRequest<'a>>,
}

/// Items that a request has created.
#[derive(Clone, Debug)]
pub struct Created {
    /// In the order of the request.
    pub items: Vec<StockedItem>,
    /// Whether an earlier request with the same key and body has created them.
    pub is_repeated: bool,
}

/// Creates items, and reads them back; `None` when an earlier request with the same key had another body: then nothing
/// was created.
///
/// # Errors
/// The database's; nothing was created, unless the COMMIT was not answered.
pub async fn create(pool: &Database, new: NewItems<'_>) -> sqlx::Result<Option<Created>> {
    with_new_id(|| transact(pool, move |transaction| Box::pin(insert_all(transaction, new)))).await
}

/// Finds the items that an earlier request with the same key and body has created.
///
/// # Errors
/// The database's.
pub async fn find_created(
    pool: &Database,
    request: KeyedRequest<'_>,
) -> sqlx::Result<Option<Created>> {
    let Earlier::Created(ids) = creations::find(pool, request).await? else { return Ok(None) };
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        items.push(items::find(pool, id).await?.ok_or(sqlx::Error::RowNotFound)?);
    }
    Ok(Some(Created { items, is_repeated: true }))
}

async fn insert_all(
    transaction: &mut MySqlConnection,
    new: NewItems<'_>,
) -> sqlx::Result<Option<Created>> {
    let NewItems { items: all, now, actor, first_id, request } = new;
    let mut ids = ids_of(first_id, all);
    let earlier = match request {
        Some(request) => creations::note(transaction, request, &ids, now).await?,
        None => Earlier::None,
    };
    let is_repeated = match earlier {
        Earlier::None => {
            for (new, id) in all.iter().zip(&ids) {
                insert_item(transaction, *id, new, now).await?;
                if let Some(actor) = actor {
                    let detail = new_item_json(new);
                    actions::record(transaction, actor, "item_created", Some(*id), &detail).await?;
                }
            }
            false
        }
        // Committed all the same: only so it is sure that the present writer says it.
        Earlier::OtherBody => return Ok(None),
        Earlier::Created(earlier) => {
            ids = earlier;
            true
        }
    };
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        items.push(read_back(transaction, id).await?);
    }
    Ok(Some(Created { items, is_repeated }))
}

/// The ids of new items. Items that may be in one order get ids beside each other, for a ledger with shards: those of a group
/// that has a limit, of a product, or of one request.
fn ids_of(first_id: Option<ItemId>, items: &[NewItem]) -> Vec<ItemId> {
    let mut ids: Vec<ItemId> = first_id.into_iter().collect();
    for new in items.iter().skip(ids.len()) {
        let next = ids.last().map_or_else(ItemId::generate, |last| last.generate_after());
        let group = new.limit_group.map(LimitGroupId::get);
        let product = new.variant.as_ref().map(|variant| variant.product.get());
        let of_request = ids.first().map(|first| first.get());
        ids.push(match group.or(product).or(of_request) {
            Some(other) => ItemId::new(shards::beside(next.get(), other)).unwrap_or(next),
            None => next,
        });
    }
    ids
}

async fn insert_item(
    transaction: &mut MySqlConnection,
    id: ItemId,
    new: &NewItem,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    items::insert(transaction, id, new, now).await?;
    create_stock(transaction, id, new.stock).await?;
    if let Some(group) = new.limit_group {
        limit_groups::add_item(transaction, group, id).await?;
    }
    if let Some(draw) = &new.draw {
        draws::insert(transaction, id, new.stock, draw).await?;
    }
    Ok(())
}

/// The operators' log line of a new item.
fn new_item_json(new: &NewItem) -> Value {
    json!({
        "name": new.name,
        "price_cents": new.price.cents(),
        "currency": new.currency.as_str(),
        "stock": new.stock,
        "starts_at": rfc3339(Some(new.window.starts_at())),
        "ends_at": rfc3339(Some(new.window.ends_at())),
        "per_buyer_limit": new.per_buyer_limit,
        "unpaid_max": new.unpaid_max,
        "hold_seconds": new.hold_seconds,
        "strategy": new.strategy,
        "kind": new.kind.as_str(),
        "arbiter": new.arbiter.as_str(),
        "waiting_room": new.waiting_room,
        "offer_seconds": new.offer_seconds,
        "extend_seconds": new.extend_seconds,
        "return_seconds": new.return_seconds,
        "limit_group_id": new.limit_group.map(LimitGroupId::get),
        "product_id": new.variant.as_ref().map(|variant| variant.product.get()),
        "draw_closes_at": rfc3339(new.draw.as_ref().map(|draw| draw.closes_at)),
    })
}

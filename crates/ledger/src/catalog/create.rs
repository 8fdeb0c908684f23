//! Creating items. One transaction writes the items, their stock and the operator's log.
//!
//! The home ledger gives out the ids. An item of another ledger has its id, and with it its place, before
//! it exists: if its own transaction fails, the id stays unused.

use serde_json::{Value, json};
use sqlx::MySqlConnection;
use time::OffsetDateTime;

use super::groups::GroupForItem;
use super::{read_back, rfc3339};
use crate::Database;
use crate::draw;
use crate::rows::actions::{self, Actor};
use crate::rows::items::{self, StockedItem};
use crate::rows::{Fault, homes, limit_groups, products, transact};
use crate::write::restock::create_stock;
use shop_domain::{Home, ItemId, ItemRoute, LimitGroupId, NewItem, Product, ShardId};

/// Attempts to find ids that no item of an older build has.
const IDS_ATTEMPTS_MAX: u32 = 3;

/// Items that are created together in one ledger.
#[derive(Clone, Copy)]
pub struct NewItems<'a> {
    pub items: &'a [NewItem],
    pub now: OffsetDateTime,
    /// The operator; `None` for demo sales and the lab.
    pub actor: Option<&'a Actor>,
    /// The groups of the items.
    pub groups: &'a [GroupForItem],
    /// The products of the items.
    pub products: &'a [Product],
    /// Where the items are to live.
    pub home: Home,
}

/// Creates items in the ledger behind `pool`, with ids of the home ledger behind `home_pool`, and reads them
/// back: once more with other ids when an older build has used the first ones.
///
/// # Errors
/// The database's; nothing was created, unless the COMMIT was not answered.
pub async fn create(
    home_pool: &Database,
    pool: &Database,
    new: NewItems<'_>,
) -> sqlx::Result<Vec<StockedItem>> {
    let mut attempt = 1;
    loop {
        match insert(home_pool, pool, new).await {
            Err(error) if Fault::of(&error) == Fault::Duplicate && attempt < IDS_ATTEMPTS_MAX => {
                attempt += 1;
                let mut connection = home_pool.acquire().await?;
                homes::skip_older_items(&mut connection).await?;
            }
            inserted => return inserted,
        }
    }
}

async fn insert(
    home_pool: &Database,
    pool: &Database,
    new: NewItems<'_>,
) -> sqlx::Result<Vec<StockedItem>> {
    let (shard, count) = (new.home.shard, new.items.len());
    let ids = match shard {
        ShardId::HOME => Vec::new(),
        _ => {
            transact(home_pool, |transaction| Box::pin(take_ids(transaction, shard, count))).await?
        }
    };
    transact(pool, |transaction| Box::pin(insert_all(transaction, new, ids))).await
}

/// Ids of `count` items that are to live in another ledger than the home ledger.
async fn take_ids(
    transaction: &mut MySqlConnection,
    shard: ShardId,
    count: usize,
) -> sqlx::Result<Vec<ItemId>> {
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        ids.push(homes::insert(transaction, shard).await?);
    }
    Ok(ids)
}

async fn insert_all(
    transaction: &mut MySqlConnection,
    new: NewItems<'_>,
    ids: Vec<ItemId>,
) -> sqlx::Result<Vec<StockedItem>> {
    let NewItems { items, now, actor, groups, products, home } = new;
    for group in groups {
        group.copy_to(transaction).await?;
    }
    for product in products {
        products::copy(transaction, product).await?;
    }
    let (mut created, mut ids) = (Vec::with_capacity(items.len()), ids.into_iter());
    for new in items {
        let id = match ids.next() {
            Some(id) => id,
            None => homes::insert(transaction, ShardId::HOME).await?,
        };
        let routed = ItemRoute { item: id, home };
        insert_item(transaction, routed, new, now).await?;
        if let Some(actor) = actor {
            let detail = new_item_json(new);
            actions::record(transaction, actor, "item_created", Some(id), &detail).await?;
        }
        created.push(read_back(transaction, routed).await?);
    }
    Ok(created)
}

async fn insert_item(
    transaction: &mut MySqlConnection,
    routed: ItemRoute,
    new: &NewItem,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    let id: ItemId = routed.item;
    items::insert(transaction, id, new, now).await?;
    create_stock(transaction, routed, new.stock).await?;
    if let Some(group) = new.limit_group {
        limit_groups::add_item(transaction, group, id).await?;
    }
    if let Some(draw) = &new.draw {
        draw::announce(transaction, id, draw).await?;
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

//! The log of operators' actions, written in the transaction of the change: no change without its
//! line, and no line without its change.

use std::net::IpAddr;
use std::sync::OnceLock;

use sqlx::MySqlConnection;
use time::OffsetDateTime;

use mysql_connection::statement::{Binds, Write};
use mysql_connection::{Database, answered, confirmed};
use shop_domain::{ItemId, OrderId, UserId};

/// The user of the system who runs this process, when it is a command.
static SYSTEM_USER: OnceLock<String> = OnceLock::new();

/// The names of all actions. The document of the API lists them from here.
pub const NAMES: [&str; 19] = [
    "item_created",
    "item_edited",
    "product_created",
    "limit_group_created",
    "lab_run_started",
    "lab_run_ended",
    "parked_retried",
    "parked_dropped",
    "operator_created",
    "role_changed",
    "password_set",
    "endpoint_created",
    "endpoint_switched",
    "endpoint_filtered",
    "endpoint_deleted",
    "events_replayed",
    "payment_refunded",
    "exported",
    "user_erased",
];

/// The operator of an action, with address and time.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    pub user: UserId,
    /// The address of the request; `None` for an action of the service on the operator's behalf.
    pub address: Option<IpAddr>,
    pub now: OffsetDateTime,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub struct Action {
    /// The number of the line, ascending with time.
    pub id: OrderId,
    pub user: UserId,
    pub action: String,
    /// The item of the action, if it has one.
    pub item: Option<ItemId>,
    /// The parameters, as JSON.
    pub detail: String,
    pub address: Option<String>,
    pub created_at: OffsetDateTime,
}

/// Makes every line of this process say who runs it. A command acts under the operator's id that it is
/// given, and nobody has checked it.
pub fn set_system_user(name: String) {
    // The first call decides: a process is one command.
    let _ = SYSTEM_USER.set(name);
}

/// The parameters of an action, with the user of the system who runs the command.
fn signed(detail: &serde_json::Value) -> String {
    let mut detail = detail.clone();
    if let (Some(user), Some(object)) = (SYSTEM_USER.get(), detail.as_object_mut()) {
        object.insert("system_user".to_owned(), user.as_str().into());
    }
    detail.to_string()
}

/// Writes a line: in the transaction of the change, if the ledger changes.
pub async fn record(
    transaction: &mut MySqlConnection,
    actor: &Actor,
    action: &'static str,
    item: Option<ItemId>,
    detail: &serde_json::Value,
) -> sqlx::Result<()> {
    debug_assert!(NAMES.contains(&action), "the list of actions has no {action:?}");
    sqlx::query(
        "INSERT INTO admin_actions (id, user_id, action, item_id, detail, address, created_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .binds((
        OrderId::generate().to_string(),
        actor.user.get(),
        action,
        item.map(ItemId::get),
        signed(detail),
        actor.address.map(|address| address.to_string()),
        actor.now,
    ))
    .run(transaction)
    .await
}

/// Writes a line for an action that does not change the ledger.
pub async fn record_alone(
    pool: &Database,
    actor: &Actor,
    action: &'static str,
    item: Option<ItemId>,
    detail: &serde_json::Value,
) -> sqlx::Result<()> {
    let written = async { record(&mut *pool.acquire().await?, actor, action, item, detail).await };
    confirmed(pool, answered(written)).await
}

/// Reads at most `limit` lines, newest first, those before the line `before`: of `operator` alone,
/// or of all. The lines are few, so those of one operator need no index.
pub async fn list(
    pool: &Database,
    operator: Option<UserId>,
    before: Option<OrderId>,
    limit: u32,
) -> sqlx::Result<Vec<Action>> {
    let statement = format!(
        "SELECT {} FROM admin_actions \
         WHERE id < ? AND user_id = COALESCE(?, user_id) ORDER BY id DESC LIMIT ?",
        Action::COLUMNS
    );
    // Above every id.
    let before = before.map_or_else(|| "g".to_owned(), |before| before.to_string());
    let query = sqlx::query_as(&statement).binds((before, operator.map(UserId::get), limit));
    query.fetch_all(pool).await
}

from_row!(Action { id, user: "user_id", action, item: "item_id", detail, address, created_at });

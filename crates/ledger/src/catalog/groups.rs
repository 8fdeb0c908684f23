//! Groups of items that share a limit.

use serde_json::json;

use crate::rows::account::actions::{self, Actor};
use crate::rows::item::limit_groups;
use crate::work::Ledger;
use shop_domain::{LedgerError, LimitGroup};

/// Creates a group for an operator.
///
/// # Errors
/// When it was not created, or may have been.
pub async fn create_group(
    ledger: &Ledger,
    name: &str,
    per_buyer_limit: u32,
    actor: &Actor,
) -> Result<LimitGroup, LedgerError> {
    let created = ledger.create(|transaction| {
        Box::pin(async move {
            let group = limit_groups::insert(transaction, name, per_buyer_limit, actor.now).await?;
            let detail =
                json!({ "id": group.id.get(), "name": name, "per_buyer_limit": per_buyer_limit });
            actions::record(transaction, actor, "limit_group_created", None, &detail).await?;
            Ok(group)
        })
    });
    created.await
}

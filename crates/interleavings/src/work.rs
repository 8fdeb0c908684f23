//! The permits of items, which an order with several lines waits for.

#[path = "../../ledger/src/work/cache.rs"]
pub mod cache;
include!(concat!(env!("OUT_DIR"), "/item_concurrency.rs"));
#[path = "../../ledger/src/work/item_permit.rs"]
pub(crate) mod item_permit;

pub(crate) mod stock_lock {
    //! The locks of stock rows.

    use crate::random::below;
    use crate::sql::{Database, NoError};
    use crate::task::yield_now;
    use crate::work::item_permit::ItemPermit;

    /// Waits until nobody has the row.
    pub(crate) async fn wait_until_free(_: &Database, _: &ItemPermit) -> Result<(), NoError> {
        for _ in 0..below(4) {
            yield_now().await;
        }
        Ok(())
    }
}

//! The modules of group commit. `batch` is another one: it writes into a book in place of a database.

#[path = "../../../ledger/src/write/group_commit/asker.rs"]
mod asker;
mod batch;
#[path = "../../../ledger/src/write/group_commit/batch_orders.rs"]
mod batch_orders;
pub mod batch_runs;
pub(crate) mod book;
include!(concat!(env!("OUT_DIR"), "/fair_queue.rs"));
#[path = "../../../ledger/src/write/group_commit/group.rs"]
mod group;
include!(concat!(env!("OUT_DIR"), "/pipeline.rs"));
#[path = "../../../ledger/src/write/group_commit/quarantine.rs"]
mod quarantine;
include!(concat!(env!("OUT_DIR"), "/queue.rs"));
#[path = "../../../ledger/src/write/group_commit/tasks.rs"]
mod tasks;

pub(crate) use group::GroupCommit;
pub use pipeline::SHARED_CONNECTIONS;
pub use queue::BATCH_MAX;

mod connections {
    //! The connections of batches: the book needs none.

    /// The connections of a queue.
    #[derive(Clone, Debug)]
    pub struct BatchConnections;
}

mod pre_check {
    //! What batches are of.

    use std::collections::BTreeSet;

    use shop_domain::{ItemId, Purchase};

    /// The items of some purchases, in the order of their ids.
    pub(super) fn items_of<'a>(purchases: impl IntoIterator<Item = &'a Purchase>) -> Vec<ItemId> {
        let items: BTreeSet<ItemId> = purchases.into_iter().map(|one| one.item.id).collect();
        items.into_iter().collect()
    }
}

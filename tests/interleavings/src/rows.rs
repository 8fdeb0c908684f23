//! What the ledger's modules and the consumers read of rows.

pub(crate) mod order {
    pub(crate) mod orders {
        //! Orders.

        use std::collections::HashMap;

        use shop_domain::{ItemId, Order, OrderId, RequestKey, UserId};

        use crate::book::Row;
        use crate::sql::{Database, MySqlConnection, Result};

        pub(crate) type RequestOf = (UserId, ItemId, String);

        pub(crate) async fn find(
            pool: &Database,
            id: OrderId,
            owner: UserId,
        ) -> Result<Option<Order>> {
            pool.send().await?;
            Ok(pool.book.order(id).filter(|order| order.user_id == owner))
        }

        pub(crate) async fn find_by_key(
            connection: &mut MySqlConnection,
            buyer: UserId,
            item: ItemId,
            key: &RequestKey,
        ) -> Result<Option<Order>> {
            connection.server.send().await?;
            let row = Row::Key(item.get(), buyer.get(), key.as_str().to_owned());
            Ok(connection.server.book.of_key(&row))
        }

        pub(crate) async fn find_by_keys(
            connection: &mut MySqlConnection,
            requests: &[RequestOf],
        ) -> Result<HashMap<RequestOf, Order>> {
            connection.server.send().await?;
            let found = requests.iter().filter_map(|request| {
                let (buyer, item, key) = request;
                let row = Row::Key(item.get(), buyer.get(), key.clone());
                Some((request.clone(), connection.server.book.of_key(&row)?))
            });
            Ok(found.collect())
        }
    }
}

pub(crate) mod outbox {
    //! Events, of which there are none.

    use shop_domain::{OrderStatus, Purchase};

    use crate::sql::{MySqlConnection, Result};

    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Outbox;

    impl Outbox {
        pub(crate) async fn inserted(
            self,
            _: &mut MySqlConnection,
            _: &[&Purchase],
            _: OrderStatus,
        ) -> Result<()> {
            Ok(())
        }
    }
}

pub(crate) mod item {
    pub(crate) mod items {
        //! The stock of an item.

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct StockRow {
            pub(crate) available: i64,
        }
    }
}

pub(crate) mod items {
    //! Items.

    use std::sync::Arc;

    use shop_domain::{Item, ItemId};

    use crate::sql::{Database, Result};

    pub(crate) struct StockedItem {
        pub(crate) item: Arc<Item>,
    }

    pub(crate) async fn find(pool: &Database, id: ItemId) -> Result<Option<StockedItem>> {
        pool.send().await?;
        let item = crate::shop::ITEMS.iter().find(|item| item.id == id);
        Ok(item.map(|item| StockedItem { item: Arc::clone(item) }))
    }
}

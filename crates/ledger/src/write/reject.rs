//! Rejected orders: queued, then refused, and stored without moving stock, so that the buyer finds
//! the order's result under its id.

use super::Arbiter;
use crate::rows::order::orders;
use crate::rows::outbox::Outbox;
use crate::write::new_order::{Written, insert_orders};
use mysql_connection::limits::TRANSACTION_MAX;
use mysql_connection::{Database, Fault, begin, confirmed, within};
use shop_domain::{Order, OrderStatus, Purchase, RequestKey};

impl Arbiter {
    /// Stores a refused purchase as a rejected order, or answers the order that is stored already.
    /// A second call changes nothing.
    ///
    /// # Errors
    /// The database's; call again to get the result.
    pub async fn reject(&self, purchase: &Purchase) -> sqlx::Result<Order> {
        // The request's key may belong to another order meanwhile. Then this one, whose id the
        // buyer knows too, gets its own id as its key.
        let own_key = RequestKey::of_order(purchase.order_id);
        for key in [purchase.key.clone(), own_key] {
            let keyed = Purchase { key, ..purchase.clone() };
            match within(TRANSACTION_MAX, insert(&self.pool, &keyed, self.outbox)).await {
                Ok(()) => {
                    failpoint!("reject-inserted");
                    return Ok(purchase.order(OrderStatus::Rejected, None));
                }
                Err(error) if Fault::of(&error) == Fault::Duplicate => {}
                Err(error) => return Err(error),
            }
            let find = orders::find(&self.pool, purchase.order_id, purchase.buyer);
            let found = confirmed(&self.pool, find).await?;
            if let Some(order) = found {
                return Ok(order);
            }
        }
        Err(sqlx::Error::RowNotFound)
    }
}

async fn insert(pool: &Database, purchase: &Purchase, outbox: Outbox) -> sqlx::Result<()> {
    // After an error the transaction is dropped, which rolls it back.
    let mut transaction = begin(pool).await?;
    let status = OrderStatus::Rejected;
    let written = Written { status, fence: None, fence_sequence: None };
    insert_orders(&mut transaction, &[purchase], &written).await?;
    outbox.inserted(&mut transaction, &[purchase], status).await?;
    transaction.commit().await
}

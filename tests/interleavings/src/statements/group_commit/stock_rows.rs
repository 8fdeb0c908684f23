//! The statement that takes the stock of a batch.

use crate::sql::{MySqlConnection, Result};
use shop_domain::ItemId;

pub(super) async fn take(connection: &mut MySqlConnection, taken: &[(ItemId, i64)]) -> Result<u64> {
    connection.server.send().await?;
    let mut enough = 0;
    for (item, units) in taken {
        enough += u64::from(connection.take(item.get(), *units).await?);
    }
    Ok(enough)
}

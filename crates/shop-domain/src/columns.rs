//! Columns and rows of MySQL as these types: a value out of its range is an error that names its column. A trait of
//! sqlx for a type of this crate can stand nowhere else.
//!
//! With these, a tuple of columns is read without code of its own, and a row type with a name needs
//! one short `impl FromRow`.

use sqlx::error::BoxDynError;
use sqlx::mysql::{MySql, MySqlRow, MySqlTypeInfo, MySqlValueRef};
use sqlx::{Decode, FromRow, Row, Type};

use crate::{
    ArbiterMode, Cents, EndpointId, ItemId, ItemKind, LimitGroup, LimitGroupId, Order, OrderId,
    OrderStatus, Place, Quantity, ShardId, UserId, WaitingStatus,
};

/// Reads a column of the type `$sql` and gives the value to `$parse`.
macro_rules! column {
    ($type:ty, $sql:ty, $parse:expr) => {
        impl Type<MySql> for $type {
            fn type_info() -> MySqlTypeInfo {
                <$sql as Type<MySql>>::type_info()
            }

            fn compatible(column: &MySqlTypeInfo) -> bool {
                <$sql as Type<MySql>>::compatible(column)
            }
        }

        impl<'r> Decode<'r, MySql> for $type {
            fn decode(value: MySqlValueRef<'r>) -> Result<Self, BoxDynError> {
                let value = <$sql as Decode<MySql>>::decode(value)?;
                $parse(value).ok_or_else(|| "the value is out of its range".into())
            }
        }
    };
}

column!(ItemId, i64, Self::new);
column!(UserId, i64, Self::new);
column!(EndpointId, i64, Self::new);
column!(LimitGroupId, i64, Self::new);
column!(ShardId, u16, Self::new);
column!(Cents, i64, Self::new);
column!(Quantity, u32, |units: u32| Self::new(units.into()));
column!(OrderId, &str, Self::parse);
column!(OrderStatus, &str, Self::parse);
column!(WaitingStatus, &str, Self::parse);
column!(ItemKind, &str, Self::parse);
column!(ArbiterMode, &str, Self::parse);

impl FromRow<'_, MySqlRow> for LimitGroup {
    fn from_row(row: &MySqlRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            per_buyer_limit: row.try_get("per_buyer_limit")?,
        })
    }
}

impl FromRow<'_, MySqlRow> for Order {
    fn from_row(row: &MySqlRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            item_id: row.try_get("item_id")?,
            user_id: row.try_get("user_id")?,
            quantity: row.try_get("quantity")?,
            amount: row.try_get("amount_cents")?,
            status: row.try_get("status")?,
            strategy: row.try_get("strategy")?,
            fence: row.try_get("fence")?,
            limit_group: row.try_get("limit_group_id")?,
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            paid_at: row.try_get("paid_at")?,
        })
    }
}

impl FromRow<'_, MySqlRow> for Place {
    fn from_row(row: &MySqlRow) -> sqlx::Result<Self> {
        Ok(Self {
            number: row.try_get("place")?,
            item: row.try_get("item_id")?,
            buyer: row.try_get("user_id")?,
            status: row.try_get("status")?,
            joined_at: row.try_get("joined_at")?,
            offered_at: row.try_get("offered_at")?,
            offer_expires_at: row.try_get("offer_expires_at")?,
            order: row.try_get("order_id")?,
        })
    }
}

//! Columns as the types of `domain`: a value out of its range is an error that names its column.
//!
//! With these, a tuple of columns is read without code of its own, and a row type with a name needs
//! one short `impl FromRow`.

use sqlx::error::BoxDynError;
use sqlx::mysql::{MySql, MySqlTypeInfo, MySqlValueRef};
use sqlx::{Decode, Type};

use crate::domain::{
    ArbiterMode, Cents, EndpointId, ItemId, ItemKind, LimitGroupId, OrderId, OrderStatus, Quantity,
    ShardId, UserId, WaitingStatus,
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

/// The text of a column with a byte-wise collation, which sqlx reads as bytes.
pub(super) struct Text(pub String);

impl Type<MySql> for Text {
    fn type_info() -> MySqlTypeInfo {
        <str as Type<MySql>>::type_info()
    }

    fn compatible(column: &MySqlTypeInfo) -> bool {
        <str as Type<MySql>>::compatible(column) || <[u8] as Type<MySql>>::compatible(column)
    }
}

impl<'r> Decode<'r, MySql> for Text {
    fn decode(value: MySqlValueRef<'r>) -> Result<Self, BoxDynError> {
        <String as Decode<MySql>>::decode(value).map(Self)
    }
}

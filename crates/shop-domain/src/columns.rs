//! Columns and rows of MySQL as these types: a value out of its range is an error that names its column. A trait of
//! sqlx for a type of this crate can stand nowhere else.
//!
//! With these, a tuple of columns is read without code of its own, and a row type with a name needs
//! one [`from_row!`](crate::from_row).

use sqlx::error::BoxDynError;
use sqlx::mysql::{MySql, MySqlTypeInfo, MySqlValueRef};
use sqlx::{Decode, Type};

use crate::payment::{CurrencyCode, PaymentId, PaymentStatus};
use crate::{
    ArbiterMode, BuyerReference, Cents, Currency, DrawBeacon, EndpointId, ItemId, ItemKind,
    LimitGroup, LimitGroupId, OrderId, OrderStatus, Place, Product, ProductId, Quantity, ShopId,
    UserId, WaitingStatus,
};

/// Reads a column of the type `$sql` and gives the value to `$parse`.
#[macro_export]
macro_rules! column_type {
    ($type:ty, $sql:ty, $parse:expr) => {
        impl ::sqlx::Type<::sqlx::MySql> for $type {
            fn type_info() -> ::sqlx::mysql::MySqlTypeInfo {
                <$sql as ::sqlx::Type<::sqlx::MySql>>::type_info()
            }

            fn compatible(column: &::sqlx::mysql::MySqlTypeInfo) -> bool {
                <$sql as ::sqlx::Type<::sqlx::MySql>>::compatible(column)
            }
        }

        impl<'r> ::sqlx::Decode<'r, ::sqlx::MySql> for $type {
            fn decode(
                value: ::sqlx::mysql::MySqlValueRef<'r>,
            ) -> Result<Self, ::sqlx::error::BoxDynError> {
                let value = <$sql as ::sqlx::Decode<::sqlx::MySql>>::decode(value)?;
                $parse(value).ok_or_else(|| "the value is out of its range".into())
            }
        }
    };
}

/// Reads a row: each field from the column of its name, or of the name behind the colon. With `as`, the column is read
/// as another type and converted, by `Into` or by the function behind the arrow. With `=`, the field is an expression
/// of SQL. Fields behind a semicolon are read from no column. `COLUMNS` is the list for a SELECT.
///
/// sqlx has a derive macro for this, with which the driver is compiled a second time.
#[macro_export]
macro_rules! from_row {
    ($type:ident {
        $($field:ident $(= $sql:literal)? $(: $column:literal)? $(as $read:ty $(=> $convert:expr)?)?),+
        $(,)? $(; $($other:ident = $value:expr),+ $(,)?)?
    }) => {
        impl $type {
            /// The columns, for a SELECT.
            #[allow(dead_code, reason = "some rows are read from expressions alone")]
            pub const COLUMNS: &'static str =
                $crate::from_row!(@list $(($crate::from_row!(@select $field $(= $sql)? $($column)?)))+);
        }

        impl ::sqlx::FromRow<'_, ::sqlx::mysql::MySqlRow> for $type {
            fn from_row(row: &::sqlx::mysql::MySqlRow) -> ::sqlx::Result<Self> {
                Ok(Self {
                    $($field: $crate::from_row!(
                        @read row, $crate::from_row!(@name $field $($column)?)
                        $(, $read $(, $convert)?)?
                    ),)+
                    $($($other: $value,)+)?
                })
            }
        }
    };
    (@select $field:ident = $sql:literal) => { concat!($sql, " AS ", stringify!($field)) };
    (@select $field:ident $($column:literal)?) => { $crate::from_row!(@name $field $($column)?) };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $column:literal) => { $column };
    (@list ($first:expr) $(($other:expr))*) => { concat!($first $(, ", ", $other)*) };
    (@read $row:ident, $name:expr) => { ::sqlx::Row::try_get($row, $name)? };
    (@read $row:ident, $name:expr, $read:ty) => {
        ::sqlx::Row::try_get::<$read, _>($row, $name)?.into()
    };
    (@read $row:ident, $name:expr, $read:ty, $convert:expr) => {
        ::sqlx::Row::try_get::<$read, _>($row, $name).map($convert)?
    };
}

/// Declares a type for rows whose columns have the names of its fields, and reads it.
#[macro_export]
macro_rules! row {
    ($(#[$of_type:meta])* pub struct $type:ident {
        $($(#[$of_field:meta])* pub $field:ident: $value:ty),+ $(,)?
    }) => {
        $(#[$of_type])*
        pub struct $type { $($(#[$of_field])* pub $field: $value),+ }

        $crate::from_row!($type { $($field),+ });
    };
}

/// The text of a column with a byte-wise collation, which sqlx reads as bytes.
pub struct Text(pub String);

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

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

column_type!(ItemId, i64, Self::new);
column_type!(UserId, i64, Self::new);
column_type!(ShopId, i64, Self::new);
column_type!(EndpointId, i64, Self::new);
column_type!(LimitGroupId, i64, Self::new);
column_type!(ProductId, i64, Self::new);
column_type!(Cents, i64, Self::new);
column_type!(Quantity, u32, |units: u32| Self::new(units.into()));
column_type!(Currency, &str, Self::parse);
column_type!(CurrencyCode, &str, Self::parse);
column_type!(BuyerReference, Text, |Text(text): Text| Self::parse(&text));
column_type!(PaymentId, Text, |Text(id): Text| Self::parse(&id));
column_type!(PaymentStatus, &str, Self::parse);
column_type!(OrderId, &str, Self::parse);
column_type!(OrderStatus, &str, Self::parse);
column_type!(DrawBeacon, &str, Self::parse);
column_type!(WaitingStatus, &str, Self::parse);
column_type!(ItemKind, &str, Self::parse);
column_type!(ArbiterMode, &str, Self::parse);

from_row!(LimitGroup { id, name, per_buyer_limit });

from_row!(Product { id, name, description, image_url });

from_row!(Place {
    number: "place",
    item: "item_id",
    buyer: "user_id",
    status,
    joined_at,
    offered_at,
    offer_expires_at,
    order: "order_id",
});

//! A column type that sqlx lacks. The columns of the types of `domain` stand in that crate.

use sqlx::error::BoxDynError;
use sqlx::mysql::{MySql, MySqlTypeInfo, MySqlValueRef};
use sqlx::{Decode, Type};

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

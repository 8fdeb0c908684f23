//! The values of arguments, for several commands.

use shop_domain::{ItemId, UserId};

pub fn item(text: &str) -> Result<ItemId, String> {
    ItemId::parse(text).ok_or_else(|| "an item's id is a positive number".to_owned())
}

pub fn user(text: &str) -> Result<UserId, String> {
    UserId::parse(text).ok_or_else(|| "a user's id is a positive number".to_owned())
}

//! The values of arguments, for several commands.

use shop_domain::{ItemId, LimitGroupId, ShardId, UserId};

pub fn item(text: &str) -> Result<ItemId, String> {
    ItemId::parse(text).ok_or_else(|| "an item's id is a positive number".to_owned())
}

pub fn user(text: &str) -> Result<UserId, String> {
    UserId::parse(text).ok_or_else(|| "a user's id is a positive number".to_owned())
}

pub fn group(text: &str) -> Result<LimitGroupId, String> {
    LimitGroupId::parse(text).ok_or_else(|| "a group's id is a positive number".to_owned())
}

pub fn shard(text: &str) -> Result<ShardId, String> {
    let number = text.parse().ok().and_then(ShardId::new);
    number.ok_or_else(|| format!("a ledger's number is 0 to {}", ShardId::MAX))
}

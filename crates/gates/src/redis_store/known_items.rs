//! The items of which Redis has keys: after a restore the ledger may not know them.

use std::collections::BTreeSet;

use redis::{RedisResult, from_redis_value};

use super::RedisClient;
use shop_domain::ItemId;

/// Keys that one question looks at, about.
const KEYS_TOGETHER: u64 = 1_000;

/// The items of which Redis has keys, by the keys that were looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownItems {
    pub items: BTreeSet<ItemId>,
    /// Whether every key was looked at.
    pub is_complete: bool,
}

impl RedisClient {
    /// The items of which Redis has keys. At most about `keys_max` keys are looked at, with those of other applications.
    ///
    /// # Errors
    /// When a primary does not answer.
    pub async fn known_items(&self, keys_max: u64) -> RedisResult<KnownItems> {
        let head = format!("{}{{item:", self.prefix());
        let mut pattern = String::new();
        for letter in head.chars() {
            if "*?[]\\".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern.push('*');
        let mut items = BTreeSet::new();
        let mut questions_left = keys_max / KEYS_TOGETHER;
        for primary in self.shared().primaries().await? {
            let mut cursor = 0_u64;
            loop {
                if questions_left == 0 {
                    return Ok(KnownItems { items, is_complete: false });
                }
                questions_left -= 1;
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(KEYS_TOGETHER);
                let (next, keys): (u64, Vec<String>) = from_redis_value(primary.ask(&scan).await?)?;
                items.extend(keys.iter().filter_map(|key| item_of(key.strip_prefix(&head)?)));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(KnownItems { items, is_complete: true })
    }
}

/// The item of a key, from the text behind `{item:`.
fn item_of(rest: &str) -> Option<ItemId> {
    let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
    ItemId::parse(&rest[..end])
}

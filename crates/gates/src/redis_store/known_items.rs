//! The items of which Redis has keys: after a restore the ledger may not know them.

use std::collections::BTreeSet;

use redis::{RedisResult, from_redis_value};

use super::RedisClient;
use shop_domain::ItemId;

/// Keys that one question looks at.
const KEYS_TOGETHER: u32 = 1_000;
/// Questions: at most 200,000 keys are looked at.
const QUESTIONS_MAX: u32 = 200;

impl RedisClient {
    /// The items of which Redis has keys. `None` with several primaries: no one cursor leads through their keys.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn known_items(&self) -> RedisResult<Option<BTreeSet<ItemId>>> {
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
        let mut cursor = 0_u64;
        for _ in 0..QUESTIONS_MAX {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(KEYS_TOGETHER);
            let mut answers = self.shared().ask_each(&scan).await?;
            let Some(answer) = answers.pop().filter(|_| answers.is_empty()) else {
                return Ok(None);
            };
            let (next, keys): (u64, Vec<String>) = from_redis_value(answer?)?;
            items.extend(keys.iter().filter_map(|key| item_of(key.strip_prefix(&head)?)));
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        Ok(Some(items))
    }
}

/// The item of a key, from the text behind `{item:`.
fn item_of(rest: &str) -> Option<ItemId> {
    let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
    ItemId::parse(&rest[..end])
}

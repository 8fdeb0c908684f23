//! The entries of a log, and how orders and buyers get names in it.

use crate::{Hash, hash};

/// The secret of a log, from which the salts of its orders and buyers are made.
///
/// Each hash is of one block, because the log of a hot item gets tens of thousands of orders a second.
pub struct Salt(Hash);

impl Salt {
    /// The salts of a secret.
    #[must_use]
    pub fn of_secret(secret: &Hash) -> Self {
        Self(*secret)
    }

    /// The entry for a line that names orders and buyers by their ids; `None` if it is no such line.
    #[must_use]
    pub fn entry(&self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').collect();
        Some(match words[..] {
            [kind @ ("sold" | "returned"), time, order, buyer, units] => {
                format!("{kind} {time} {} {} {units}", self.order(order)?, self.buyer(buyer))
            }
            ["refused", time, id, buyer, units, code] => {
                format!("refused {time} {id} {} {units} {code}", self.buyer(buyer))
            }
            ["opened", _, _, _, _]
            | ["stock" | "offers" | "entered" | "withdrawn", _, _]
            | ["ended", _] => line.to_owned(),
            _ => return None,
        })
    }

    /// The number that proves which order an entry means. Its buyer alone gets it. `None` if the id is no UUID.
    #[must_use]
    pub fn nonce(&self, order: &str) -> Option<String> {
        Some(hex::encode(self.nonce_of(&uuid(order)?)))
    }

    /// The name of an order in the log.
    #[must_use]
    pub fn order(&self, order: &str) -> Option<String> {
        let order = uuid(order)?;
        let name = hash(&[b"seckill order 1\n", &self.nonce_of(&order), &order]);
        Some(hex::encode(&name[..16]))
    }

    /// The name of a buyer in the log.
    #[must_use]
    pub fn buyer(&self, buyer: &str) -> String {
        hex::encode(&hash(&[&self.0, b"b", buyer.as_bytes()])[..16])
    }

    fn nonce_of(&self, order: &[u8; 16]) -> [u8; 16] {
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&hash(&[&self.0, b"n", order])[..16]);
        nonce
    }
}

/// The bytes of a UUID in text.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    Some(bytes)
}

/// What the entries of a log add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Units that were sold and have not come back.
    pub units: i64,
    /// Orders that hold them.
    pub orders: i64,
    pub refusals: i64,
}

impl Sums {
    /// Counts an entry.
    pub fn add(&mut self, entry: &str) {
        let mut words = entry.split(' ');
        let kind = words.next();
        let mut units = || words.nth(3).and_then(|units| units.parse().ok()).unwrap_or(0);
        match kind {
            Some("sold") => (self.units, self.orders) = (self.units + units(), self.orders + 1),
            Some("returned") => (self.units, self.orders) = (self.units - units(), self.orders - 1),
            Some("refused") => self.refusals += 1,
            _ => {}
        }
    }
}

//! The entries of a log, and how orders and buyers get names in it.

use uuid::Uuid;

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

    /// Appends the entry for a line that names orders and buyers by their ids; `time` stands for its `@`. `None` if it is no
    /// such line: then `entries` is as it was.
    #[must_use]
    pub fn append_entry(&self, line: &str, time: &str, entries: &mut Vec<u8>) -> Option<()> {
        let (mut words, mut count): ([&[u8]; 6], _) = ([b""; 6], 0);
        for word in line.split(' ') {
            *words.get_mut(count)? = if word == "@" { time } else { word }.as_bytes();
            count += 1;
        }
        let names: (Digits, Digits);
        match &mut words[..count] {
            [b"sold" | b"returned", _, order, buyer, _] => {
                names = (self.order_digits(order)?, self.buyer_digits(buyer));
                (*order, *buyer) = (&names.0, &names.1);
            }
            [b"refused", _, _, buyer, _, _] => {
                names = (Digits::default(), self.buyer_digits(buyer));
                *buyer = &names.1;
            }
            [b"opened", _, _, _, _]
            | [b"stock" | b"offers" | b"entered" | b"withdrawn", _, _]
            | [b"ended", _] => {}
            _ => return None,
        }
        entries.extend_from_slice(words[0]);
        for word in &words[1..count] {
            entries.push(b' ');
            entries.extend_from_slice(word);
        }
        Some(())
    }

    /// The number that proves which order an entry means. Its buyer alone gets it. `None` if the id is no UUID.
    #[must_use]
    pub fn nonce(&self, order: &str) -> Option<String> {
        Some(hex::encode(self.nonce_of(&Uuid::parse_str(order).ok()?)))
    }

    /// The name of an order in the log.
    #[must_use]
    pub fn order(&self, order: &str) -> Option<String> {
        Some(self.order_digits(order.as_bytes())?.map(char::from).iter().collect())
    }

    fn order_digits(&self, order: &[u8]) -> Option<Digits> {
        let order = Uuid::try_parse_ascii(order).ok()?;
        Some(digits(&hash(&[b"seckill order 1\n", &self.nonce_of(&order), order.as_bytes()])))
    }

    fn buyer_digits(&self, buyer: &[u8]) -> Digits {
        digits(&hash(&[&self.0, b"b", buyer]))
    }

    fn nonce_of(&self, order: &Uuid) -> [u8; 16] {
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&hash(&[&self.0, b"n", order.as_bytes()])[..16]);
        nonce
    }
}

/// A name in the log: hexadecimal digits.
type Digits = [u8; 32];

/// The digits of the first half of a hash.
fn digits(hash: &Hash) -> Digits {
    std::array::from_fn(|at| {
        b"0123456789abcdef"[usize::from(hash[at / 2] >> (4 - at % 2 * 4) & 15)]
    })
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

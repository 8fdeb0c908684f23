//! Signed heads, and the keys that sign them.

use std::fmt;

use ring::hmac::{HMAC_SHA256, Key, sign};
use ring::signature::{Ed25519KeyPair, KeyPair};

use crate::{Hash, Sums};

/// Keys that are published beside the one that signs now.
const PAST_KEYS: u64 = 12;
const SECONDS_OF_DAY: u64 = 86_400;

/// The state of a log: what one signature says of all its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub item: i64,
    /// The number of entries.
    pub size: u64,
    pub root: Hash,
    /// In microseconds since 1970.
    pub time: i64,
    pub sums: Sums,
}

impl Head {
    /// The bytes that are signed.
    #[must_use]
    pub fn message(&self) -> String {
        let Self { item, size, root, time, sums } = self;
        let Sums { units, orders, refusals } = sums;
        let root = hex::encode(root);
        format!(
            "sale-head 1\nitem {item}\nsize {size}\nroot {root}\ntime {time}\nunits {units}\norders {orders}\nrefusals {refusals}\n"
        )
    }
}

/// A key that signs heads.
pub struct SigningKey(Ed25519KeyPair);

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SigningKey")
    }
}

impl SigningKey {
    /// The key of a secret; `None` never happens, because every 32 bytes are a key.
    #[must_use]
    pub fn of_secret(secret: &Hash) -> Option<Self> {
        Ed25519KeyPair::from_seed_unchecked(secret).ok().map(Self)
    }

    /// The public key in hexadecimal digits.
    #[must_use]
    pub fn public_key(&self) -> String {
        hex::encode(self.0.public_key())
    }

    /// The signature of a head in hexadecimal digits.
    #[must_use]
    pub fn sign(&self, head: &Head) -> String {
        hex::encode(self.0.sign(head.message().as_bytes()))
    }
}

/// The keys of a shop, each for a number of days. All follow from one secret, so every instance has the same ones, and the
/// next one is published before it signs.
pub struct SigningKeys {
    secret: Key,
    days: u64,
}

/// A key as it is published. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedKey {
    pub public_key: String,
    pub from: u64,
    pub until: u64,
}

impl SigningKeys {
    /// Keys that are replaced after `days`.
    #[must_use]
    pub fn new(secret: &[u8], days: u32) -> Self {
        Self { secret: Key::new(HMAC_SHA256, secret), days: u64::from(days.max(1)) }
    }

    /// The key that signs at a time, in seconds since 1970.
    #[must_use]
    pub fn at(&self, time: u64) -> Option<SigningKey> {
        self.of_number(time / self.length())
    }

    /// The keys that signed in the past, the present one, and the next.
    #[must_use]
    pub fn published(&self, now: u64) -> Vec<PublishedKey> {
        let present = now / self.length();
        let numbers = present.saturating_sub(PAST_KEYS)..=present + 1;
        let keys = numbers.filter_map(|number| {
            let public_key = self.of_number(number)?.public_key();
            let from = number * self.length();
            Some(PublishedKey { public_key, from, until: from + self.length() })
        });
        keys.collect()
    }

    fn length(&self) -> u64 {
        self.days * SECONDS_OF_DAY
    }

    fn of_number(&self, number: u64) -> Option<SigningKey> {
        let message = format!("seckill receipt key 1\n{number}");
        let secret = sign(&self.secret, message.as_bytes());
        SigningKey::of_secret(secret.as_ref().try_into().ok()?)
    }
}

//! The key by which a shop signs lists and promises.

use std::fmt;

use ring::signature::{Ed25519KeyPair, KeyPair};

/// The public part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Reads it from hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        hex::decode(text).ok()?.try_into().ok().map(Self)
    }
}

/// In hexadecimal digits, as the rules name it.
impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

/// An Ed25519 key. A message has one signature, whichever instance makes it.
pub struct ShopKey(Ed25519KeyPair);

/// Never the secret part.
impl fmt::Debug for ShopKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ShopKey({})", self.public())
    }
}

impl ShopKey {
    /// Reads the secret part: 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let secret: [u8; 32] = hex::decode(text).ok()?.try_into().ok()?;
        Ed25519KeyPair::from_seed_unchecked(&secret).ok().map(Self)
    }

    /// The public part.
    pub fn public(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(key)
    }

    /// The signature of a message.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }

    /// A text with its signature in a further line.
    pub(crate) fn signed(&self, text: &str) -> String {
        let signature = hex::encode(self.sign(text.as_bytes()));
        format!("{text}signature {signature}\n")
    }
}

/// The keys of a shop: that of new draws, and the one before it, for draws that are not over.
#[derive(Debug, Default)]
pub struct ShopKeys {
    current: Option<ShopKey>,
    previous: Option<ShopKey>,
}

impl ShopKeys {
    /// Reads the secret parts; an empty text is no key. `None` when a text is anything else.
    pub fn parse(current: &str, previous: &str) -> Option<Self> {
        let read = |text: &str| match text {
            "" => Some(None),
            text => ShopKey::parse(text).map(Some),
        };
        Some(Self { current: read(current)?, previous: read(previous)? })
    }

    /// The key of draws that are announced now.
    pub fn current(&self) -> Option<&ShopKey> {
        self.current.as_ref()
    }

    /// The key of a draw, by its public part in hexadecimal digits.
    pub fn find(&self, public: &str) -> Option<&ShopKey> {
        let wanted = PublicKey::parse(public)?;
        [&self.current, &self.previous].into_iter().flatten().find(|key| key.public() == wanted)
    }
}

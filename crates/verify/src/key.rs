//! Signatures of the shop: Ed25519, as RFC 8032 defines it, in the strictest reading.

use ring::signature::{ED25519, UnparsedPublicKey};

/// The sign of a point's x in the last byte of its encoding.
const SIGN: u8 = 0x80;
/// The least `y` that is no element of the field, 2^255 - 19.
const FIELD: &str = "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f";
/// The `y` of the eight points of small order. With such a key anybody can make signatures, so they say nothing.
const SMALL_ORDER: [&str; 5] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
];

/// A text with a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    pub(crate) text: String,
    pub(crate) signature: [u8; 64],
}

pub(crate) fn has_signed(key: &[u8; 32], signed: &Signed) -> bool {
    has_signed_bytes(key, signed.text.as_bytes(), &signed.signature)
}

pub(crate) fn has_signed_bytes(key: &[u8; 32], text: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(text, signature).is_ok()
}

/// Whether it is in its one form, and no point of small order.
pub(crate) fn is_key(key: &[u8; 32]) -> bool {
    let mut y = *key;
    y[31] &= !SIGN;
    let is_small = SMALL_ORDER.contains(&hex::encode(y).as_str());
    // The last byte counts most.
    y.reverse();
    let mut field = hex::decode(FIELD).unwrap_or_default();
    field.reverse();
    !is_small && y.as_slice() < field.as_slice()
}

//! Where the value of a round comes from: drand's public beacon, or a key of the shop.
//!
//! A round's value is the hash of its signature, and there is only one valid signature of a round, so nobody can choose
//! the value. The holder of the key knows it earlier than others. Of drand's key nobody has more than a part. A shop
//! that signs by itself can look at a value before it announces the round, so `local` proves nothing: it is for tests and
//! for trying it out.

use std::fmt;

use drand_verify::{G2PubkeyRfc, Pubkey};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::{Hash, hash};

/// The public key of the network `quicknet` of drand.
const QUICKNET_KEY: &str = "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d10645\
     10d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a";
/// The time of its first round, in seconds since 1970, and the pause between two rounds.
const QUICKNET_GENESIS: u64 = 1_692_803_367;
const QUICKNET_PERIOD: u64 = 3;

/// A beacon.
#[derive(Debug)]
pub enum Beacon {
    /// The network `quicknet` of drand (BLS signatures on G1, RFC 9380).
    Drand,
    /// Ed25519 signatures of the shop; a round is a second since 1970.
    Local(LocalBeacon),
}

/// A key that signs the rounds of a local beacon.
pub struct LocalBeacon(Ed25519KeyPair);

impl fmt::Debug for LocalBeacon {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LocalBeacon")
    }
}

impl LocalBeacon {
    /// The beacon of a secret; `None` never happens, because every 32 bytes are a key.
    #[must_use]
    pub fn of_secret(secret: &Hash) -> Option<Self> {
        Ed25519KeyPair::from_seed_unchecked(secret).ok().map(Self)
    }

    /// The signature of a round.
    #[must_use]
    pub fn sign(&self, round: u64) -> Vec<u8> {
        self.0.sign(&local_message(round)).as_ref().to_vec()
    }
}

impl Beacon {
    /// The beacon of a name. The key of a local one follows from the seed of the draw, so every instance has it, whatever
    /// its settings are.
    #[must_use]
    pub fn of(name: &str, seed: &Hash) -> Option<Self> {
        match name {
            "drand-quicknet" => Some(Self::Drand),
            "local" => {
                let secret = hash(&[b"seckill local beacon 1\n", seed]);
                LocalBeacon::of_secret(&secret).map(Self::Local)
            }
            _ => None,
        }
    }

    /// Its name in the rules of a draw.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Drand => "drand-quicknet",
            Self::Local(_) => "local",
        }
    }

    /// The key that its signatures are checked with, in hexadecimal digits.
    #[must_use]
    pub fn public_key(&self) -> String {
        match self {
            Self::Drand => QUICKNET_KEY.to_owned(),
            Self::Local(LocalBeacon(key)) => hex::encode(key.public_key()),
        }
    }

    /// The first round at or after `at`, in seconds since 1970.
    #[must_use]
    pub fn round_at(&self, at: u64) -> u64 {
        match self {
            Self::Drand => at.saturating_sub(QUICKNET_GENESIS).div_ceil(QUICKNET_PERIOD) + 1,
            Self::Local(_) => at,
        }
    }

    /// The time of a round, in seconds since 1970.
    #[must_use]
    pub fn time_of(&self, round: u64) -> u64 {
        match self {
            Self::Drand => {
                let after = round.saturating_sub(1).saturating_mul(QUICKNET_PERIOD);
                QUICKNET_GENESIS.saturating_add(after)
            }
            Self::Local(_) => round,
        }
    }

    /// The value of a round, if `signature` is its signature.
    #[must_use]
    pub fn value(&self, round: u64, signature: &[u8]) -> Option<Hash> {
        let is_valid = match self {
            Self::Drand => hex::decode(QUICKNET_KEY)
                .ok()
                .and_then(|key| G2PubkeyRfc::from_variable(&key).ok())
                .is_some_and(|key| key.verify(round, &[], signature).unwrap_or(false)),
            Self::Local(LocalBeacon(key)) => UnparsedPublicKey::new(&ED25519, key.public_key())
                .verify(&local_message(round), signature)
                .is_ok(),
        };
        is_valid.then(|| hash(&[signature]))
    }
}

fn local_message(round: u64) -> Vec<u8> {
    [b"seckill beacon 1\n".as_slice(), &round.to_be_bytes()].concat()
}

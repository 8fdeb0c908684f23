//! Where the signature of a round comes from: drand's public beacon, or the shop itself.
//!
//! There is only one valid signature of a round of drand, so nobody can choose it, and of drand's key nobody has more than
//! a part, so nobody knows it before its time. A shop that signs by itself knows it from the beginning: `local` is not a
//! proof. It is for tests and for trying it out.

use drand_verify::{G2PubkeyRfc, Pubkey};

use crate::{Hash, Micros, ShopKey};

/// The chain hash of the network `quicknet` of drand, and its public key.
const QUICKNET: &str = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971";
const QUICKNET_KEY: &str = "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d10645\
     10d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a";
/// The time of its first round, in seconds since 1970, and the time between two rounds.
const QUICKNET_GENESIS: u64 = 1_692_803_367;
const QUICKNET_PERIOD: u64 = 3;
/// What the message of a local signature begins with.
const LOCAL: &[u8] = b"seckill draw local 3\n";

/// A beacon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beacon {
    /// The network `quicknet` of drand (BLS signatures on G1, RFC 9380).
    Drand,
    /// Ed25519 signatures of the shop; a round is a second since 1970.
    Local,
}

impl Beacon {
    /// The word that the rules name it by: drand's chain hash, or `local`.
    pub fn chain(self) -> &'static str {
        match self {
            Self::Drand => QUICKNET,
            Self::Local => "local",
        }
    }

    /// The first round at or after `at`, in seconds since 1970.
    pub fn round_at(self, at: u64) -> u64 {
        match self {
            Self::Drand => at.saturating_sub(QUICKNET_GENESIS).div_ceil(QUICKNET_PERIOD) + 1,
            Self::Local => at,
        }
    }

    /// The time of a round.
    pub fn time_of(self, round: u64) -> Micros {
        let at = match self {
            Self::Drand => {
                let after = round.saturating_sub(1).saturating_mul(QUICKNET_PERIOD);
                QUICKNET_GENESIS.saturating_add(after)
            }
            Self::Local => round,
        };
        at.saturating_mul(1_000_000)
    }

    /// Whether `signature` is drand's of a round. Local signatures are made, and never read.
    pub fn is_signed_by_drand(round: u64, signature: &[u8]) -> bool {
        let key = hex::decode(QUICKNET_KEY).ok();
        let key = key.and_then(|key| G2PubkeyRfc::from_variable(&key).ok());
        key.is_some_and(|key| key.verify(round, &[], signature).unwrap_or(false))
    }

    /// The signature of the shop for the round that these rules name.
    pub fn sign_locally(key: &ShopKey, rules: &Hash) -> Vec<u8> {
        key.sign(&[LOCAL, rules].concat())
    }
}

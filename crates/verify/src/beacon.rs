//! Where the value of a round comes from.

use drand_verify::{G2PubkeyRfc, Pubkey};

use super::form::bytes;
use super::{Hash, key};

/// The hash of drand's network `quicknet`. Another hash is another network, whose key and times are not known here.
const QUICKNET: &str = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971";
const QUICKNET_KEY: &str = "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d10645\
     10d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a";
/// The time of its first round, and the pause between two rounds, in seconds.
const QUICKNET_GENESIS: u128 = 1_692_803_367;
const QUICKNET_PERIOD: u128 = 3;
const MICROS: u128 = 1_000_000;

/// A source of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    Quicknet,
    /// The shop itself.
    Local,
}

impl Chain {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            QUICKNET => Some(Self::Quicknet),
            "local" => Some(Self::Local),
            _ => None,
        }
    }

    pub(crate) fn is_public(self) -> bool {
        self == Self::Quicknet
    }

    /// Reads a signature by its length.
    pub(crate) fn signature(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Quicknet => bytes::<48>(text).map(Vec::from),
            Self::Local => bytes::<64>(text).map(Vec::from),
        }
    }

    /// The time of a round, in microseconds since 1970.
    pub(crate) fn time_of(self, round: u64) -> u128 {
        let round = u128::from(round);
        match self {
            Self::Quicknet => {
                (QUICKNET_GENESIS + round.saturating_sub(1) * QUICKNET_PERIOD) * MICROS
            }
            Self::Local => round * MICROS,
        }
    }

    /// Whether it is the signature of a round, in a draw with these rules of this shop.
    pub(crate) fn has_signed(
        self,
        round: u64,
        signature: &[u8],
        shop: &[u8; 32],
        rules: &Hash,
    ) -> bool {
        match self {
            Self::Quicknet => {
                let key = hex::decode(QUICKNET_KEY).ok();
                let key = key.and_then(|key| G2PubkeyRfc::from_variable(&key).ok());
                key.is_some_and(|key| key.verify(round, &[], signature).unwrap_or(false))
            }
            Self::Local => {
                let message = [b"seckill draw local 3\n".as_slice(), rules].concat();
                key::has_signed_bytes(shop, &message, signature)
            }
        }
    }
}

//! Rules, head and promise.

use std::io::BufRead;

use super::beacon::Chain;
use super::form::Lines;
use super::key::{self, Signed};
use super::{Hash, hash};

/// The most entries of one party, in any rules.
const PARTY_MAX: u64 = 4;

/// The first line of a promise.
pub(crate) const PROMISE_START: &str = "seckill draw promise 3";

/// What was published before the sale opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    text: String,
    pub(crate) shop: [u8; 32],
    pub(crate) item: u64,
    pub(crate) units: u64,
    /// The most entries of one party.
    pub(crate) party_max: u64,
    /// In microseconds since 1970.
    pub(crate) closes: u64,
    pub(crate) chain: Chain,
    pub(crate) round: u64,
}

impl Rules {
    pub(crate) fn hash(&self) -> Hash {
        hash(&[self.text.as_bytes()])
    }

    /// Whether the beacon has signed the round.
    pub(crate) fn has_value(&self, signature: &[u8]) -> bool {
        self.chain.has_signed(self.round, signature, &self.shop, &self.hash())
    }
}

/// What was published between close and round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) rules: Hash,
    pub(crate) item: u64,
    pub(crate) entries: u64,
    pub(crate) root: Hash,
    /// In microseconds since 1970.
    pub(crate) listed: u64,
    pub(crate) signed: Signed,
}

/// What a buyer was answered.
pub(crate) struct Promise {
    pub(crate) rules: Hash,
    pub(crate) item: u64,
    pub(crate) entry: [u8; 16],
    pub(crate) party: [u8; 16],
    /// In microseconds since 1970.
    pub(crate) entered: u64,
    pub(crate) signed: Signed,
}

pub(crate) fn rules(lines: &mut Lines<impl BufRead>) -> Result<Rules, String> {
    lines.take();
    lines.fixed("seckill draw rules 3")?;
    let shop = lines.bytes("shop")?;
    if !key::is_key(&shop) {
        return Err(lines.fault("no key that can be trusted"));
    }
    let item = positive(lines, "item")?;
    let units = lines.number("units")?;
    let party_max = positive(lines, "party")?;
    if party_max > PARTY_MAX {
        return Err(lines.fault(format!("at most {PARTY_MAX}")));
    }
    let closes = lines.number("closes")?;
    let chain = lines.value("chain")?;
    let chain = Chain::parse(&chain).ok_or_else(|| lines.fault("no chain that is known"))?;
    let round = positive(lines, "round")?;
    Ok(Rules { text: lines.take(), shop, item, units, party_max, closes, chain, round })
}

pub(crate) fn head(lines: &mut Lines<impl BufRead>) -> Result<Head, String> {
    lines.take();
    lines.fixed("seckill draw head 3")?;
    let rules = lines.bytes("rules")?;
    let item = lines.number("item")?;
    let entries = lines.number("entries")?;
    let root = lines.bytes("root")?;
    let listed = lines.number("listed")?;
    Ok(Head { rules, item, entries, root, listed, signed: signed(lines)? })
}

/// The rules, and the head if it is behind them.
pub(crate) fn announcement(text: &[u8]) -> Result<(Rules, Option<Head>), String> {
    let mut lines = Lines::new(text);
    let rules = rules(&mut lines)?;
    if lines.is_over()? {
        return Ok((rules, None));
    }
    let head = head(&mut lines)?;
    lines.end()?;
    Ok((rules, Some(head)))
}

pub(crate) fn promise(text: &[u8]) -> Result<Promise, String> {
    let mut lines = Lines::new(text);
    lines.fixed(PROMISE_START)?;
    let rules = lines.bytes("rules")?;
    let item = lines.number("item")?;
    let entry = lines.bytes("entry")?;
    let party = lines.bytes("party")?;
    let entered = lines.number("entered")?;
    let signed = signed(&mut lines)?;
    lines.end()?;
    Ok(Promise { rules, item, entry, party, entered, signed })
}

/// The signature of the lines so far.
fn signed(lines: &mut Lines<impl BufRead>) -> Result<Signed, String> {
    let text = lines.take();
    Ok(Signed { text, signature: lines.bytes("signature")? })
}

fn positive(lines: &mut Lines<impl BufRead>, name: &str) -> Result<u64, String> {
    match lines.number(name)? {
        0 => Err(lines.fault("it must be at least 1")),
        number => Ok(number),
    }
}

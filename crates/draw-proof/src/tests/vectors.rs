//! Writes the test vectors of the checkers, `crates/verify/vectors.json`: proofs, honest ones, planted frauds and texts of
//! other forms, with the faults that each checker must find.
//!
//! `SECKILL_WRITE_VECTORS=1 cargo test -p draw-proof` writes the file; without it the file is compared.

mod forms;
mod frauds;
mod lists;

use serde_json::{Value, json};

use super::*;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../verify/vectors.json");
const NOTE: &str = "Each character is a byte. A case has the name of a text; or the name, a place in it, the number of bytes that \
     are taken out there, and what is put in. exit: 0 proven, 1 a fault, 2 unreadable, 3 right, but the shop made the value.";
/// The secret key of the shop, and one of another shop.
const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";
const OTHER_KEY: &str = "0808080808080808080808080808080808080808080808080808080808080808";
/// The round of [`SIGNATURE`], and its time in seconds.
const ROUND: u64 = 657_413;
const ROUND_AT: u64 = 1_694_775_603;
const MICROS: u64 = 1_000_000;
const CLOSES: u64 = (ROUND_AT - 30) * MICROS;

/// A draw as a shop publishes it. A fraud changes a part; the rest is made to fit, as such a shop would do.
#[derive(Clone)]
struct Draft {
    /// The secret key that signs.
    key: &'static str,
    rules: String,
    item: u64,
    entered: Micros,
    listed: Micros,
    /// `None`: the shop makes it.
    beacon: Option<Vec<u8>>,
    entries: Vec<Entry>,
    /// What the head says, if it is not true.
    of_rules: Option<Hash>,
    count: Option<u64>,
    root: Option<Hash>,
}

impl Draft {
    fn new(beacon: Beacon) -> Self {
        let shop = ShopKey::parse(KEY).expect("a key").public();
        let is_local = beacon == Beacon::Local;
        let round = if is_local { ROUND_AT } else { ROUND };
        let rules = Rules { shop, item: 7, units: 2, party_max: 2, closes: CLOSES, beacon, round };
        Self {
            key: KEY,
            rules: rules.text().expect("rules"),
            item: 7,
            entered: CLOSES - 60 * MICROS,
            listed: CLOSES + 250_000,
            beacon: (!is_local).then(|| hex::decode(SIGNATURE).expect("hex")),
            entries: entries(9),
            of_rules: None,
            count: None,
            root: None,
        }
    }

    fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut draft = self.clone();
        change(&mut draft);
        draft
    }

    /// With another value in a line of the rules.
    fn with_rule(&self, name: &str, value: impl std::fmt::Display) -> Self {
        let line = |line: &str| match line.split_once(' ') {
            Some((first, _)) if first == name => format!("{name} {value}\n"),
            _ => format!("{line}\n"),
        };
        self.with(|draft| draft.rules = self.rules.lines().map(line).collect())
    }

    fn shop(&self) -> ShopKey {
        ShopKey::parse(self.key).expect("a key")
    }

    fn root(&self) -> Hash {
        self.root.unwrap_or_else(|| root(&self.entries))
    }

    fn beacon(&self) -> Vec<u8> {
        let local = || Beacon::sign_locally(&self.shop(), &rules_hash(&self.rules));
        self.beacon.clone().unwrap_or_else(local)
    }

    fn head(&self) -> String {
        let rules = self.of_rules.unwrap_or_else(|| rules_hash(&self.rules));
        let entries = self.count.unwrap_or(self.entries.len() as u64);
        let head = Head { rules, item: self.item, entries, root: self.root(), listed: self.listed };
        head.signed(&self.shop())
    }

    fn announcement(&self) -> String {
        self.rules.clone() + &self.head()
    }

    /// The proof, with the places of the shuffle.
    fn proof(&self) -> String {
        let rules = rules_hash(&self.rules);
        let places = shuffle(&self.beacon(), &self.root(), &rules, &self.entries);
        self.proof_with(&places)
    }

    /// The proof, with the entries in this order of places.
    fn proof_with(&self, places: &[Entry]) -> String {
        let place = |entry| 1 + places.iter().position(|placed| placed == entry).expect("a place");
        self.proof_of(self.entries.iter().map(|entry| (*entry, place(entry) as u32)))
    }

    /// The proof, with this list.
    fn proof_of(&self, list: impl Iterator<Item = (Entry, u32)>) -> String {
        let line = |listed: (Entry, u32)| {
            let id = hex::encode(listed.0.id);
            entry_line(&id, &hex::encode(listed.0.party), listed.1)
        };
        let beacon = beacon_line(&hex::encode(self.beacon()));
        self.announcement() + &beacon + &list.map(line).collect::<String>()
    }

    /// The promise of an entry in the list.
    fn promise(&self, at: usize) -> String {
        self.promise_of(self.entries[at])
    }

    fn promise_of(&self, entry: Entry) -> String {
        let rules = self.of_rules.unwrap_or_else(|| rules_hash(&self.rules));
        let id = hex::encode(entry.id);
        let party = hex::encode(entry.party);
        let entered = self.entered;
        let promise = Promise { rules, item: self.item, entry: &id, party: &party, entered };
        promise.signed(&self.shop())
    }
}

/// A number by chance.
fn id(n: u8) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&hash(&[&[n]])[..16]);
    id
}

fn alone(n: u8) -> Entry {
    Entry { id: id(n), party: id(n) }
}

/// Entries, of which the second and the fifth are friends.
fn entries(count: u8) -> Vec<Entry> {
    let mut entries: Vec<Entry> = (0..count).map(alone).collect();
    entries.sort_unstable();
    let friends = id(100);
    for at in [1, 4] {
        if let Some(entry) = entries.get_mut(at) {
            entry.party = friends;
        }
    }
    entries
}

/// A proof with what a buyer has kept, and the faults that are in it.
struct Case {
    name: String,
    proof: Vec<u8>,
    announced: Option<String>,
    promise: Option<String>,
    faults: Vec<&'static str>,
}

impl Case {
    fn new(name: &str, proof: impl Into<Vec<u8>>, faults: &[&'static str]) -> Self {
        let proof = proof.into();
        let faults = faults.to_vec();
        Self { name: name.to_owned(), proof, announced: None, promise: None, faults }
    }

    /// A text that is not of the one form.
    fn malformed(name: &str, proof: impl Into<Vec<u8>>) -> Self {
        Self::new(name, proof, &["unreadable"])
    }

    fn announced(self, text: impl Into<String>) -> Self {
        Self { announced: Some(text.into()), ..self }
    }

    fn promise(self, text: impl Into<String>) -> Self {
        Self { promise: Some(text.into()), ..self }
    }

    fn exit(&self) -> u8 {
        let local = b"\nchain local\n";
        let is_local = self.proof.windows(local.len()).any(|part| part == local);
        match self.faults[..] {
            ["unreadable"] => 2,
            [] if is_local => 3,
            [] => 0,
            _ => 1,
        }
    }

    fn json(&self, texts: &[(&str, String)]) -> Value {
        let mut case = json!({
            "name": self.name, "proof": change(texts, &self.proof), "faults": self.faults, "exit": self.exit(),
        });
        if let Some(announced) = &self.announced {
            case["announced"] = change(texts, announced.as_bytes());
        }
        if let Some(promise) = &self.promise {
            case["promise"] = change(texts, promise.as_bytes());
        }
        case
    }
}

/// A text as a change of the text that is most like it.
fn change(texts: &[(&str, String)], text: &[u8]) -> Value {
    let changes = texts.iter().map(|known| {
        let of = known.1.as_bytes();
        let start = of.iter().zip(text).take_while(|pair| pair.0 == pair.1).count();
        let of_end = of[start..].iter().rev();
        let end = of_end.zip(text[start..].iter().rev()).take_while(|pair| pair.0 == pair.1);
        let end = end.count();
        let put: String =
            text[start..text.len() - end].iter().map(|byte| char::from(*byte)).collect();
        (known.0, start, of.len() - end - start, put)
    });
    let best = changes.min_by_key(|change| change.3.len()).expect("a text");
    if best.2 == 0 && best.3.is_empty() {
        return json!(best.0);
    }
    json!([best.0, best.1, best.2, best.3])
}

fn text() -> String {
    let drand = Draft::new(Beacon::Drand);
    let local = Draft::new(Beacon::Local);
    let texts = [
        ("drand", drand.proof()),
        ("local", local.proof()),
        ("announcement of drand", drand.announcement()),
        ("announcement of local", local.announcement()),
        ("promise of drand", drand.promise(1)),
        ("promise of local", local.promise(1)),
    ];
    let mut cases = frauds::cases(&drand, &local);
    cases.extend(lists::cases(&drand, &local));
    cases.extend(forms::cases(&local));
    let names: std::collections::BTreeSet<&str> =
        cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
    let lines: Vec<String> = cases.iter().map(|case| case.json(&texts).to_string()).collect();
    let texts: serde_json::Map<String, Value> =
        texts.iter().map(|text| (text.0.to_owned(), json!(text.1))).collect();
    let note = json!(NOTE);
    let texts = Value::from(texts);
    let cases = lines.join(",\n");
    format!("{{\"note\":{note},\n\"texts\":{texts},\n\"cases\":[\n{cases}\n]}}\n")
}

#[test]
fn the_vectors_are_those_of_the_checkers() {
    let text = text();
    if std::env::var_os("SECKILL_WRITE_VECTORS").is_some() {
        std::fs::write(FILE, &text).expect("written");
    }
    let stored = std::fs::read_to_string(FILE).expect("the file of vectors");
    // As values: the order of the keys depends on a feature of serde_json that another crate may ask for.
    let read = |text| serde_json::from_str::<Value>(text).expect("JSON");
    let is_same = read(&stored) == read(&text);
    assert!(is_same, "SECKILL_WRITE_VECTORS=1 cargo test -p draw-proof writes {FILE}");
}

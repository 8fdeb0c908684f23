//! Writes the test vectors of the checkers, `crates/verify/vectors.json`: proofs, honest ones and planted frauds, with the
//! faults that each checker must find.
//!
//! `SECKILL_WRITE_VECTORS=1 cargo test -p draw-proof` writes the file; without it the file is compared.

use serde_json::{Value, json};

use crate::{Beacon, Entry, Hash, Rules, commitment, hash, root, shuffle};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../verify/vectors.json");
const SEED: Hash = [7; 32];
/// A round of `quicknet`, and its signature.
const ROUND: u64 = 657_413;
const SIGNATURE: &str = "b713718a38ae728dfd477991af2822e08d2f305e47718cef9f7848ce4050e7be41076862b98fad56e91a6b85b89cd97b";

/// What a shop does; a fraud changes some of it.
struct Shop {
    /// The seed that is announced, and the one that is used.
    seeds: [Hash; 2],
    beacon: Beacon,
    round: u64,
    signature: Vec<u8>,
    listed_at: &'static str,
    entries: Vec<Entry>,
    party_max: u8,
}

impl Shop {
    fn local() -> Self {
        let Some(Beacon::Local(key)) = Beacon::of("local", &SEED) else { panic!("a beacon") };
        let signature = key.sign(1_800_000_000);
        Self { beacon: Beacon::Local(key), round: 1_800_000_000, signature, ..Self::drand() }
    }

    fn drand() -> Self {
        let signature = hex::decode(SIGNATURE).expect("hex");
        let listed_at = "2023-09-15T00:00:00.25Z";
        let (seeds, entries) = ([SEED; 2], entries(9));
        let (beacon, round) = (Beacon::Drand, ROUND);
        Self { seeds, beacon, round, signature, listed_at, entries, party_max: 3 }
    }

    /// The published draw and list.
    fn proof(&self) -> Value {
        let [announced, used] = self.seeds;
        let closes_at = "2023-09-14T23:59:00Z";
        let (beacon, round, party_max) = (&self.beacon, self.round, self.party_max);
        let rules = Rules { item: 7, closes_at, beacon, round, party_max }.text();
        let (root, value) = (root(&self.entries), hash(&[&self.signature]));
        let places = shuffle(&used, &value, &root, &self.entries);
        let lines = self.entries.iter().map(|entry| {
            let place = 1 + places.iter().position(|placed| placed == entry).expect("a place");
            let mut line = json!({ "entry": hex::encode(entry.id), "place": place });
            if entry.party != entry.id {
                line["party"] = json!(hex::encode(entry.party));
            }
            line
        });
        json!({
            "draw": {
                "rules": rules, "commitment": hex::encode(commitment(&announced, &rules)),
                "listed_at": self.listed_at, "entries": self.entries.len(),
                "root": hex::encode(root), "seed": hex::encode(used),
                "beacon_signature": hex::encode(&self.signature), "beacon_value": hex::encode(value),
            },
            "entries": lines.collect::<Vec<_>>(),
        })
    }
}

/// Entries, of which the last three are friends.
fn entries(count: u8) -> Vec<Entry> {
    let id = |n: u8| {
        let mut id = [0; 16];
        id.copy_from_slice(&hash(&[&[n]])[..16]);
        id
    };
    let entry = |n| Entry { id: id(n), party: id(if n + 3 >= count { count } else { n }) };
    let mut entries: Vec<Entry> = (0..count).map(entry).collect();
    entries.sort_unstable();
    entries
}

fn case(name: &str, mut proof: Value, faults: &[&str]) -> Value {
    proof["name"] = json!(name);
    proof["faults"] = json!(faults);
    proof
}

fn cases() -> Vec<Value> {
    let honest = Shop::local().proof();
    let closed = json!({
        "rules": honest["draw"]["rules"], "commitment": honest["draw"]["commitment"],
        "root": honest["draw"]["root"], "entries": honest["draw"]["entries"],
    });
    let before = json!({ "rules": closed["rules"], "commitment": closed["commitment"] });
    let first = honest["entries"][0]["entry"].clone();
    let known = |mut case: Value, announced: &Value, entry: &Value| {
        (case["announced"], case["entry"]) = (announced.clone(), entry.clone());
        case
    };
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut proof = honest.clone();
        change(&mut proof);
        proof
    };
    let none = Value::Null;
    let mut fewer = Shop::local();
    fewer.entries.remove(0);
    let more = Shop { entries: entries(10), ..Shop::local() };
    let left_out =
        changed(&|proof| drop(proof["entries"].as_array_mut().map(|list| list.remove(0))));
    let added = changed(&|proof| {
        let line = json!({ "entry": "00".repeat(16), "place": 1 });
        proof["entries"].as_array_mut().expect("a list").push(line);
    });
    let exchanged = changed(&|proof| {
        let place = proof["entries"][0]["place"].clone();
        proof["entries"][0]["place"] = proof["entries"][1]["place"].clone();
        proof["entries"][1]["place"] = place;
    });
    let twice =
        changed(&|proof| proof["entries"][1]["entry"] = proof["entries"][0]["entry"].clone());
    let unfinished = changed(&|proof| proof["draw"]["seed"] = Value::Null);
    let other_value = changed(&|proof| proof["draw"]["beacon_value"] = json!("11".repeat(32)));
    let other_seed = Shop { seeds: [SEED, [8; 32]], ..Shop::local() };
    let Beacon::Local(key) = Shop::local().beacon else { panic!("a beacon") };
    let other_round = Shop { signature: key.sign(1_800_000_001), ..Shop::local() };
    let other_rules =
        Shop { round: 1_800_000_060, signature: key.sign(1_800_000_060), ..Shop::local() };
    let late = Shop { listed_at: "2027-01-15T08:00:00Z", ..Shop::local() };
    let alone = |count| entries(count).into_iter().map(|Entry { id, .. }| Entry { id, party: id });
    let alone = Shop { entries: alone(9).collect(), party_max: 1, ..Shop::local() };
    let joined = changed(&|proof| {
        let party = proof["entries"][2]["party"].clone();
        proof["entries"][0]["party"] = party;
    });
    let foreign = changed(&|proof| proof["draw"]["rules"] = json!("a text\n"));
    vec![
        known(
            case("honest, with what was published before the sale", honest.clone(), &[]),
            &before,
            &first,
        ),
        known(
            case("honest, with what was published at the close", honest.clone(), &[]),
            &closed,
            &first,
        ),
        case("honest, with drand", Shop::drand().proof(), &[]),
        case("nobody entered", Shop { entries: Vec::new(), ..Shop::local() }.proof(), &[]),
        case("one entry", Shop { entries: entries(1), ..Shop::local() }.proof(), &[]),
        case("honest, and each entry is alone", alone.proof(), &[]),
        case(
            "more friends together than announced",
            Shop { party_max: 2, ..Shop::local() }.proof(),
            &["parties"],
        ),
        case(
            "friends where each entry is to be alone",
            Shop { party_max: 1, ..Shop::local() }.proof(),
            &["parties"],
        ),
        case("an entry put among friends", joined, &["entries", "parties", "places"]),
        case("an entry left out of the list", left_out, &["entries", "places"]),
        known(
            case("an entry left out, and all else made to fit", fewer.proof(), &["announcement"]),
            &closed,
            &none,
        ),
        known(case("my entry left out", fewer.proof(), &["missing_entry"]), &before, &first),
        case("an entry added to the list", added, &["entries", "places"]),
        known(
            case(
                "an entry added after the round, and all else made to fit",
                more.proof(),
                &["announcement"],
            ),
            &closed,
            &none,
        ),
        case("an entry that is there twice", twice, &["entries", "places"]),
        case("two places exchanged", exchanged, &["places"]),
        case("a seed that was not announced", other_seed.proof(), &["seed"]),
        case("a value of another round", other_round.proof(), &["beacon"]),
        case("a value without a signature", other_value, &["beacon", "places"]),
        known(
            case("another round than announced", other_rules.proof(), &["announcement"]),
            &before,
            &none,
        ),
        case("a list that was published after the round", late.proof(), &["late"]),
        case("a draw that is not over", unfinished, &["unreadable"]),
        case("rules that say nothing", foreign, &["unreadable"]),
    ]
}

#[test]
fn the_vectors_are_those_of_the_checkers() {
    let lines: Vec<String> = cases().iter().map(ToString::to_string).collect();
    let text = format!("[\n{}\n]\n", lines.join(",\n"));
    if std::env::var_os("SECKILL_WRITE_VECTORS").is_some() {
        std::fs::write(FILE, &text).expect("written");
    }
    let stored = std::fs::read_to_string(FILE).expect("the file of vectors");
    // As values: the order of the keys depends on a feature of serde_json that another crate may ask for.
    let read = |text| serde_json::from_str::<Value>(text).expect("JSON");
    let is_same = read(&stored) == read(&text);
    assert!(is_same, "SECKILL_WRITE_VECTORS=1 cargo test -p draw-proof writes {FILE}");
}

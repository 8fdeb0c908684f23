use std::cell::Cell;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

thread_local! {
    static HASHED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Counts the hashed bytes: a measure of work that is the same on a busy machine.
pub(crate) fn count_bytes(bytes: usize) {
    HASHED_BYTES.set(HASHED_BYTES.get() + bytes);
}

/// The file of planted frauds. A character stands for a byte.
///
/// `draw-proof` wrote and signed the honest texts; the secret key of the shop is the byte 7, 32 times. A new fraud is a new
/// line. `git log --diff-filter=D -- crates/draw-proof/src/tests/vectors` finds the program that made the file.
#[derive(Deserialize)]
struct Vectors {
    texts: BTreeMap<String, String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    proof: Change,
    announced: Option<Change>,
    promise: Option<Change>,
    faults: Vec<String>,
    /// As `seckill verify draw` ends.
    exit: u8,
}

/// The name of a text; or with it a place, the number of characters that are taken out there, and the new ones.
#[derive(Deserialize)]
#[serde(untagged)]
enum Change {
    Nothing(String),
    One(String, usize, usize, String),
}

impl Vectors {
    fn read() -> Self {
        serde_json::from_str(include_str!("../vectors.json")).expect("vectors")
    }

    fn bytes_of(&self, change: &Change) -> Vec<u8> {
        let bytes = |text: &str| -> Vec<u8> {
            text.chars().map(|one| u8::try_from(one).expect("a byte")).collect()
        };
        match change {
            Change::Nothing(name) => bytes(&self.texts[name]),
            Change::One(name, at, remove, put) => {
                let mut text = bytes(&self.texts[name]);
                text.splice(*at..at + remove, bytes(put));
                text
            }
        }
    }

    fn text_of(&self, change: Option<&Change>) -> Option<String> {
        change.map(|change| String::from_utf8(self.bytes_of(change)).expect("a text"))
    }

    /// The faults of a case, and how a check of it ends.
    fn check(&self, case: &Case) -> (Vec<String>, u8) {
        let announced = self.text_of(case.announced.as_ref());
        let promise = self.text_of(case.promise.as_ref());
        let known = Known { announced: announced.as_deref(), promise: promise.as_deref() };
        let unreadable = || (vec![Fault::Unreadable.name().to_owned()], 2);
        let Ok(proof) = read(self.bytes_of(&case.proof).as_slice()) else { return unreadable() };
        let faults: Vec<Fault> = check(&proof, known).into_iter().map(|found| found.0).collect();
        let exit = match faults[..] {
            [Fault::Unreadable] => 2,
            [] if proof.is_public() => 0,
            [] => 3,
            _ => 1,
        };
        (faults.into_iter().map(|fault| fault.name().to_owned()).collect(), exit)
    }
}

/// Each is made of an honest draw by one change; the page's checker is given the same ones.
#[test]
fn every_fraud_is_found() {
    let vectors = Vectors::read();
    let frauds = vectors.cases.iter().filter(|case| case.exit == 1).count();
    let malformed = vectors.cases.iter().filter(|case| case.exit == 2).count();
    assert!(frauds >= 120 && malformed >= 200, "{frauds} frauds, {malformed} malformed texts");
    for case in &vectors.cases {
        let found = vectors.check(case);
        assert_eq!(found, (case.faults.clone(), case.exit), "{}", case.name);
    }
}

/// The example of `docs/draw.md` is right, to the byte.
#[test]
fn the_example_of_the_page_is_a_proof() {
    let page = example();
    let proof = read(page.0.as_bytes()).expect("a proof");
    assert_eq!(check(&proof, Known::default()), []);
    let signature = page.1.split("ends with `").nth(1).expect("the promise");
    let signature = signature.split('`').next().expect("its end");
    let rules = hex::encode(proof.rules.hash());
    let first = &proof.entries[0];
    let id = &first.id;
    let party = &first.party;
    let promise = format!(
        "seckill draw promise 3\nrules {rules}\nitem 7\nentry {id}\nparty {party}\n\
         entered 1694775513000000\n{signature}\n"
    );
    let known = Known { promise: Some(&promise), ..Known::default() };
    assert_eq!(check(&proof, known), []);
    assert_eq!(proof.facts(known).entry.as_ref(), Some(first));
}

/// The proof in `docs/draw.md`, and what stands behind it.
fn example() -> (String, String) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/draw.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let after = page.split("**An example**").nth(1).expect("an example");
    let block = after.split("```text\n").nth(1).expect("a block");
    let parts = block.split_once("```").expect("its end");
    (parts.0.to_owned(), parts.1.to_owned())
}

/// A proof of `count` entries whose ids and parties are made by `id` and `party`; its list has faults.
fn long_proof(count: u128, id: fn(u128) -> u128, party: fn(u128) -> u128) -> String {
    let start: String = example().0.split_inclusive('\n').take(16).collect();
    let line = |n| format!("{:032x} {:032x} {n}\n", id(n), party(n));
    let lines: Vec<String> = (1..=count).map(line).collect();
    start + &lines.concat()
}

/// Work grows with the number of entries, and not with its square: also for absurd lists.
#[test]
fn work_is_in_proportion_to_the_list() {
    type Maker = fn(u128) -> u128;
    let shapes: [(Maker, Maker); 3] = [(|n| n, |n| n), (|n| n, |_| 1), (|_| 1, |_| 1)];
    for (id, party) in shapes {
        let work = |count| {
            let text = long_proof(count, id, party);
            HASHED_BYTES.set(0);
            let proof = read(text.as_bytes()).expect("a proof");
            assert!(!check(&proof, Known::default()).is_empty());
            HASHED_BYTES.get()
        };
        let little = work(1_000);
        let much = work(10_000);
        assert!(much <= 11 * little, "{little} bytes are hashed, then {much}");
    }
}

/// A reader holds no more than a line, whatever stands in the file.
#[test]
fn a_line_without_an_end_is_left_early() {
    /// Counts what is read of a text without line feeds.
    struct Endless(usize);
    impl std::io::Read for Endless {
        fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            bytes.fill(b's');
            Ok(bytes.len())
        }
    }
    let mut text = std::io::BufReader::new(Endless(0));
    assert!(read(&mut text).is_err());
    assert!(text.get_ref().0 < 100_000, "{} bytes", text.get_ref().0);
}

/// With such a key anybody can sign, so a promise would bind nobody.
#[test]
fn keys_that_sign_anything_are_none() {
    for key in [
        // The neutral element, the same with a sign, and the same in a form that is not its own: y = 1 + p.
        "01".to_owned() + &"00".repeat(31),
        "01".to_owned() + &"00".repeat(30) + "80",
        "ee".to_owned() + &"ff".repeat(30) + "7f",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa".to_owned(),
    ] {
        let key: [u8; 32] = hex::decode(key).expect("hex").try_into().expect("a key");
        assert!(!key::is_key(&key), "{key:?}");
    }
}

//! Frauds with rules, head, value, announcement and promise.

use super::*;

/// The order of the group of Ed25519, from its least byte on.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];
/// Signatures of the shop's key with another nonce, over the local round and over the head.
const LOCAL_AGAIN: &str = "7767a3242dc9b58bbc68488c1265cc6cc5f26c6f3c88a5d55e901b0734dca572cd94436544675215e69d5c07b29056ee60b6f178c9becf130a1bf57a316be80a";
const HEAD_AGAIN: &str = "6b12d4d055bd943206034b402ebe601bf715a3bbe772cdac6ab65b94d9a07bf637e8d84dd93c0d47240c90d3aee8907fb6c43c348f94e8718bb077139d39ef0e";
/// Such a signature of the head whose nonce is zero, so that the signature's point is the neutral one; and where that
/// point has a part of order 2, so that only a check with the cofactor takes it.
const HEAD_NEUTRAL: &str = "0100000000000000000000000000000000000000000000000000000000000000449db235f662c924045b7e721247eee43abc44356285cb59683c07eafb564a08";
const LOCAL_NEUTRAL: &str = "0100000000000000000000000000000000000000000000000000000000000000084ed7db9b95529eb40210a3dd65ce3e7af71f7b4b3ca2b5de4d029e0f916704";
const HEAD_ORDER_2: &str = "feaf9d07b868cc52786305312c376563c622b0386a10d105e3c1501b28d65f7e1b7b10ac00c7b03bdaa666631bef9ca77714d5324c2ecaf5fcdad081dfa64709";
const LOCAL_ORDER_2: &str = "feaf9d07b868cc52786305312c376563c622b0386a10d105e3c1501b28d65f7e163c414c00579529e658b5e0b1f6411649830d2f817421e715008a42ec80070a";
/// The shop's key and a point of order 2, with signatures that hold; and one that holds only with the cofactor.
const MIXED_KEY: &str = "03b5939c1d63adf5410aaf84ecd13a066ab889514141846dbde11596ebb92dd3";
const MIXED_LOCAL: &str = "463997a82970b3fdd90b763557db637e22a33cb45e5b145666e5f92c38bfe4cfd653e7352a4247e8554637fa91556f570982cbd87bd84b4786d945a5cc1d8b00";
const MIXED_HEAD: &str = "ef4f62f8479733ad879cfaced3c89a9c39dd4fc795ef2efa1c3eafe4d729a0810180b0d563afc9455ceeee7741db87e32012d36cd15491f7836e1b66a4f6a708";
const MIXED_HEAD_ODD: &str = "1337036ac32d8f30d4589c3c1c595812ce0fff40e37c6f5a97ab213f318290ad9c7006df5b43a10423f930dd21d614ab57472b48eaceed6987aab13d5fe7b00e";
/// Signatures of other rounds of `quicknet`.
const ROUND_123: &str = "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92";
const ROUND_1000: &str = "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39";
/// The signature of the round and a point outside the group of signatures: the pairing does not see the difference.
const GROUND: &str = "87f804c3f36e34a1998e27974cc619bb84376a15010713609878da25b185ff4f713e5ac5c8652ba166b019bdf6fd75dc";
const NEGATED: &str = "9713718a38ae728dfd477991af2822e08d2f305e47718cef9f7848ce4050e7be41076862b98fad56e91a6b85b89cd97b";
const TORSION: &str = "accd40884cb1834492efbd0149a414535890f30477f9535103082ff438ca13d7f7e36e2f1d15dd8ca30397f12170831a";
/// A noon in 2026, in microseconds.
const YEAR_2026: u64 = 1_795_953_600 * MICROS;

pub(super) fn cases(drand: &Draft, local: &Draft) -> Vec<Case> {
    let mut cases = honest(drand, local);
    cases.extend(of_times(drand, local));
    cases.extend(of_heads(local));
    cases.extend(of_values(drand, local));
    cases.extend(of_keys(drand));
    cases.extend(of_mixed_keys(local));
    cases.extend(of_announcements(local));
    cases.extend(of_promises(local));
    cases.extend(of_other_lists(local));
    for (name, draft) in [("drand", drand), ("local", local)] {
        cases.extend(of_entered(name, draft));
    }
    cases
}

fn honest(drand: &Draft, local: &Draft) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, draft) in [("drand", drand), ("local", local)] {
        let case = |what: &str| Case::new(&format!("honest, {name}{what}"), draft.proof(), &[]);
        cases.push(case(""));
        cases.push(case(", with the rules").announced(&draft.rules));
        cases.push(case(", with the head").announced(draft.announcement()));
        cases.push(case(", with the promise of a friend").promise(draft.promise(1)));
        cases.push(
            case(", with head and promise")
                .announced(draft.announcement())
                .promise(draft.promise(0)),
        );
    }
    for count in [0, 1, 2, 3, 8] {
        let draft = local.with(|draft| draft.entries = entries(count));
        cases.push(Case::new(&format!("honest, entries: {count}"), draft.proof(), &[]));
    }
    let four = local.with(|draft| {
        (0..4).for_each(|at| draft.entries[at].party = id(100));
        draft.entries[4].party = draft.entries[4].id;
    });
    let four = four.with_rule("party", 4);
    cases.push(Case::new("honest, four friends", four.proof(), &[]));
    let left = local.with(|draft| draft.entries[4].party = draft.entries[4].id);
    cases.push(Case::new("honest, a friend who is alone by now", left.proof(), &[]));
    let edge = local.with_rule("closes", ROUND_AT * MICROS - 1);
    let edge = edge.with(|draft| draft.listed = ROUND_AT * MICROS - 1);
    cases.push(Case::new("honest, the close a microsecond before the round", edge.proof(), &[]));
    let none = local.with_rule("units", 0);
    cases.push(Case::new("honest, no units", none.proof(), &[]));
    cases
}

fn of_times(drand: &Draft, local: &Draft) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, draft) in [("drand", drand), ("local", local)] {
        let listed = |what: &str, listed: u64| {
            let draft = draft.with(|draft| draft.listed = listed);
            Case::new(&format!("{name}: the list is signed {what}"), draft.proof(), &["late"])
        };
        cases.push(listed("in the moment of the round", ROUND_AT * MICROS));
        cases.push(listed("a day after the round", (ROUND_AT + 86_400) * MICROS));
        cases.push(listed("a microsecond before the close", CLOSES - 1));
        cases.push(listed("in 1970", 0));
        cases.push(listed("in the last moment that a number has", 9_007_199_254_740_991));
        let closed = |what: &str, closes: u64, listed: u64| {
            let draft = draft.with_rule("closes", closes).with(|draft| draft.listed = listed);
            Case::new(&format!("{name}: {what}"), draft.proof(), &["round", "late"])
        };
        let round = "a round of 2023 for a close in 2026";
        cases.push(closed(
            &format!("{round}, the list behind the close"),
            YEAR_2026,
            YEAR_2026 + 1,
        ));
        cases.push(closed(&format!("{round}, the list before the round"), YEAR_2026, CLOSES));
        cases.push(closed(
            "the close in the moment of the round",
            ROUND_AT * MICROS,
            ROUND_AT * MICROS,
        ));
        let last = 9_007_199_254_740_991;
        cases.push(closed("the close in the last moment that a number has", last, last));
    }
    let far = drand.with_rule("round", 9_007_199_254_740_991_u64);
    cases.push(Case::new("drand: a round that no number of a time has", far.proof(), &["beacon"]));
    let first = drand.with_rule("round", 1).with(|draft| draft.listed = CLOSES);
    cases.push(Case::new("drand: the first round", first.proof(), &["round", "late", "beacon"]));
    let next = drand.with_rule("round", ROUND + 1);
    cases.push(Case::new("drand: the round after the value's", next.proof(), &["beacon"]));
    let far = local.with_rule("round", 9_007_199_254_740_991_u64);
    cases.push(Case::new("local: a round that no number of a time has", far.proof(), &[]));
    cases
}

fn of_heads(local: &Draft) -> Vec<Case> {
    let proof = local.proof();
    let mut cases = Vec::new();
    let mut remade = |name: &str, faults: &[&'static str], change: fn(&mut Draft)| {
        cases.push(Case::new(&format!("head: {name}"), local.with(change).proof(), faults));
    };
    remade("of other rules", &["head"], |draft| draft.of_rules = Some([0; 32]));
    remade("of another item", &["head"], |draft| draft.item = 8);
    remade("of item zero", &["head"], |draft| draft.item = 0);
    remade("a number too large", &["entries"], |draft| draft.count = Some(10));
    remade("a number too small", &["entries"], |draft| draft.count = Some(8));
    remade("a number of zero", &["entries"], |draft| draft.count = Some(0));
    remade("a root of zeros", &["entries"], |draft| draft.root = Some([0; 32]));
    remade("the root of nothing", &["entries"], |draft| draft.root = Some(root(&[])));
    let other = local.with(|draft| draft.key = OTHER_KEY);
    cases.push(Case::new("head and value of another key", other.proof(), &["head", "beacon"]));
    // The signature stays, and the text is another.
    let mut edited = |name: &str, line: usize, value: &str, faults: &[&'static str]| {
        let mut lines: Vec<String> = proof.lines().map(str::to_owned).collect();
        let word = lines[line].split(' ').next().expect("a word").to_owned();
        lines[line] = format!("{word} {value}");
        let text = lines.join("\n") + "\n";
        cases.push(Case::new(&format!("head: {name}, not signed again"), text, faults));
    };
    let zeros = "00".repeat(32);
    edited("other rules", 9, &zeros, &["head"]);
    edited("another number", 11, "10", &["head", "entries"]);
    edited("another root", 12, &zeros, &["head", "entries", "places"]);
    edited("another time", 13, "1694775573250001", &["head"]);
    edited("a time after the round", 13, "1794775573250001", &["head", "late"]);
    edited("the signature of the value", 14, &hex::encode(local.beacon()), &["head"]);
    edited("a signature of zeros", 14, &"00".repeat(64), &["head"]);
    edited("a signature of ones", 14, &"ff".repeat(64), &["head"]);
    let signature = proof.lines().nth(14).expect("a line")[10..].to_owned();
    edited("a signature with another number for the same", 14, &plus_order(&signature), &["head"]);
    edited(
        "a signature with the sign of its point changed",
        14,
        &flipped(&signature, 31, 0x80),
        &["head"],
    );
    edited("a signature with one bit changed", 14, &flipped(&signature, 63, 1), &["head"]);
    edited("another item, before the rules", 10, "8", &["head"]);
    let of_promise = local.promise(0);
    let of_promise = &of_promise.lines().last().expect("a line")[10..];
    edited("the signature of a promise", 14, of_promise, &["head"]);
    edited("a signature made again with another nonce", 14, HEAD_AGAIN, &[]);
    edited("a signature with the neutral point", 14, HEAD_NEUTRAL, &[]);
    edited("a signature that holds only with the cofactor", 14, HEAD_ORDER_2, &["head"]);
    cases
}

/// A signature with the order added to its number, which a careless check takes for valid.
fn plus_order(signature: &str) -> String {
    let mut bytes = hex::decode(signature).expect("hex");
    let mut carry = 0;
    for (at, order) in ORDER.iter().enumerate() {
        let sum = u16::from(bytes[32 + at]) + u16::from(*order) + carry;
        bytes[32 + at] = (sum & 0xff) as u8;
        carry = sum >> 8;
    }
    hex::encode(bytes)
}

fn flipped(digits: &str, at: usize, bits: u8) -> String {
    let mut bytes = hex::decode(digits).expect("hex");
    bytes[at] ^= bits;
    hex::encode(bytes)
}

fn of_values(drand: &Draft, local: &Draft) -> Vec<Case> {
    let mut cases = Vec::new();
    let infinity = format!("c0{}", "00".repeat(47));
    for (what, signature) in [
        ("of round 123", ROUND_123.to_owned()),
        ("of round 1000", ROUND_1000.to_owned()),
        ("and a point outside the group", GROUND.to_owned()),
        ("with the other sign", NEGATED.to_owned()),
        ("that is a point outside the group", TORSION.to_owned()),
        ("that is the neutral point", infinity),
        ("that says it is not compressed", flipped(SIGNATURE, 0, 0x80)),
        ("that says it is the neutral point", flipped(SIGNATURE, 0, 0x40)),
        ("with one bit changed", flipped(SIGNATURE, 47, 1)),
        ("of zeros", "00".repeat(48)),
        ("of ones", "ff".repeat(48)),
        ("of letters", "aa".repeat(48)),
        ("of a number that is too large for a point", format!("9f{}", "ff".repeat(47))),
    ] {
        let value = hex::decode(&signature).expect("hex");
        let remade = drand.with(|draft| draft.beacon = Some(value));
        cases.push(Case::new(&format!("drand: a signature {what}"), remade.proof(), &["beacon"]));
    }
    let kept = drand.proof().replace(SIGNATURE, ROUND_1000);
    cases.push(Case::new(
        "drand: the value of another round, the places stay",
        kept,
        &["beacon", "places"],
    ));
    let short = drand.proof().replace(SIGNATURE, &hex::encode(local.beacon()));
    cases.push(Case::malformed("drand: a signature of the shop", short));
    let long = local.proof().replace(&hex::encode(local.beacon()), SIGNATURE);
    cases.push(Case::malformed("local: a signature of drand", long));
    let made = hex::encode(local.beacon());
    for (what, signature, faults) in [
        ("made again with another nonce", LOCAL_AGAIN.to_owned(), &[][..]),
        ("with the neutral point", LOCAL_NEUTRAL.to_owned(), &[]),
        ("that holds only with the cofactor", LOCAL_ORDER_2.to_owned(), &["beacon"]),
        ("with another number for the same", plus_order(&made), &["beacon"]),
        ("with one bit changed", flipped(&made, 40, 1), &["beacon"]),
        ("of other rules", hex::encode(Beacon::sign_locally(&local.shop(), &[0; 32])), &["beacon"]),
        (
            "of another key",
            hex::encode(local.with(|draft| draft.key = OTHER_KEY).beacon()),
            &["beacon"],
        ),
        ("of a head", local.head().lines().last().expect("a line")[10..].to_owned(), &["beacon"]),
        ("of zeros", "00".repeat(64), &["beacon"]),
    ] {
        let value = hex::decode(&signature).expect("hex");
        let remade = local.with(|draft| draft.beacon = Some(value));
        cases.push(Case::new(&format!("local: a signature {what}"), remade.proof(), faults));
    }
    cases.push(chosen(local));
    cases
}

/// A shop that knows its own value tries lists until its entry is the first: 221 are more than enough.
fn chosen(local: &Draft) -> Case {
    let own = local.entries[0];
    let mut tried = (0..221).map(|n| {
        local.with(|draft| {
            draft.entries.push(alone(30 + n));
            draft.entries.sort_unstable();
        })
    });
    let is_chosen = |draft: &Draft| {
        let rules = rules_hash(&draft.rules);
        shuffle(&draft.beacon(), &draft.root(), &rules, &draft.entries)[0] == own
    };
    let chosen = tried.find(is_chosen).expect("a list that the shop likes");
    Case::new("local: one of 221 lists that were tried", chosen.proof(), &[])
}

/// Keys with which anybody can sign, so that a promise binds nobody; and keys that are none.
fn of_keys(drand: &Draft) -> Vec<Case> {
    let end = |start: &str, end: &str| format!("{start}{}{end}", "ff".repeat(30));
    let mut cases = Vec::new();
    for (what, key) in [
        ("the neutral point", format!("01{}", "00".repeat(31))),
        ("the neutral point with a sign", format!("01{}80", "00".repeat(30))),
        ("a point of order 2", end("ec", "7f")),
        ("a point of order 2 with a sign", end("ec", "ff")),
        ("a point of order 4", "00".repeat(32)),
        ("a point of order 4 with a sign", format!("{}80", "00".repeat(31))),
        (
            "a point of order 8",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05".to_owned(),
        ),
        (
            "a second point of order 8",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85".to_owned(),
        ),
        (
            "a third point of order 8",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a".to_owned(),
        ),
        (
            "a fourth point of order 8",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa".to_owned(),
        ),
        ("zero in another form", end("ed", "7f")),
        ("one in another form", end("ee", "7f")),
        ("another number that is too large", end("f5", "ff")),
        ("the largest number", "ff".repeat(32)),
    ] {
        let draft = drand.with_rule("shop", &key);
        cases.push(Case::malformed(&format!("the shop's key is {what}"), draft.proof()));
    }
    let none = format!("02{}", "00".repeat(31));
    let other = ShopKey::parse(OTHER_KEY).expect("a key").public().to_string();
    for (what, key) in [("no point", none), ("another than that of the signatures", other)] {
        let draft = drand.with_rule("shop", &key);
        let case =
            Case::new(&format!("the shop's key is {what}"), draft.proof(), &["head", "promise"]);
        cases.push(case.promise(draft.promise(0)));
    }
    cases
}

/// Keys that are no point of prime order, and none of small order.
fn of_mixed_keys(local: &Draft) -> Vec<Case> {
    let value = hex::decode(MIXED_LOCAL).expect("hex");
    let mixed = local.with_rule("shop", MIXED_KEY).with(|draft| draft.beacon = Some(value));
    let honest = mixed.proof();
    let signature = honest.lines().nth(14).expect("a line").to_owned();
    let case = |what: &str, put: &str, faults: &[&'static str]| {
        let proof = honest.replace(&signature, &format!("signature {put}"));
        Case::new(&format!("the shop's key is of mixed order: {what}"), proof, faults)
    };
    vec![
        case("its signature holds", MIXED_HEAD, &[]),
        case("its signature holds only with the cofactor", MIXED_HEAD_ODD, &["head"]),
    ]
}

fn of_announcements(local: &Draft) -> Vec<Case> {
    let proof = local.proof();
    let mut cases = Vec::new();
    let mut other = |what: &str, announced: String| {
        let name = format!("announcement: {what}");
        cases.push(Case::new(&name, proof.clone(), &["announcement"]).announced(announced));
    };
    other("more units", local.with_rule("units", 3).rules);
    other("another item", local.with_rule("item", 8).rules);
    other("another close", local.with_rule("closes", CLOSES - 1).rules);
    other("another round", local.with_rule("round", ROUND_AT + 1).rules);
    other("larger parties", local.with_rule("party", 3).rules);
    other("a public beacon", Draft::new(Beacon::Drand).rules);
    let key = ShopKey::parse(OTHER_KEY).expect("a key").public();
    other("another key", local.with_rule("shop", key).rules);
    other("another number of entries", local.with(|draft| draft.count = Some(8)).announcement());
    other("another root", local.with(|draft| draft.root = Some([1; 32])).announcement());
    other("another time of the list", local.with(|draft| draft.listed += 1).announcement());
    other(
        "a list without the last entry",
        local.with(|draft| draft.entries.truncate(8)).announcement(),
    );
    let honest = local.announcement();
    let signature = honest.lines().last().expect("a line")[10..].to_owned();
    other("a signature made again", honest.replace(&signature, HEAD_AGAIN));
    other("a signature that is none", honest.replace(&signature, &"00".repeat(64)));
    // The list was made again after the round, with all that belongs to it.
    for (what, change) in [
        ("left out", without_fourth as fn(&mut Draft)),
        ("added", |draft| {
            draft.entries.push(alone(40));
            draft.entries.sort_unstable();
        }),
        ("exchanged", |draft| {
            draft.entries[3] = alone(41);
            draft.entries.sort_unstable();
        }),
        ("moved to friends", |draft| draft.entries[3].party = id(101)),
    ] {
        let remade = local.with(change);
        let name = format!("an entry is {what}, and root, signature and places are made again");
        cases.push(Case::new(&name, remade.proof(), &["announcement"]).announced(&honest));
    }
    cases
}

fn without_fourth(draft: &mut Draft) {
    draft.entries.remove(3);
}

fn of_promises(local: &Draft) -> Vec<Case> {
    let proof = local.proof();
    let mine = local.entries[3];
    let mut cases = Vec::new();
    for (what, change, faults) in [
        ("left out", without_fourth as fn(&mut Draft), &["missing_entry"]),
        ("left out with all others", |draft| draft.entries.clear(), &["missing_entry"]),
        ("drawn with strangers", |draft| draft.entries[3].party = id(102), &["party"]),
    ] {
        let remade = local.with(change);
        let name = format!("my entry is {what}, and all else is made to fit");
        cases.push(Case::new(&name, remade.proof(), faults).promise(local.promise_of(mine)));
        let name = format!("my entry is {what}, and the head was saved");
        let both = [&["announcement"][..], faults].concat();
        let case = Case::new(&name, remade.proof(), &both).announced(local.announcement());
        cases.push(case.promise(local.promise_of(mine)));
    }
    let apart = local.with(|draft| draft.entries[1].party = draft.entries[1].id);
    let name = "I am drawn without my friend, and all else is made to fit";
    cases.push(Case::new(name, apart.proof(), &["party"]).promise(local.promise(1)));
    let mut promised = |what: &str, promise: String| {
        let name = format!("promise: {what}");
        cases.push(Case::new(&name, proof.clone(), &["promise"]).promise(promise));
    };
    promised("of another key", local.with(|draft| draft.key = OTHER_KEY).promise(1));
    promised("of another item", local.with(|draft| draft.item = 8).promise(1));
    promised("of other rules", local.with(|draft| draft.of_rules = Some([0; 32])).promise(1));
    promised("of a draw with drand", Draft::new(Beacon::Drand).promise(1));
    promised("of other rules for an entry that is not there", {
        local.with(|draft| draft.of_rules = Some([0; 32])).promise_of(alone(50))
    });
    let honest = local.promise(1);
    let lines: Vec<&str> = honest.lines().collect();
    let signature = &lines[6][10..];
    promised(
        "another entry, not signed again",
        honest.replace(lines[3], &format!("entry {}", hex::encode(mine.id))),
    );
    promised(
        "another party, not signed again",
        honest.replace(lines[4], &format!("party {}", "00".repeat(16))),
    );
    promised(
        "another time, not signed again",
        honest.replace(lines[5], "entered 1694775513000001"),
    );
    promised("a signature of zeros", honest.replace(signature, &"00".repeat(64)));
    promised(
        "a signature with one bit changed",
        honest.replace(signature, &flipped(signature, 5, 4)),
    );
    promised(
        "a signature with another number for the same",
        honest.replace(signature, &plus_order(signature)),
    );
    let head = local.head();
    let of_head = &head.lines().last().expect("a line")[10..];
    promised("the signature of the head", honest.replace(signature, of_head));
    let stranger = local.promise_of(alone(51));
    let name = "promise: of an entry that was never listed";
    cases.push(Case::new(name, proof, &["missing_entry"]).promise(stranger));
    cases
}

/// Promises of an entry that is twice in the list, and of a draw whose head is of other rules.
fn of_other_lists(local: &Draft) -> Vec<Case> {
    let mut cases = Vec::new();
    let again = Entry { party: id(103), ..local.entries[3] };
    let twice = local.with(|draft| draft.entries.insert(4, again)).proof();
    for (which, entry) in [("first", local.entries[3]), ("second", again)] {
        let name = format!("promise: of the {which} of two parties that an entry is in");
        let case = Case::new(&name, twice.clone(), &["entries", "party"]);
        cases.push(case.promise(local.promise_of(entry)));
    }
    let other = local.with(|draft| draft.of_rules = Some([2; 32]));
    let name = "promise: honest, and the head is of other rules";
    cases.push(Case::new(name, other.proof(), &["head"]).promise(local.promise(1)));
    let name = "promise: of other rules, as the head";
    cases.push(Case::new(name, other.proof(), &["head", "promise"]).promise(other.promise(1)));
    cases
}

/// The time in a promise, beside the close and the time of the list.
fn of_entered(name: &str, draft: &Draft) -> Vec<Case> {
    let listed = draft.listed;
    let mut cases = Vec::new();
    for (what, entered, faults) in [
        ("a moment after the close, before the list", CLOSES + 1, &[][..]),
        ("in the moment of the list", listed, &[]),
        ("a microsecond after the list", listed + 1, &["entered"]),
        ("in 2026, the list in 2023", YEAR_2026, &["entered"]),
    ] {
        let promise = draft.with(|draft| draft.entered = entered).promise(1);
        let case = Case::new(&format!("{name}: entered {what}"), draft.proof(), faults);
        cases.push(case.promise(promise));
    }
    let late = draft.with(|draft| draft.entered = listed + 1);
    let mine = draft.entries[3];
    let without = draft.with(without_fourth).proof();
    let missing = Case::new(
        &format!("{name}: entered after the list, and not in it"),
        without,
        &["missing_entry", "entered"],
    );
    cases.push(missing.promise(late.promise_of(mine)));
    let other = draft.with(|draft| draft.entries[3].party = id(102)).proof();
    let moved = Case::new(
        &format!("{name}: entered after the list, and with another party"),
        other,
        &["party", "entered"],
    );
    cases.push(moved.promise(late.promise_of(mine)));
    let forged = late.with(|draft| draft.key = OTHER_KEY).promise(1);
    let name = format!("{name}: entered after the list, by another key");
    cases.push(Case::new(&name, draft.proof(), &["promise"]).promise(forged));
    cases
}

use ring::signature::{ED25519, UnparsedPublicKey};

use super::*;

/// The signature of the round 657,413 of `quicknet`.
const SIGNATURE: &str = "b713718a38ae728dfd477991af2822e08d2f305e47718cef9f7848ce4050e7be41076862b98fad56e91a6b85b89cd97b";

/// RFC 6962's tree of seven leaves, as its section 2.1.3 draws it.
#[test]
fn a_tree_is_split_at_the_largest_power_of_two() {
    let entries: Vec<Entry> = (0..7).map(|n| Entry { id: [n; 16], party: [n; 16] }).collect();
    let leaf = |n: u8| hash(&[&[0], &[n; 16], &[n; 16]]);
    let node = |left: Hash, right: Hash| hash(&[&[1], &left, &right]);
    let left = node(node(leaf(0), leaf(1)), node(leaf(2), leaf(3)));
    let expected = node(left, node(node(leaf(4), leaf(5)), leaf(6)));
    assert_eq!(root(&entries), expected);
    assert_eq!(hex::encode(root(&[])), hex::encode(hash(&[])));
}

#[test]
fn friends_get_neighbouring_places() {
    let entry = |n: u8| Entry { id: [n; 16], party: [if n < 4 { 9 } else { n }; 16] };
    let entries: Vec<Entry> = (0..40).filter(|n| *n != 9).map(entry).collect();
    let root = root(&entries);
    let places = shuffle(&[1; 48], &root, &[2; 32], &entries);
    let first = places.iter().position(|entry| entry.party == [9; 16]).expect("the friends");
    let ids: Vec<u8> = places[first..first + 4].iter().map(|entry| entry.id[0]).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    let mut sorted = places.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, entries, "an entry is lost or twice");
    // Another signature, list or rules: another order.
    for other in [
        shuffle(&[3; 48], &root, &[2; 32], &entries),
        shuffle(&[1; 48], &[3; 32], &[2; 32], &entries),
        shuffle(&[1; 48], &root, &[3; 32], &entries),
    ] {
        assert_ne!(other, places);
    }
}

#[test]
fn a_round_of_drand_is_checked() {
    let signature = hex::decode(SIGNATURE).expect("hex");
    assert!(Beacon::is_signed_by_drand(657_413, &signature));
    assert!(!Beacon::is_signed_by_drand(657_414, &signature), "another round");
    assert!(!Beacon::is_signed_by_drand(657_413, &signature[1..]));
    let at = Beacon::Drand.time_of(657_413) / 1_000_000;
    assert_eq!(Beacon::Drand.round_at(at), 657_413);
    assert_eq!(Beacon::Drand.round_at(at + 1), 657_414);
}

/// A key as the example of docs/draw.md has it.
fn key() -> ShopKey {
    ShopKey::parse(&"07".repeat(32)).expect("a key")
}

fn rules() -> Rules {
    let shop = key().public();
    let closes = 1_694_775_573_000_000;
    let beacon = Beacon::Drand;
    Rules { shop, item: 7, units: 2, party_max: 2, closes, beacon, round: 657_413 }
}

#[test]
fn the_shop_signs_the_value_of_a_local_round() {
    let rules = rules_hash(&rules().text().expect("rules"));
    let signature = Beacon::sign_locally(&key(), &rules);
    assert_eq!(signature, Beacon::sign_locally(&key(), &rules), "there is one");
    let is_signed = |shop: PublicKey, rules: &Hash| {
        let message = [b"seckill draw local 3\n".as_slice(), rules].concat();
        UnparsedPublicKey::new(&ED25519, shop.0).verify(&message, &signature).is_ok()
    };
    assert!(is_signed(key().public(), &rules));
    assert!(!is_signed(key().public(), &[0; 32]), "other rules");
    let other = ShopKey::parse(&"08".repeat(32)).expect("a key");
    assert!(!is_signed(other.public(), &rules));
}

/// The close of the item is announced, so nobody may know the value before it.
#[test]
fn rules_whose_round_is_not_after_the_close_have_no_text() {
    let rules = rules();
    let time = Beacon::Drand.time_of(rules.round);
    assert!(Rules { closes: time - 1, ..rules }.text().is_some());
    for wrong in [
        Rules { closes: time, ..rules },
        Rules { closes: time + 1, ..rules },
        Rules { party_max: 0, ..rules },
        Rules { party_max: 5, ..rules },
        Rules { item: 0, ..rules },
        Rules { units: 1 << 53, ..rules },
        Rules { round: u64::MAX, ..rules },
        Rules { beacon: Beacon::Local, round: 0, closes: 0, ..rules },
    ] {
        assert_eq!(wrong.text(), None, "{wrong:?}");
    }
}

/// The page shows what is computed here, so that others can write a checker.
#[test]
fn the_example_of_the_page_is_what_is_computed() {
    let page = include_str!("../../../docs/draw.md");
    let text = rules().text().expect("rules");
    let hashed = rules_hash(&text);
    let id = |n: u8| -> [u8; 16] { hash(&[&[n]])[..16].try_into().expect("16 bytes") };
    let friends: [u8; 16] = hash(&[b"friends"])[..16].try_into().expect("16 bytes");
    let mut entries: Vec<Entry> = (0..4).map(|n| Entry { id: id(n), party: id(n) }).collect();
    entries.sort_unstable();
    (entries[0].party, entries[2].party) = (friends, friends);
    let root = root(&entries);
    let head = Head { rules: hashed, item: 7, entries: 4, root, listed: 1_694_775_573_250_000 };
    let places = shuffle(&hex::decode(SIGNATURE).expect("hex"), &root, &hashed, &entries);
    let mut proof = text + &head.signed(&key()) + &beacon_line(SIGNATURE);
    for entry in &entries {
        let place = 1 + places.iter().position(|placed| placed == entry).expect("a place") as u32;
        proof += &entry_line(&hex::encode(entry.id), &hex::encode(entry.party), place);
    }
    assert!(page.contains(&proof), "docs/draw.md does not have {proof}");
    let entry = hex::encode(entries[0].id);
    let party = hex::encode(friends);
    let entered = 1_694_775_513_000_000;
    let promise = Promise { rules: hashed, item: 7, entry: &entry, party: &party, entered };
    let promise = promise.signed(&key());
    let signature = promise.lines().last().expect("a line");
    assert!(page.contains(signature), "docs/draw.md does not have {promise}");
}

#[test]
fn a_draw_finds_its_key_after_the_shop_has_a_new_one() {
    let old = "07".repeat(32);
    let new = "08".repeat(32);
    let keys = ShopKeys::parse(&new, &old).expect("keys");
    let public = |key: &ShopKey| key.public().to_string();
    assert_eq!(keys.current().map(public), ShopKey::parse(&new).as_ref().map(public));
    for text in [&old, &new] {
        let public = ShopKey::parse(text).expect("a key").public().to_string();
        assert_eq!(keys.find(&public).expect("found").public().to_string(), public);
    }
    let third = ShopKey::parse(&"09".repeat(32)).expect("a key").public().to_string();
    assert!(keys.find(&third).is_none());
    assert!(!format!("{keys:?}").contains(&old), "a secret shows");
    assert!(ShopKeys::parse("", "").is_some_and(|keys| keys.current().is_none()));
    for wrong in ["07", "x", &format!("{old}0")] {
        assert!(ShopKeys::parse(wrong, "").is_none() && ShopKeys::parse("", wrong).is_none());
    }
}

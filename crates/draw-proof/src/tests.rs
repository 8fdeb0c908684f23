mod vectors;

use super::*;

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
    let places = shuffle(&[1; 32], &[2; 32], &root(&entries), &entries);
    let first = places.iter().position(|entry| entry.party == [9; 16]).expect("the friends");
    let ids: Vec<u8> = places[first..first + 4].iter().map(|entry| entry.id[0]).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    let mut sorted = places.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, entries, "an entry is lost or twice");
    // Another seed, value or list: another order.
    for other in [shuffle(&[3; 32], &[2; 32], &root(&entries), &entries), {
        shuffle(&[1; 32], &[3; 32], &root(&entries), &entries)
    }] {
        assert_ne!(other, places);
    }
}

#[test]
fn a_round_of_drand_is_checked() {
    let signature = "b713718a38ae728dfd477991af2822e08d2f305e47718cef9f7848ce4050e7be41076862b98fad56e91a6b85b89cd97b";
    let signature = hex::decode(signature).expect("hex");
    let value = Beacon::Drand.value(657_413, &signature).map(hex::encode);
    let published = "fc1873a13f3545aeade8401532ef5519920652eee6b0d2b19ca12643b87b3587";
    assert_eq!(value.as_deref(), Some(published));
    assert_eq!(Beacon::Drand.value(657_414, &signature), None, "another round");
    let at = Beacon::Drand.time_of(657_413);
    assert_eq!(Beacon::Drand.round_at(at), 657_413);
    assert_eq!(Beacon::Drand.round_at(at + 1), 657_414);
}

#[test]
fn a_round_of_a_local_beacon_is_checked() {
    let beacon = |secret| Beacon::Local(LocalBeacon::of_secret(&secret).expect("a key"));
    let Beacon::Local(key) = beacon([7; 32]) else { unreachable!() };
    let signature = key.sign(12);
    assert!(beacon([7; 32]).value(12, &signature).is_some());
    assert!(beacon([7; 32]).value(13, &signature).is_none());
    assert!(beacon([8; 32]).value(12, &signature).is_none(), "another key");
}

/// `cargo test --release -p draw-proof a_million -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn a_million_entries() {
    let entry = |n: u128| Entry { id: n.to_be_bytes(), party: n.to_be_bytes() };
    let entries: Vec<Entry> = (0..1_000_000).map(entry).collect();
    let started = std::time::Instant::now();
    let root = root(&entries);
    let hashed = started.elapsed();
    let places = shuffle(&[1; 32], &[2; 32], &root, &entries);
    println!("root {hashed:?}, with places {:?}, first {:?}", started.elapsed(), places[0].id);
}

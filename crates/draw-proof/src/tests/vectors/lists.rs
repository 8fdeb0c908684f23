//! Frauds with entries, their root, parties and places.

use super::*;

/// An entry with its place.
type Listed = (Entry, u32);

pub(super) fn cases(drand: &Draft, local: &Draft) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, draft) in [("drand", drand), ("local", local)] {
        cases.extend(edited(name, draft));
    }
    cases.extend(of_roots(local));
    cases.extend(of_parties(local));
    cases.extend(of_honest_parties(local));
    cases.extend(of_places(local));
    cases
}

/// The entries with their places, in the order of the list.
fn listed(draft: &Draft) -> Vec<Listed> {
    let rules = rules_hash(&draft.rules);
    let places = shuffle(&draft.beacon(), &draft.root(), &rules, &draft.entries);
    let place =
        |entry: &Entry| 1 + places.iter().position(|placed| placed == entry).expect("a place");
    draft.entries.iter().map(|entry| (*entry, place(entry) as u32)).collect()
}

/// Puts the list right by places, so that they run from 1 without a gap.
fn renumbered(mut list: Vec<Listed>) -> Vec<Listed> {
    let mut places: Vec<u32> = list.iter().map(|listed| listed.1).collect();
    places.sort_unstable();
    for listed in &mut list {
        listed.1 = 1 + places.binary_search(&listed.1).expect("a place") as u32;
    }
    list
}

/// The head stays as it is, and the list is another.
fn edited(name: &str, draft: &Draft) -> Vec<Case> {
    let honest = listed(draft);
    let mut cases = Vec::new();
    let mut edit = |what: &str, faults: &[&'static str], list: Vec<Listed>| {
        let proof = draft.proof_of(list.into_iter());
        cases.push(Case::new(&format!("{name}: {what}"), proof, faults));
    };
    let without = |at: usize| {
        let mut list = honest.clone();
        list.remove(at);
        list
    };
    for at in [0, 3, 8] {
        let faults: &[&'static str] = match honest[at].1 {
            9 => &["entries"],
            _ => &["entries", "places"],
        };
        edit(&format!("entry {at} is left out"), faults, without(at));
        let name = format!("entry {at} is left out, and the places behind it are moved up");
        edit(&name, &["entries"], renumbered(without(at)));
    }
    edit("all entries are left out", &["entries"], Vec::new());
    let added = [honest.clone(), vec![(Entry { id: [0xff; 16], party: [0xff; 16] }, 10)]].concat();
    let key =
        hash(&[b"seckill draw key 3\n", &draft.beacon(), &draft.root(), &rules_hash(&draft.rules)]);
    let is_last = honest.iter().all(|one| hash(&[&key, &one.0.party]) < hash(&[&key, &[0xff; 16]]));
    let faults: &[&'static str] = if is_last { &["entries"] } else { &["entries", "places"] };
    edit("an entry is added at the last place", faults, added);
    let mut swapped = honest.clone();
    swapped.swap(2, 3);
    edit("two lines are exchanged", &["entries"], swapped);
    let mut reversed = honest.clone();
    reversed.reverse();
    edit("the lines run backwards", &["entries"], reversed);
    let mut by_place = honest.clone();
    by_place.sort_by_key(|listed| listed.1);
    edit("the lines are in the order of places", &["entries"], by_place);
    cases.extend(exchanged(name, draft, &honest));
    cases
}

/// Exchanges the places of two entries.
fn swap(list: &mut [Listed], one: usize, other: usize) {
    let place = list[one].1;
    list[one].1 = list[other].1;
    list[other].1 = place;
}

/// Only the places are others.
fn exchanged(name: &str, draft: &Draft, honest: &[Listed]) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut edit = |what: &str, change: fn(&mut [Listed])| {
        let mut list = honest.to_vec();
        change(&mut list);
        let proof = draft.proof_of(list.into_iter());
        cases.push(Case::new(&format!("{name}: {what}"), proof, &["places"]));
    };
    edit("two places are exchanged", |list| swap(list, 0, 2));
    edit("the places of friends are exchanged", |list| swap(list, 1, 4));
    edit("the first place goes to another", |list| {
        let first = list.iter().position(|listed| listed.1 == 1).expect("a first place");
        let last = list.iter().position(|listed| listed.1 == 9).expect("a last place");
        swap(list, first, last);
    });
    edit("two entries have one place", |list| list[0].1 = list[2].1);
    edit("places begin with zero", |list| list.iter_mut().for_each(|listed| listed.1 -= 1));
    edit("places begin with two", |list| list.iter_mut().for_each(|listed| listed.1 += 1));
    edit("places run backwards", |list| {
        list.iter_mut().for_each(|listed| listed.1 = 10 - listed.1);
    });
    edit("all places are one", |list| list.iter_mut().for_each(|listed| listed.1 = 1));
    edit("a place is very large", |list| list[3].1 = u32::MAX);
    edit("places follow the ids", |list| {
        (1..).zip(list.iter_mut()).for_each(|placed| placed.1.1 = placed.0);
    });
    cases
}

/// The root is signed, and is that of another tree or list.
fn of_roots(local: &Draft) -> Vec<Case> {
    let mut cases = Vec::new();
    let leaves = |entries: &[Entry]| -> Vec<Hash> {
        entries.iter().map(|entry| hash(&[&[0], &entry.id, &entry.party])).collect()
    };
    let honest = &local.entries;
    let mut backwards = honest.clone();
    backwards.reverse();
    let bare: Vec<Hash> = honest.iter().map(|entry| hash(&[&entry.id, &entry.party])).collect();
    let ids: Vec<Hash> = honest.iter().map(|entry| hash(&[&[0], &entry.id])).collect();
    for (what, root) in [
        ("the list backwards", tree(leaves(&backwards), false, &[1])),
        ("the list without its last entry", root(&honest[..8])),
        ("a tree whose leaves have no mark", tree(bare, false, &[1])),
        ("a tree whose nodes have no mark", tree(leaves(honest), false, &[])),
        ("a tree that takes a last leaf twice", tree(leaves(honest), true, &[1])),
        ("a tree without the parties", tree(ids, false, &[1])),
        (
            "the hash of the whole list",
            hash(&[&honest.iter().flat_map(|entry| entry.id).collect::<Vec<u8>>()]),
        ),
    ] {
        let remade = local.with(|draft| draft.root = Some(root));
        cases.push(Case::new(
            &format!("the signed root is of {what}"),
            remade.proof(),
            &["entries"],
        ));
    }
    let mut resigned = |what: &str, faults: &[&'static str], change: fn(&mut Draft)| {
        cases.push(Case::new(what, local.with(change).proof(), faults));
    };
    resigned("a signed list backwards", &["entries"], |draft| draft.entries.reverse());
    resigned("a signed list with two lines exchanged", &["entries"], |draft| {
        draft.entries.swap(5, 6);
    });
    resigned("a signed list with an entry twice", &["entries", "parties", "places"], |draft| {
        draft.entries.insert(3, draft.entries[3]);
    });
    resigned("a signed list with an entry twice, in two parties", &["entries"], |draft| {
        let again = Entry { party: id(103), ..draft.entries[3] };
        draft.entries.insert(4, again);
    });
    let twice = local.with(|draft| draft.entries.insert(3, draft.entries[3]));
    let mut list = listed(&twice);
    list[4].1 += 1;
    let name = "a signed list with an entry twice, its places in the order of the list";
    cases.push(Case::new(name, twice.proof_of(list.iter().copied()), &["entries", "parties"]));
    swap(&mut list, 3, 4);
    let name = "a signed list with an entry twice, its places exchanged";
    let faults = &["entries", "parties", "places"];
    cases.push(Case::new(name, twice.proof_of(list.into_iter()), faults));
    cases
}

/// The hash of a tree by levels; a last one without a neighbour goes up, or is taken twice.
fn tree(mut level: Vec<Hash>, is_doubled: bool, mark: &[u8]) -> Hash {
    while level.len() > 1 {
        let pairs = level.chunks(2).map(|pair| match pair {
            [left, right] => hash(&[mark, left, right]),
            alone if is_doubled => hash(&[mark, &alone[0], &alone[0]]),
            alone => alone[0],
        });
        level = pairs.collect();
    }
    level[0]
}

fn of_parties(local: &Draft) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut remade = |what: &str, change: fn(&mut Draft)| {
        let name = format!("parties: {what}");
        cases.push(Case::new(&name, local.with(change).proof(), &["parties"]));
    };
    remade("a third friend", |draft| draft.entries[7].party = draft.entries[1].party);
    remade("all entries are friends", |draft| {
        draft.entries.iter_mut().for_each(|entry| entry.party = id(104));
    });
    remade("an entry is put to one that is alone", |draft| {
        draft.entries[3].party = draft.entries[5].id;
    });
    remade("friends whose key is the id of the first", |draft| {
        let first = draft.entries[1].id;
        for at in [1, 4] {
            draft.entries[at].party = first;
        }
    });
    remade("friends whose key is the id of the second", |draft| {
        let second = draft.entries[4].id;
        for at in [1, 4] {
            draft.entries[at].party = second;
        }
    });
    let strict = local.with_rule("party", 1);
    cases.push(Case::new(
        "parties: friends where each is to be alone",
        strict.proof(),
        &["parties"],
    ));
    let four = local.with_rule("party", 4);
    let five = four.with(|draft| (0..5).for_each(|at| draft.entries[at].party = id(105)));
    cases.push(Case::new("parties: five friends where four may be", five.proof(), &["parties"]));
    let more = local.proof().replacen("party 2\n", "party 3\n", 1);
    cases.push(Case::new(
        "parties: the rules allow more, not signed again",
        more,
        &["head", "beacon", "places"],
    ));
    let joined = local.proof();
    let ninth = joined.lines().last().expect("a line");
    let friends = hex::encode(id(100));
    let changed = format!("{} {friends} {}", &ninth[..32], &ninth[66..]);
    let joined = joined.replace(ninth, &changed);
    cases.push(Case::new(
        "parties: an entry is put to friends in the list alone",
        joined,
        &["entries", "parties", "places"],
    ));
    cases
}

/// A party's key may be any number, also the id of an entry that is in another party.
fn of_honest_parties(local: &Draft) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut taken = |what: &str, change: fn(&mut Draft)| {
        let name = format!("parties: {what}");
        cases.push(Case::new(&name, local.with(change).proof(), &[]));
    };
    taken("one alone whose key is the id of another entry", |draft| {
        draft.entries[3].party = draft.entries[5].id;
        draft.entries[5].party = draft.entries[3].id;
    });
    taken("friends whose key is the id of another entry", |draft| {
        draft.entries[1].party = draft.entries[0].id;
        draft.entries[4].party = draft.entries[0].id;
        draft.entries[0].party = id(106);
    });
    cases
}

/// All is signed, and the places are of another way to shuffle.
fn of_places(local: &Draft) -> Vec<Case> {
    let rules = rules_hash(&local.rules);
    let beacon = local.beacon();
    let list_root = local.root();
    let value = hash(&[&beacon]);
    let key = hash(&[b"seckill draw key 3\n", &beacon, &list_root, &rules]);
    let honest = shuffle(&beacon, &list_root, &rules, &local.entries);
    let by = |key: &dyn Fn(&Entry) -> Vec<u8>| {
        let mut entries = local.entries.clone();
        entries.sort_by_cached_key(|entry| (key(entry), entry.id));
        entries
    };
    let with = |key: Hash| by(&move |entry| hash(&[&key, &entry.party]).to_vec());
    let mut cases = Vec::new();
    for (what, places) in [
        (
            "the label of the format before",
            with(hash(&[b"seckill draw key 1\n", &beacon, &list_root, &rules])),
        ),
        ("no label", with(hash(&[&beacon, &list_root, &rules]))),
        (
            "the hash of the signature",
            with(hash(&[b"seckill draw key 3\n", &value, &list_root, &rules])),
        ),
        ("no root", with(hash(&[b"seckill draw key 3\n", &beacon, &rules]))),
        ("no rules", with(hash(&[b"seckill draw key 3\n", &beacon, &list_root]))),
        (
            "root and rules exchanged",
            with(hash(&[b"seckill draw key 3\n", &beacon, &rules, &list_root])),
        ),
        (
            "a seed of the shop",
            with(hash(&[b"seckill draw key 3\n", &[7; 32], &beacon, &list_root, &rules])),
        ),
        ("the key alone", by(&|entry| entry.party.to_vec())),
        ("each entry by itself", by(&|entry| hash(&[&key, &entry.id]).to_vec())),
        (
            "the last byte first",
            by(&|entry| hash(&[&key, &entry.party]).into_iter().rev().collect()),
        ),
        ("the largest first", {
            let mut places = honest.clone();
            places.reverse();
            places
        }),
        ("all moved by one", {
            let mut places = honest.clone();
            places.rotate_left(1);
            places
        }),
    ] {
        assert_ne!(places, honest, "{what} gives the same places");
        let name = format!("places by another way: {what}");
        cases.push(Case::new(&name, local.proof_with(&places), &["places"]));
    }
    cases
}

use crate::{Frontier, Hash, Salt, Sums, hash, leaf, path};

/// The entry for a line.
pub(crate) fn entry_of(salt: &Salt, line: &str) -> Option<String> {
    let mut entry = Vec::new();
    salt.append_entry(line, "", &mut entry)?;
    String::from_utf8(entry).ok()
}

/// The root as RFC 9162 defines it.
fn by_definition(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => hash(&[]),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            hash(&[&[1], &by_definition(left), &by_definition(right)])
        }
    }
}

/// Verifies an inclusion proof as RFC 9162, section 2.1.3.2, does.
fn leads_to(leaf: Hash, (mut index, size): (u64, u64), path: &[Hash]) -> Hash {
    let (mut found, mut last) = (leaf, size - 1);
    for next in path {
        if index & 1 == 1 || index == last {
            found = hash(&[&[1], next, &found]);
            while index & 1 == 0 && index != 0 {
                (index, last) = (index >> 1, last >> 1);
            }
        } else {
            found = hash(&[&[1], &found, next]);
        }
        (index, last) = (index >> 1, last >> 1);
    }
    found
}

#[test]
fn roots_and_paths_are_those_of_the_definition() {
    let leaves: Vec<Hash> = (0..36).map(|n: u32| leaf(n.to_string().as_bytes())).collect();
    for first in 0..=36 {
        let mut before = Frontier::default();
        leaves[..first].iter().for_each(|leaf| before.push(*leaf));
        assert_eq!(before.root(), by_definition(&leaves[..first]));
        let read = Frontier::of(before.size(), &before.nodes()).expect("a frontier");
        assert_eq!(read, before);
        for end in first..=36 {
            let root = by_definition(&leaves[..end]);
            for index in 0..end - first {
                let found = path(&before, &leaves[first..end], index).expect("a path");
                let at = ((first + index) as u64, end as u64);
                assert_eq!(leads_to(leaves[first + index], at, &found), root);
            }
            assert_eq!(path(&before, &leaves[first..end], end - first), None);
        }
    }
    assert_eq!(Frontier::of(3, &"00".repeat(32)), None);
}

#[test]
fn entries_show_neither_orders_nor_buyers() {
    let salt = Salt::of_secret(&[1; 32]);
    let line = "sold 1764583200000000 0190b3f0-0000-7000-8000-000000000001 42 2";
    let entry = entry_of(&salt, line).expect("an entry");
    assert!(!entry.contains("0190b3f0") && !entry.contains(" 42 "), "{entry}");
    let mut sums = Sums::default();
    sums.add(&entry);
    sums.add(&entry.replace("sold", "returned"));
    sums.add(&entry_of(&salt, "refused 1 00 42 1 sold_out").expect("an entry"));
    assert_eq!(sums, Sums { refusals: 1, ..Sums::default() });
    assert_eq!(entry_of(&salt, "sold 1 2"), None);
    let other = Salt::of_secret(&[2; 32]);
    assert_ne!(entry_of(&other, line), Some(entry));
}

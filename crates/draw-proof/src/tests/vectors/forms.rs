//! Texts of another form than the one: each is made of an honest text by one change.

use super::{Case, Draft};

type Change = fn(&str) -> String;

/// The lines of a proof in front of the entries.
const LINES: [&str; 16] = [
    "rules",
    "rules: shop",
    "rules: item",
    "rules: units",
    "rules: party",
    "rules: closes",
    "rules: chain",
    "rules: round",
    "head",
    "head: rules",
    "head: item",
    "head: entries",
    "head: root",
    "head: listed",
    "head: signature",
    "beacon",
];
/// The lines that end with a number, and those that end with digits of bytes.
const NUMBERS: [usize; 9] = [2, 3, 4, 5, 7, 10, 11, 13, 16];
const BYTES: [usize; 5] = [1, 9, 12, 14, 15];
const ENTRY: usize = 16;

/// What is done to a line.
const LINE_CHANGES: [(&str, Change); 8] = [
    ("a space at its end", |line| format!("{line} ")),
    ("a space at its start", |line| format!(" {line}")),
    ("two spaces between words", |line| line.replacen(' ', "  ", 1)),
    ("a tab between words", |line| line.replacen(' ', "\t", 1)),
    ("a carriage return at its end", |line| format!("{line}\r")),
    ("an empty line in front of it", |line| format!("\n{line}")),
    ("a further word", |line| format!("{line} 0")),
    ("a comment behind it", |line| format!("{line}\n# a note")),
];
const HEAD_CHANGES: [(&str, Change); 4] = [
    ("it is left out", |_| String::new()),
    ("it is there twice", |line| format!("{line}\n{line}")),
    ("its first letter is a capital", |line| line[..1].to_uppercase() + &line[1..]),
    ("a colon behind its name", |line| line.replacen(' ', ": ", 1)),
];
/// What is put in place of a number.
const NUMBER_CHANGES: [(&str, Change); 12] = [
    ("a plus sign", |number| format!("+{number}")),
    ("a minus sign", |number| format!("-{number}")),
    ("a leading zero", |number| format!("0{number}")),
    ("a fraction", |number| format!("{number}.0")),
    ("an exponent", |number| format!("{number}e0")),
    ("quotes", |number| format!("\"{number}\"")),
    ("hexadecimal digits", |_| "0x7".to_owned()),
    ("a number that is too large", |_| "9007199254740992".to_owned()),
    ("nothing", |_| String::new()),
    ("never", |_| "never".to_owned()),
    ("a separator", |_| "1_000".to_owned()),
    ("digits of another script", |_| "\u{663}".to_owned()),
];
/// What is put in place of digits of bytes.
const BYTE_CHANGES: [(&str, Change); 6] = [
    ("capitals", |digits| digits.to_uppercase()),
    ("one digit too few", |digits| digits[1..].to_owned()),
    ("two digits too many", |digits| format!("{digits}00")),
    ("a letter that is no digit", |digits| format!("g{}", &digits[1..])),
    ("a prefix", |digits| format!("0x{}", &digits[2..])),
    ("quotes", |digits| format!("\"{digits}\"")),
];

pub(super) fn cases(local: &Draft) -> Vec<Case> {
    let proof = local.proof();
    let mut cases = in_lines(&proof);
    cases.extend(in_words(&proof));
    cases.extend(in_entries(&proof));
    cases.extend(in_files(&proof));
    cases.extend(of_saved(local, &proof));
    cases
}

/// The text with another line in place of one; or with none, if that is empty.
fn with_line(text: &str, at: usize, change: impl Fn(&str) -> String) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let changed = change(&lines[at]);
    lines.splice(at..=at, Some(changed).filter(|line| !line.is_empty()));
    lines.join("\n") + "\n"
}

/// The text with another word at the end of a line.
fn with_last_word(text: &str, at: usize, change: Change) -> String {
    with_line(text, at, |line| {
        let words = line.rsplit_once(' ').expect("two words");
        format!("{} {}", words.0, change(words.1))
    })
}

fn in_lines(proof: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, name) in LINES.iter().enumerate() {
        for (what, change) in LINE_CHANGES.iter().chain(&HEAD_CHANGES) {
            let text = with_line(proof, at, *change);
            cases.push(Case::malformed(&format!("{name}: {what}"), text));
        }
    }
    cases
}

fn in_words(proof: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let name = |at: usize| LINES.get(at).unwrap_or(&"entry");
    for at in NUMBERS {
        for (what, change) in NUMBER_CHANGES {
            let text = with_last_word(proof, at, change);
            cases.push(Case::malformed(&format!("{} is a number with: {what}", name(at)), text));
        }
    }
    for at in BYTES {
        for (what, change) in BYTE_CHANGES {
            let text = with_last_word(proof, at, change);
            cases.push(Case::malformed(&format!("{} is bytes with: {what}", name(at)), text));
        }
    }
    for (what, at, value) in [
        ("an item of zero", 2, "0"),
        ("a round of zero", 7, "0"),
        ("a party of zero", 4, "0"),
        ("a party of five", 4, "5"),
        ("a chain in words", 6, "drand"),
        ("no chain", 6, "none"),
        ("a chain that is local in capitals", 6, "LOCAL"),
        (
            "drand's first chain",
            6,
            "8990e7a9aaed2ffed73dbd7092123d6f289930540d7651336225dc172e51b2ce",
        ),
        (
            "drand's chain fastnet",
            6,
            "dbd506d6ef76e5f386f41c651dcb808c5bcbd75471cc4eafa3f4df7ad4e4c493",
        ),
        (
            "drand's chain in capitals",
            6,
            "52DB9BA70E0CC0F6EAF7803DD07447A1F5477735FD3F661792BA94600C84E971",
        ),
    ] {
        let text = with_line(proof, at, |line| {
            let name = line.split(' ').next().expect("a word");
            format!("{name} {value}")
        });
        cases.push(Case::malformed(&format!("rules with {what}"), text));
    }
    cases
}

fn in_entries(proof: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for (what, change) in LINE_CHANGES {
        cases.push(Case::malformed(&format!("entry: {what}"), with_line(proof, ENTRY, change)));
    }
    let changes: [(&str, Change); 9] = [
        ("its id has capitals", |line| line[..32].to_uppercase() + &line[32..]),
        ("its party has capitals", |line| line[..33].to_owned() + &line[33..].to_uppercase()),
        ("its id is short", |line| line[1..].to_owned()),
        ("its party is short", |line| line[..33].to_owned() + &line[34..]),
        ("its party is left out", |line| line[..32].to_owned() + &line[65..]),
        ("its place is left out", |line| line[..65].to_owned()),
        ("its place is null", |line| line[..66].to_owned() + "null"),
        ("a comma between its words", |line| line.replace(' ', ",")),
        ("it is JSON", |line| format!("{{\"entry\":\"{}\",\"place\":1}}", &line[..32])),
    ];
    for (what, change) in changes {
        cases.push(Case::malformed(&format!("entry: {what}"), with_line(proof, ENTRY, change)));
    }
    cases
}

fn in_files(proof: &str) -> Vec<Case> {
    let utf16: Vec<u8> = proof.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin: Vec<u8> = [proof.as_bytes(), b"\xe9\n"].concat();
    let invalid: Vec<u8> = [b"\xff".as_slice(), proof.as_bytes()].concat();
    let end = proof.trim_end();
    let old = "{\"item_id\":7,\"state\":\"drawn\",\"rules\":\"draw-rules 1\\nitem 7\\ncloses never\\n\",\"entries\":12.0}\n";
    vec![
        Case::malformed("an empty file", ""),
        Case::malformed("a line feed alone", "\n"),
        Case::malformed("a byte order mark", format!("\u{feff}{proof}")),
        Case::malformed("UTF-16", utf16),
        Case::malformed("a byte of Latin-1 behind it", latin),
        Case::malformed("a byte that no text has", invalid),
        Case::malformed("a zero byte behind it", format!("{proof}\0")),
        Case::malformed("no line feed at its end", end),
        Case::malformed("an empty line at its end", format!("{proof}\n")),
        Case::malformed("an empty line at its start", format!("\n{proof}")),
        Case::malformed("a space behind it", format!("{proof} ")),
        Case::malformed("lines of Windows", proof.replace('\n', "\r\n")),
        Case::malformed("lines of an old Macintosh", proof.replace('\n', "\r")),
        Case::malformed("lines ended by U+2028", proof.replace('\n', "\u{2028}")),
        Case::malformed("spaces that do not break", proof.replace(' ', "\u{a0}")),
        Case::malformed("a proof twice", proof.repeat(2)),
        Case::malformed("a text in capitals", proof.to_uppercase()),
        Case::malformed("a text in a block of Markdown", format!("```\n{proof}```\n")),
        Case::malformed("a page of an error", "<!doctype html>\n<title>404</title>\n"),
        Case::malformed("a proof of the format before", old),
        Case::malformed("the number of the format is another", proof.replace(" 3\n", " 2\n")),
        Case::malformed("the head stands in front of the rules", {
            let lines: Vec<&str> = proof.lines().collect();
            [&lines[8..15], &lines[..8], &lines[15..]].concat().join("\n") + "\n"
        }),
        Case::malformed("two lines of the rules are exchanged", {
            let mut lines: Vec<&str> = proof.lines().collect();
            lines.swap(2, 3);
            lines.join("\n") + "\n"
        }),
    ]
}

/// What a buyer has saved, in another form.
fn of_saved(local: &Draft, proof: &str) -> Vec<Case> {
    let promise = local.promise(1);
    let announcement = local.announcement();
    let mut cases = Vec::new();
    let names = ["start", "rules", "item", "entry", "party", "entered", "signature"];
    for (at, name) in names.iter().enumerate() {
        for (what, change) in LINE_CHANGES.iter().chain(&HEAD_CHANGES) {
            let saved = with_line(&promise, at, *change);
            let case = Case::malformed(&format!("promise: {name}: {what}"), proof);
            cases.push(case.promise(saved));
        }
    }
    for (at, name) in [(2, "item"), (5, "entered")] {
        for (what, change) in NUMBER_CHANGES {
            let saved = with_last_word(&promise, at, change);
            let case = Case::malformed(&format!("promise: {name} is a number with: {what}"), proof);
            cases.push(case.promise(saved));
        }
    }
    for (what, saved) in [
        ("an empty file", String::new()),
        ("a byte order mark", format!("\u{feff}{promise}")),
        ("an empty line at its end", format!("{promise}\n")),
        ("no line feed at its end", promise.trim_end().to_owned()),
        ("it is there twice", promise.repeat(2)),
        ("it is a head", local.head()),
        ("it is an announcement", announcement.clone()),
    ] {
        cases.push(Case::malformed(&format!("promise: {what}"), proof).promise(saved));
    }
    for (what, saved) in [
        ("an empty file", String::new()),
        ("a byte order mark", format!("\u{feff}{announcement}")),
        ("an empty line at its end", format!("{announcement}\n")),
        ("no line feed at its end", announcement.trim_end().to_owned()),
        ("the head alone", local.head()),
        (
            "the head has no signature",
            announcement.lines().take(14).map(|l| format!("{l}\n")).collect(),
        ),
        (
            "rules whose last line is left out",
            local.rules.lines().take(7).map(|l| format!("{l}\n")).collect(),
        ),
        ("a start of the rules", local.rules[..60].to_owned()),
        ("the whole proof", proof.to_owned()),
        ("it is a promise", promise.clone()),
    ] {
        cases.push(Case::malformed(&format!("announcement: {what}"), proof).announced(saved));
    }
    cases
}

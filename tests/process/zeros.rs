//! Numbers of the settings: a 0 without a meaning is refused, whichever setting it is.

use seckill::config::DEFAULTS;

use crate::support::prelude::*;

/// A setting that is a whole number.
struct Number {
    name: String,
    /// Whether its text says what 0 means.
    may_be_zero: bool,
}

/// All of them, from the text that documents them.
fn numbers() -> Vec<Number> {
    let mut found = Vec::new();
    let mut section = "";
    let mut text = String::from(" ");
    for line in DEFAULTS.lines() {
        if let Some(words) = line.strip_prefix("# ") {
            text.push_str(words);
            text.push(' ');
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        }
        if let Some((key, value)) = line.split_once(" = ")
            && value.parse::<i64>().is_ok()
        {
            let name = format!("{section}.{key}");
            found.push(Number { name, may_be_zero: text.contains(" 0: ") });
        }
        text = String::from(" ");
    }
    found
}

/// A new setting is refused at 0, too, until its text says what that means.
#[test]
fn a_zero_without_a_meaning_is_refused() {
    let numbers = numbers();
    assert!(numbers.len() > 60, "{} numbers", numbers.len());
    for Number { name, may_be_zero } in numbers {
        let variable = format!("SECKILL_{}", name.replace('.', "_").to_uppercase());
        let load =
            |value: &str| Config::load(None, [(variable.clone(), value.to_owned())]).map(drop);
        let least = if may_be_zero { 0 } else { 1 };
        let refused = Err(format!("{name} must be at least {least}"));
        assert_eq!(load("-1"), refused, "{name}");
        let expected = if may_be_zero { Ok(()) } else { refused };
        assert_eq!(load("0"), expected, "{name}: does its text say what 0 means?");
    }
}

/// Their defaults are no whole numbers.
#[test]
fn a_file_may_write_zero_runtimes_and_no_share() {
    let file = std::env::temp_dir().join(unique("zeros"));
    let settings = "[http]\nruntimes = 0\n[traces]\nsample_ratio = 0\n";
    std::fs::write(&file, settings).expect("written");
    let loaded = Config::load(Some(&file), []).map(drop);
    std::fs::remove_file(file).expect("removed");
    assert_eq!(loaded, Ok(()));
}

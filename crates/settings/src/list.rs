//! A setting that is a list of texts.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, de};

/// The types of attribute by which a part of a directory's name is known (RFC 4514, section 3).
const ATTRIBUTES: [&str; 9] = ["CN", "L", "ST", "O", "OU", "C", "STREET", "DC", "UID"];

/// A list of texts. A file has it as an array; a variable has the same as a JSON array: `["a", "b, c"]`. A text without
/// brackets is cut at its commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    texts: Vec<String>,
    was_cut: bool,
}

impl List {
    /// Whether a comma has cut a directory's name, such as `CN=Sales,OU=Shop`, into pieces.
    pub fn has_a_cut_name(&self) -> bool {
        self.was_cut && self.texts.iter().skip(1).any(|text| is_name_part(text))
    }

    fn cut(text: &str) -> Self {
        let texts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Self { texts: texts.map(str::to_owned).collect(), was_cut: true }
    }
}

impl Deref for List {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.texts
    }
}

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a text or an array of texts")]
        enum Written {
            Text(String),
            Texts(Vec<String>),
        }

        let texts: Vec<String> = match Written::deserialize(deserializer)? {
            Written::Texts(texts) => texts,
            Written::Text(text) if text.trim_start().starts_with('[') => {
                serde_json::from_str(&text).map_err(|error| {
                    let form =
                        r#"write a JSON array such as ["a", "b, c"], or texts without brackets"#;
                    de::Error::custom(format!("{text:?} is no list: {error}; {form}"))
                })?
            }
            Written::Text(text) => return Ok(Self::cut(&text)),
        };
        if texts.iter().any(|text| text.trim().is_empty()) {
            // Perhaps of a variable that was never set; what a token leaves empty would be equal to it.
            return Err(de::Error::custom("a text of the list is empty; leave it out"));
        }
        Ok(Self { texts, was_cut: false })
    }
}

fn is_name_part(text: &str) -> bool {
    let kind = text.split_once('=').map(|(kind, _)| kind.trim());
    kind.is_some_and(|kind| ATTRIBUTES.iter().any(|known| known.eq_ignore_ascii_case(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sections;
    use toml::Value;

    #[derive(Deserialize)]
    struct Section {
        values: List,
    }

    fn read(value: impl Into<Value>) -> Result<List, String> {
        let mut sections = Sections::default();
        sections.set("section", "values", value);
        sections.read::<Section>("section").map(|section| section.values)
    }

    #[test]
    fn an_array_keeps_commas_and_a_text_is_cut_at_them() {
        let names = ["CN=Sales,OU=Shop", "b, c", "d"];
        let array = Value::Array(names.map(Value::from).to_vec());
        let json = r#" ["CN=Sales,OU=Shop", "b, c", "d"]"#;
        for (what, written) in [("an array", array), ("a JSON array", json.into())] {
            let list = read(written).expect(what);
            assert_eq!(
                (&*list, list.has_a_cut_name()),
                (&names.map(str::to_owned)[..], false),
                "{what}"
            );
        }
        assert_eq!(*read(" a, b c ,,d,").expect("a text"), ["a", "b c", "d"]);
        assert!(read("").expect("nothing").is_empty() && read("[]").expect("nothing").is_empty());
    }

    #[test]
    fn what_is_no_list_is_refused_and_says_how_one_is_written() {
        for wrong in ["[a, b]", r#"["a""#, "[1]", r#"["a", null]"#, r#"["a"] x"#] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.contains("a JSON array such as"), "{error}");
        }
        assert!(read(7).is_err() && read(Value::Array(vec![Value::from(7)])).is_err());
    }

    #[test]
    fn a_list_with_an_empty_text_is_refused_by_the_name_of_the_setting() {
        let array = Value::Array(vec![Value::from("a"), Value::from(" ")]);
        for wrong in [array, r#"[""]"#.into(), r#"["a", "\t"]"#.into()] {
            let error = read(wrong).expect_err("an empty text");
            assert!(error.contains("is empty") && error.contains("section"), "{error}");
            assert!(error.contains("values"), "{error}");
        }
    }

    #[test]
    fn a_name_of_a_directory_that_was_cut_is_noticed() {
        for cut in ["CN=Sales,OU=Shop", "cn=abc,ou=xyz,ou=123,o=def", "uid=ada, dc=example"] {
            assert!(read(cut).expect(cut).has_a_cut_name(), "{cut}");
        }
        for whole in ["sales, chiefs", "CN=Sales", "team=red,team=blue"] {
            assert!(!read(whole).expect(whole).has_a_cut_name(), "{whole}");
        }
    }
}

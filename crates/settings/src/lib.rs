//! What the settings of the core and of its extensions are made of.

mod list;

use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

pub use list::List;

/// A string that never shows in logs, errors or debug output.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a string.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The string itself; each call of this needs a reason.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether the secret is not set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_empty() { "(none)" } else { "(hidden)" })
    }
}

/// The sections of all settings, as they were read: an extension reads its own.
#[derive(Clone, Default)]
pub struct Sections(Table);

impl Sections {
    /// Wraps the table of all settings.
    pub fn new(table: Table) -> Self {
        Self(table)
    }

    /// Changes a setting, as a file or a variable does.
    pub fn set(&mut self, section: &str, key: &str, value: impl Into<Value>) {
        let section = self.0.entry(section).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(section) = section {
            section.insert(key.to_owned(), value.into());
        }
    }

    /// The text of a setting; `None` for a setting that is unknown or no text.
    pub fn text(&self, section: &str, key: &str) -> Option<&str> {
        self.0.get(section)?.get(key)?.as_str()
    }

    /// Reads a section as a struct of settings.
    ///
    /// # Errors
    /// A sentence with the key that does not fit.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        let section = self.0.get(name).cloned().unwrap_or(Value::Table(Table::new()));
        section.try_into().map_err(|error| format!("the settings do not fit: {name}: {error}"))
    }
}

/// Shows the names alone: values may be secrets.
impl fmt::Debug for Sections {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Returns the sentence of the first condition that does not hold.
///
/// # Errors
/// That sentence.
pub fn check(rules: &[(bool, &'static str)]) -> Result<(), String> {
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, sentence)) => Err((*sentence).to_owned()),
        None => Ok(()),
    }
}

/// Makes a list of conditions for [`check`], each with the sentence that is said when it does not hold.
#[macro_export]
macro_rules! rules {
    ($($holds:expr => $sentence:literal;)+) => { &[$(($holds, $sentence)),+] };
}

/// Declares structs of sections; the file `defaults.toml` beside it documents each key.
#[macro_export]
macro_rules! sections {
    ($($name:ident { $($field:ident: $type:ty),+ $(,)? })+) => {$(
        #[doc = concat!("Section of `defaults.toml`: ", stringify!($name), ".")]
        #[derive(Clone, Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $(pub $field: $type),+ }
    )+};
}

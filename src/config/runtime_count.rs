//! The number of runtimes that serve connections.

use std::num::NonZero;
use std::thread;

use serde::Deserialize;

/// A number, or as many as there are processors. It parses from `2`, `"2"` and `"processors"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "SettingText")]
pub enum RuntimeCount {
    /// This number.
    Number(usize),
    /// As many as the processors that this process may use.
    Processors,
}

/// The setting as it is written. A variable of the environment is always a text.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a number, or \"processors\"")]
enum SettingText {
    Number(usize),
    Text(String),
}

impl RuntimeCount {
    /// The number.
    pub fn get(self) -> usize {
        match self {
            Self::Number(number) => number,
            Self::Processors => thread::available_parallelism().map_or(1, NonZero::get),
        }
    }
}

impl TryFrom<SettingText> for RuntimeCount {
    type Error = String;

    fn try_from(written: SettingText) -> Result<Self, String> {
        let text = match written {
            SettingText::Number(number) => return Ok(Self::Number(number)),
            SettingText::Text(text) => text,
        };
        if text == "processors" {
            return Ok(Self::Processors);
        }
        let number = text.parse().map(Self::Number);
        number.map_err(|_| format!("it must be a number or \"processors\", not {text:?}"))
    }
}

//! What the settings of the core and of its extensions are made of.

use std::fmt;

use serde::Deserialize;

/// A string that never shows in logs, errors or debug output.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a string.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The string itself; each call of this needs a reason.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether the secret is not set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_empty() { "(none)" } else { "(hidden)" })
    }
}

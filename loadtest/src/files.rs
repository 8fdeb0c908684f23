//! Writes the files of a report.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::failure::{CannotJudge, OrCannotJudge};

/// Writes a text.
pub fn write(path: &Path, text: &str) -> Result<(), CannotJudge> {
    fs::write(path, text).or_cannot_judge(format_args!("{} not written", path.display()))
}

/// Writes a value as one JSON object, for programs.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), CannotJudge> {
    let text = serde_json::to_string_pretty(value)
        .or_cannot_judge(format_args!("{} not written", path.display()))?;
    write(path, &(text + "\n"))
}

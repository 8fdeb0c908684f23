//! The report for programs.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::failure::CannotJudge;

/// Writes a whole report as one JSON object.
pub fn write(path: &Path, report: &impl Serialize) -> Result<(), CannotJudge> {
    let not_written =
        |reason: String| CannotJudge(format!("{} not written: {reason}", path.display()));
    let mut text =
        serde_json::to_string_pretty(report).map_err(|error| not_written(error.to_string()))?;
    text.push('\n');
    fs::write(path, text).map_err(|error| not_written(error.to_string()))
}

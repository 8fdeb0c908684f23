//! Writes the files of a report.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::document::Document;
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

/// Writes a report as `name.json` and `name.md`.
pub fn write_report(
    folder: &Path,
    name: &str,
    value: &impl Serialize,
    document: &Document,
) -> Result<(), CannotJudge> {
    write_json(&folder.join(format!("{name}.json")), value)?;
    write(&folder.join(format!("{name}.md")), &document.markdown())
}

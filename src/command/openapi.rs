//! `seckill openapi`: prints the description of the API.

use std::process::ExitCode;

use super::ExitResult;

/// Prints the document that `GET /api/openapi.json` answers.
pub fn run() -> ExitResult {
    let document = crate::http::openapi().to_pretty_json().map_err(|error| error.to_string())?;
    println!("{document}");
    Ok(ExitCode::SUCCESS)
}

//! `seckill openapi`: prints the description of the API.

use std::process::ExitCode;

use super::ExitResult;
use super::output::print_line;

/// Prints the document that `GET /api/openapi.json` answers.
pub fn run() -> ExitResult {
    print_line(crate::http::openapi().to_pretty_json().map_err(|error| error.to_string())?);
    Ok(ExitCode::SUCCESS)
}

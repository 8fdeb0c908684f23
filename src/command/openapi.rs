//! `seckill openapi`: prints the description of the API.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use super::ExitResult;

/// Prints the document that `GET /api/openapi.json` answers.
pub fn run() -> ExitResult {
    let document = crate::http::openapi().to_pretty_json().map_err(|error| error.to_string())?;
    match writeln!(std::io::stdout(), "{document}") {
        // The reader has enough, such as `head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => written.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string()),
    }
}

//! `seckill migrate`: brings the schema up to date.

use std::path::Path;
use std::process::ExitCode;

use crate::store::mysql;

use super::Ended;

/// Creates the database if it is missing, and runs the migrations that it has not seen.
pub async fn run(file: Option<&Path>) -> Ended {
    let config = super::settings(file)?;
    super::start_logging(&config)?;
    let pool = mysql::pool(&config)?;
    let migrated = mysql::migrate(&config, &pool);
    super::progress::while_waiting("migrating the schema", migrated).await?;
    println!("the schema is up to date");
    Ok(ExitCode::SUCCESS)
}

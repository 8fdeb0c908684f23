//! `seckill migrate`: brings the schema up to date.

use std::path::Path;
use std::process::ExitCode;

use crate::config::Config;
use ledger::schema::{self, MIGRATIONS};

use super::output::print_line;
use super::progress::Progress;
use super::{ExitResult, check, refuse};

/// The arguments: how far the schema is brought.
#[derive(clap::Args)]
pub struct Arguments {
    /// Remove what only earlier builds need as well. They refuse to start afterwards, so run it when none
    /// of their instances runs.
    #[arg(long)]
    contract: bool,
}

/// Creates the database if it is missing, and runs the migrations that it has not seen. Exit 1 while the ledger is away:
/// another start may go well.
pub async fn run(file: Option<&Path>, arguments: Arguments) -> ExitResult {
    let config = super::settings(file)?;
    super::start_logging(&config)?;
    if let Some(sentence) = check::mysql::absence(&config).await {
        return refuse(sentence);
    }
    if let Err(sentence) = migrate(&config, arguments.contract).await {
        let is_away = check::mysql::absence(&config).await.is_some();
        return if is_away { refuse(sentence) } else { Err(sentence) };
    }
    print_line("the schema is up to date");
    Ok(ExitCode::SUCCESS)
}

/// Migrates the ledger, and shows how many migrations are done. `contract` also removes what only earlier
/// builds need.
pub(super) async fn migrate(config: &Config, contract: bool) -> Result<(), String> {
    let pool = &mysql_connection::pool(config)?;
    let progress = Progress::new("migrating the schema", MIGRATIONS.iter().count());
    let work = Box::pin(schema::migrate(config, pool));
    progress.follow(work, async || schema::migrations_done(pool).await).await?;
    if contract {
        schema::contract(config, pool).await?;
    } else {
        schema::say_what_is_left(pool).await?;
    }
    pool.close().await;
    Ok(())
}

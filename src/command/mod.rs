//! The subcommands. Each answers an exit code, or a sentence that is printed before exit 2.

pub mod audit;
pub mod dead_letter;
pub mod dev;
mod dev_redis;
mod extra_servers;
pub mod migrate;
pub mod preflight;
pub mod seed;
pub mod serve;
pub mod token;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use seckill::config::{Config, read_env_file};
use tracing_subscriber::EnvFilter;

/// The end of a command: its exit code, or an error sentence.
pub type Ended = Result<ExitCode, String>;

/// Reads the settings; variables that are unset are looked up in the file that `seckill dev`
/// writes, so that a second terminal needs no settings.
fn settings(file: Option<&Path>) -> Result<Config, String> {
    let mut variables: Vec<(String, String)> = Vec::new();
    if let Some(path) = env_file() {
        variables.extend(read_env_file(&path).unwrap_or_default());
    }
    // The process' own variables come last and win.
    variables.extend(std::env::vars());
    Config::load(file, variables).map_err(|error| error.to_string())
}

/// Finds `.data/env` in this folder or one above, or under SECKILL_DATA_DIR.
fn env_file() -> Option<PathBuf> {
    if let Ok(dir) = std::env::var("SECKILL_DATA_DIR") {
        return Some(Path::new(&dir).join("env")).filter(|path| path.is_file());
    }
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|dir| dir.join(".data/env")).find(|path| path.is_file())
}

/// Starts logging to standard error.
fn start_logging(config: &Config) -> Result<(), String> {
    let filter = EnvFilter::try_new(&config.log.filter)
        .map_err(|error| format!("log.filter cannot be read: {error}"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Colours only on a terminal.
    let log = log.with_ansi(std::io::stderr().is_terminal());
    if config.log.format == "json" {
        log.json().init();
    } else {
        log.with_target(false).init();
    }
    Ok(())
}

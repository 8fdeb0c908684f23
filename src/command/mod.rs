//! The command line. Each subcommand returns an exit code, or a sentence that is printed before
//! exit 2.

// It panics when the reader has closed the pipe; `output` does not.
#![warn(clippy::print_stdout)]

mod audit;
mod caller;
mod check;
mod dead_letter;
#[cfg(feature = "dev")]
mod dev;
mod doctor;
#[cfg(feature = "files")]
mod export;
mod healthcheck;
#[cfg(feature = "files")]
mod import;
mod log_lines;
#[cfg(feature = "archive")]
mod manual;
mod migrate;
mod operator;
mod output;
mod passed_sockets;
mod preflight;
mod progress;
mod restored;
mod seed;
mod serve;
mod service_manager;
mod shop;
mod token;
mod user;
mod verify;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Config, process_variables};
use gates::redis_store::{Counters, Queue, RedisClient};
use gates::redis_stream;
use ledger::Ledger;
use ledger::breaker::Breakers;
use ledger::rows::actions;
use mysql_connection::{Database, Fault, is_unconfirmed};
use output::print_line;
use passed_sockets::PassedSockets;
use shop_domain::{ItemId, UserId};
use shop_metrics::Metrics;

/// Parses the command line, runs the command, and returns the program's exit code.
///
/// This is no `async fn`, so that everything below it is compiled with this crate, and not a second time with each
/// program that calls it.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    // Before the first thread starts.
    let sockets = PassedSockets::take();
    crate::open_files::raise_limit();
    let ended = match web::runtimes::shared() {
        Ok(runtime) => runtime.block_on(run_command(arguments, sockets)),
        Err(error) => Err(format!("the threads of the runtime do not start: {error}")),
    };
    ended.unwrap_or_else(|sentence| {
        eprintln!("seckill: {sentence}");
        ExitCode::from(2)
    })
}

/// The command line: its subcommands with their arguments.
pub fn command_line() -> clap::Command {
    Arguments::command()
}

async fn run_command(arguments: Arguments, sockets: PassedSockets) -> ExitResult {
    let file = arguments.config.as_deref();
    if !matches!(arguments.command, Command::Serve | Command::Dev(_)) {
        actions::set_system_user(caller::system_user());
    }
    match arguments.command {
        Command::Serve => Box::pin(serve::run(file, sockets)).await,
        Command::Dev(arguments) => Box::pin(dev::run(file, &arguments)).await,
        Command::Migrate(arguments) => migrate::run(file, arguments).await,
        Command::Seed => seed::run(file).await,
        Command::Token(arguments) => token::run(file, &arguments),
        Command::Healthcheck => healthcheck::run(file).await,
        Command::Doctor(arguments) => Box::pin(doctor::run(file, &arguments)).await,
        Command::Operator(action) => Box::pin(operator::run(file, &action)).await,
        Command::Audit(arguments) => audit::run(file, &arguments).await,
        Command::Restored => Box::pin(restored::run(file)).await,
        #[cfg(feature = "files")]
        Command::Export(arguments) => Box::pin(export::run(file, &arguments)).await,
        #[cfg(feature = "files")]
        Command::Import(arguments) => Box::pin(import::run(file, &arguments)).await,
        Command::Verify(action) => verify::run(file, &action),
        Command::Shop(action) => Box::pin(shop::run(file, &action)).await,
        Command::User(action) => Box::pin(user::run(file, &action)).await,
        Command::Openapi => print_openapi(),
        #[cfg(feature = "archive")]
        Command::Manual(arguments) => manual::run(&arguments),
        Command::DeadLetter(arguments) => dead_letter::run(file, &arguments).await,
    }
}

/// A flash sale that sells the last unit once.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// A TOML file with settings; environment variables take precedence over it.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the shop, with the servers and the secret of DATABASE_URL, REDIS_URL and SECKILL_SECRET.
    Serve,
    /// Start private servers, make a demo sale, and serve; Ctrl-C stops all.
    #[command(hide = cfg!(not(feature = "dev")))]
    Dev(dev::Arguments),
    /// Bring the schema up to date.
    Migrate(migrate::Arguments),
    /// Make a demo sale that is open now, if there is none.
    Seed,
    /// Print bearer tokens of users, one a line, without a database.
    Token(token::Arguments),
    /// Ask the service on this machine whether it answers: exit 1 when it does not.
    Healthcheck,
    /// Say what is wrong with this installation: exit 1 when `serve` would not start.
    Doctor(doctor::Arguments),
    /// Operators: create the first one, list them, give and take roles, set a password.
    #[command(subcommand)]
    Operator(operator::Action),
    /// Other shops, whose programs order for guests: create one, list them, make and end their tokens.
    #[command(subcommand)]
    Shop(shop::Action),
    /// People: delete one who has asked for it.
    #[command(subcommand)]
    User(user::Action),
    /// Audit the ledger: exit 1 when an invariant is broken, 2 when an item could not be read.
    Audit(audit::Arguments),
    /// After a restore, before the first start: check the secret, Redis and the audit. Exit 1 when something is left to do.
    Restored,
    /// Write sales, orders or movements of stock as CSV or JSON lines, with their sums at the end.
    #[cfg(feature = "files")]
    Export(export::Arguments),
    /// Create sales from a table in CSV, all or none, or only check it.
    #[cfg(feature = "files")]
    Import(import::Arguments),
    /// Check what a shop has published: the proof of a draw.
    #[command(subcommand)]
    Verify(verify::Action),
    /// Print the description of the API, for generators of clients.
    Openapi,
    /// Write manual pages and completions of shells into a folder.
    #[cfg(feature = "archive")]
    Manual(manual::Arguments),
    /// Queued orders that could not be decided: list them, try one again, or drop it.
    DeadLetter(dead_letter::Arguments),
}

#[cfg(not(feature = "dev"))]
mod dev {
    //! `seckill dev` in a program without the feature `dev`, such as the image's: it says what to do instead.

    /// Takes any arguments, because none of them is used.
    #[derive(clap::Args)]
    pub struct Arguments {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _any: Vec<String>,
    }

    /// Refuses to run.
    pub async fn run(_: Option<&std::path::Path>, _: &Arguments) -> super::ExitResult {
        Err("this program was built without private servers: start it with `make run` in the source folder, or build it with `--features dev`".to_owned())
    }
}

/// Prints the document that `GET /api/openapi.json` answers.
fn print_openapi() -> ExitResult {
    print_line(crate::http::openapi().to_pretty_json().map_err(|error| error.to_string())?);
    Ok(ExitCode::SUCCESS)
}

fn parse_item(text: &str) -> Result<ItemId, String> {
    ItemId::parse(text).ok_or_else(|| "an item's id is a positive number".to_owned())
}

fn parse_user(text: &str) -> Result<UserId, String> {
    UserId::parse(text).ok_or_else(|| "a user's id is a positive number".to_owned())
}

/// The end of a command: its exit code, or an error sentence.
pub type ExitResult = Result<ExitCode, String>;

/// Prints why a command has not done its work, for exit 1.
fn refuse(sentence: impl std::fmt::Display) -> ExitResult {
    eprintln!("seckill: {sentence}");
    Ok(ExitCode::from(1))
}

/// The sentence for a change that the ledger has not made, or may not have made.
#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn not_done(error: ledger::Error) -> String {
    match Fault::of(&error) {
        _ if is_unconfirmed(&error) => {
            format!("the ledger may have done it; look before you try again: {error}")
        }
        Fault::ReadOnly => "the ledger is read-only: nothing has changed".to_owned(),
        _ => format!("the ledger did not do it: {error}; `seckill doctor` may know why"),
    }
}

/// Reads the settings; variables that are unset are looked up in the file that `seckill dev`
/// writes, so that a second terminal needs no settings.
fn settings(file: Option<&Path>) -> Result<Config, String> {
    let mut variables = env_file::read().map_err(|refused| refused.to_string())?;
    // The process' own variables come last and win.
    variables.extend(process_variables()?);
    Config::load(file, variables)
}

/// Opens the ledger, which is connected when it is first used.
///
/// # Errors
/// A sentence when the URL cannot be read.
fn ledger(config: &Config) -> Result<Ledger, String> {
    let breaker = Breakers::new(&Metrics::new()).mysql;
    mysql_connection::pool(config).map(|pool| Ledger::new(pool, breaker))
}

/// Opens the queues of orders, which are connected when they are first used.
///
/// # Errors
/// A sentence when the URL of Redis cannot be read.
fn queue(config: &Config, pool: &Database) -> Result<Queue, String> {
    let redis = RedisClient::new(config)?;
    let counters = Counters::new(redis.clone(), pool.clone(), Metrics::new());
    let backlog_max = config.queue.backlog_max;
    Ok(Queue::new(redis, pool.clone(), counters, redis_stream::NAME, backlog_max).0)
}

/// Starts logging to standard error.
fn start_logging(config: &Config) -> Result<(), String> {
    // Colours only on a terminal.
    let layer =
        fmt::layer().with_writer(|| progress::LogOutput).with_ansi(std::io::stderr().is_terminal());
    let log = tracing_subscriber::registry().with(config.log_levels()?);
    if config.log.format == "json" {
        log.with(layer.json()).init();
    } else {
        let layer = layer.fmt_fields(log_lines::EscapedFields::default());
        log.with(layer.with_target(false)).init();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever believes that nothing was done makes a second shop, or gives the old token away.
    #[test]
    fn a_change_whose_commit_was_lost_may_have_been_made() {
        let lost = mysql_connection::unconfirmed(ledger::Error::PoolClosed);
        assert!(not_done(lost).starts_with("the ledger may have done it"));
        assert!(not_done(ledger::Error::PoolTimedOut).starts_with("the ledger did not do it"));
    }
}

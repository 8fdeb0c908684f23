//! The `seckill` program: parse the command, run it, exit code.

mod command;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The allocator: purchases allocate and free memory thousands of times a second.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A flash sale that sells the last unit once.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Settings as TOML; environment variables beat them.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve; DATABASE_URL, REDIS_URL and SECKILL_SECRET say with what.
    Serve,
    /// Start private servers, make a demo sale, and serve: what `make run` does.
    Dev(command::dev::Arguments),
    /// Bring the schema up to date.
    Migrate,
    /// Make a demo sale that is open now, if there is none.
    Seed,
    /// Print bearer tokens, one a line, without a database.
    Token(command::token::Arguments),
    /// Audit the ledger: exit 1 when an invariant is broken, 2 when nothing could be read.
    Audit(command::audit::Arguments),
    /// Queued orders that could not be decided: list them, try one again, or drop it.
    #[command(alias = "parked")]
    DeadLetter(command::dead_letter::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    seckill::open_files::raise_limit();
    let file = arguments.config.as_deref();
    let ended = match arguments.command {
        Command::Serve => Box::pin(command::serve::run(file)).await,
        Command::Dev(arguments) => Box::pin(command::dev::run(file, arguments)).await,
        Command::Migrate => command::migrate::run(file).await,
        Command::Seed => command::seed::run(file).await,
        Command::Token(arguments) => command::token::run(file, &arguments),
        Command::Audit(arguments) => command::audit::run(file, &arguments).await,
        Command::DeadLetter(arguments) => command::dead_letter::run(file, &arguments).await,
    };
    ended.unwrap_or_else(|sentence| {
        eprintln!("seckill: {sentence}");
        ExitCode::from(2)
    })
}

//! `seckill shard`: several ledgers, each for a part of the items.

use std::path::Path;

use super::{Ended, shard_move};

/// The arguments: the action.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Move an item to another ledger while it sells. It is paused for a fraction of a second. If the
    /// command was killed, the same command goes on where it was. Exit 1 when the item stays where it was.
    Move(shard_move::Arguments),
    /// List the moves of items: those under way first, then the newest.
    Moves,
}

/// Runs the action. Exit 2 with a sentence when nothing was done.
pub async fn run(file: Option<&Path>, arguments: &Arguments) -> Ended {
    let config = super::settings(file)?;
    super::start_logging(&config)?;
    match &arguments.action {
        Action::Move(arguments) => shard_move::run(&config, arguments).await,
        Action::Moves => shard_move::list(&config).await,
    }
}

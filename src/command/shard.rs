//! `seckill shard`: several ledgers, each for a part of the items.

use std::path::Path;
use std::process::ExitCode;

use crate::config::Config;
use ledger::item_move::{LedgerView, Overview};
use ledger::rows::{self, homes};
use shop_domain::ShardId;

use super::{ExitResult, ledgers, migrate, parse, shard_move};

/// The arguments: the action.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Make a ledger that [shards] names ready: its database, its schema, and the check that it is empty.
    Add {
        /// The number of the ledger.
        #[arg(value_parser = parse::shard)]
        shard: ShardId,
    },
    /// List the ledgers with their items, and the moves that are under way. Exit 1 when a ledger does not
    /// answer.
    List,
    /// Move an item to another ledger while it sells. It is paused for a fraction of a second. If the
    /// command was killed, the same command goes on where it was. Exit 1 when the item stays where it was.
    Move(shard_move::Arguments),
    /// Move the items of a limit group together, and all that share another limit with one of them. They are
    /// paused together. If the command was killed, the same command begins anew. Exit 1 when they stay.
    MoveGroup(shard_move::Group),
    /// Give an item its ledger before its sale begins: the same move, which no buyer notices. Exit 1 once
    /// the sale has begun; then `move` is the command.
    Place(shard_move::Place),
    /// Bring an item back whose ledger does not have it, such as after the restore of an old backup: from the
    /// ledger that has it, or from the rows that it left behind in its last move. Exit 1 when nothing was
    /// done.
    Recover(shard_move::Recover),
    /// List the moves of items: those under way first, then the newest.
    Moves,
}

/// Runs the action. Exit 2 with a sentence when nothing was done.
pub async fn run(file: Option<&Path>, arguments: &Arguments) -> ExitResult {
    let config = super::settings(file)?;
    super::start_logging(&config)?;
    match &arguments.action {
        Action::Add { shard } => add(&config, *shard).await,
        Action::List => list(&Overview::new(ledgers::open(&config)?)).await,
        Action::Move(arguments) => shard_move::run(&config, arguments).await,
        Action::MoveGroup(group) => shard_move::move_group(&config, group).await,
        Action::Place(place) => shard_move::place(&config, place).await,
        Action::Recover(arguments) => shard_move::recover(&config, arguments).await,
        Action::Moves => shard_move::list(&config).await,
    }
}

async fn add(config: &Config, shard: ShardId) -> ExitResult {
    let all = config.ledgers()?;
    let ledger = all.get(shard.index()).ok_or_else(|| {
        format!(
            "the settings do not name ledger {shard}: add its URL to [shards], then run this again"
        )
    })?;
    let pool = rows::pool(ledger)?;
    migrate::migrate(ledger, &pool, false).await?;
    let unread = |error: ledger::Error| format!("ledger {shard} could not be read: {error}");
    let items = homes::count_items(&pool).await.map_err(unread)?;
    if shard != ShardId::HOME && items > 0 {
        let home = rows::pool(&all[0])?;
        let known = homes::count(&home).await.map_err(unread)?;
        if !known.contains_key(&shard) {
            return Err(format!(
                "ledger {shard} has {items} items, and none lives there by the home ledger: is it another shop's?"
            ));
        }
    }
    println!("ledger {shard} is ready; it has {items} items");
    println!(
        "start each instance again with these settings: from then on new items may be placed there"
    );
    Ok(ExitCode::SUCCESS)
}

async fn list(overview: &Overview) -> ExitResult {
    let view = overview.read().await;
    let view = view.map_err(|error| format!("the home ledger could not be read: {error}"))?;
    for LedgerView { shard, items, state } in &view.ledgers {
        println!("{shard}\t{items} items\t{state}");
    }
    view.moves.iter().filter(|of| of.ended_at.is_none()).for_each(shard_move::print);
    let is_whole = view.ledgers.iter().all(|ledger| ledger.state == "ok");
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

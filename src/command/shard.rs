//! `seckill shard`: several ledgers, each for a part of the items.

use std::path::Path;
use std::process::ExitCode;

use crate::config::Config;
use crate::domain::ShardId;
use crate::store::mysql::{self, homes, moves};
use crate::store::{Ledger, Shards};

use super::{Ended, ledgers, migrate, shard_move};

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
        #[arg(value_parser = parse_shard)]
        shard: ShardId,
    },
    /// List the ledgers with their items, and the moves that are under way. Exit 1 when a ledger does not
    /// answer.
    List,
    /// Move an item to another ledger while it sells. It is paused for a fraction of a second. If the
    /// command was killed, the same command goes on where it was. Exit 1 when the item stays where it was.
    Move(shard_move::Arguments),
    /// Give an item its ledger before its sale begins: the same move, which no buyer notices. Exit 1 once
    /// the sale has begun; then `move` is the command.
    Place(shard_move::Place),
    /// List the moves of items: those under way first, then the newest.
    Moves,
}

/// Runs the action. Exit 2 with a sentence when nothing was done.
pub async fn run(file: Option<&Path>, arguments: &Arguments) -> Ended {
    let config = super::settings(file)?;
    super::start_logging(&config)?;
    match &arguments.action {
        Action::Add { shard } => add(&config, *shard).await,
        Action::List => list(&ledgers::open(&config)?).await,
        Action::Move(arguments) => shard_move::run(&config, arguments).await,
        Action::Place(place) => shard_move::place(&config, place).await,
        Action::Moves => shard_move::list(&config).await,
    }
}

async fn add(config: &Config, shard: ShardId) -> Ended {
    let all = config.ledgers()?;
    let ledger = all.get(shard.index()).ok_or_else(|| {
        format!(
            "the settings do not name ledger {shard}: add its URL to [shards], then run this again"
        )
    })?;
    let pool = mysql::pool(ledger)?;
    migrate::migrate(ledger, &pool).await?;
    let unread = |error: sqlx::Error| format!("ledger {shard} could not be read: {error}");
    let items = homes::count_items(&pool).await.map_err(unread)?;
    if shard != ShardId::HOME && items > 0 {
        let home = mysql::pool(&all[0])?;
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

async fn list(ledgers: &Shards<Ledger>) -> Ended {
    let known = homes::count(&ledgers.home().pool).await;
    let known = known.map_err(|error| format!("the home ledger could not be read: {error}"))?;
    let mut is_whole = true;
    for (shard, Ledger { pool, .. }) in ledgers.iter() {
        let schema = mysql::condition(pool).await;
        let state = match &schema {
            Ok(condition) if !condition.schema.is_usable() => condition.schema.as_str(),
            Ok(condition) if !condition.writable => "read-only",
            Ok(_) => "ok",
            Err(_) => "does not answer",
        };
        is_whole &= state == "ok";
        let items = match shard {
            ShardId::HOME => homes::count_items(pool).await.ok(),
            _ => Some(known.get(&shard).copied().unwrap_or_default()),
        };
        let items = items.map_or_else(|| "?".to_owned(), |items| items.to_string());
        println!("{shard}\t{items} items\t{state}");
    }
    let moves = moves::list(&ledgers.home().pool).await;
    let moves = moves.map_err(|error| format!("the home ledger could not be read: {error}"))?;
    moves.iter().filter(|of| of.ended_at.is_none()).for_each(shard_move::print);
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn parse_shard(text: &str) -> Result<ShardId, String> {
    let number = text.parse().ok().and_then(ShardId::new);
    number.ok_or_else(|| format!("a ledger's number is 0 to {}", ShardId::MAX))
}

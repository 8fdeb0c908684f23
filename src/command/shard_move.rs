//! `seckill shard move`: an item goes from one ledger to another while it sells.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::config::Config;
use ledger::Database;
use ledger::item_move::{Limits, MoveError, MoveResult, Mover, PAUSE_MS_MAX, RecoveryResult};
use ledger::rows::moves::{self, ItemMove};
use ledger::rows::{self, items};
use shop_domain::{ItemId, LimitGroupId, ShardId};

use super::progress::Progress;
use super::{ExitResult, parse};

/// Connections to each ledger: the tables of an item are compared side by side.
const POOL_MAX: u32 = 8;
/// How often the progress is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(200);

/// The arguments: the item, and where it goes.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(value_parser = parse::item)]
    item: ItemId,
    /// The number of the ledger that the item goes to.
    #[arg(value_parser = parse::shard, required_unless_present_any = ["resume", "give_up"])]
    target: Option<ShardId>,
    /// End a move that was broken off, wherever it went.
    #[arg(long, conflicts_with = "target")]
    resume: bool,
    /// End a move that was broken off; the item stays where it was.
    #[arg(long, conflicts_with_all = ["target", "resume"])]
    give_up: bool,
    /// The longest pause of the item: a move that needs more is given up, and tried again twice.
    #[arg(long, value_name = "MS", default_value_t = PAUSE_MS_MAX)]
    pause_ms_max: u64,
}

/// The arguments of `place`: the item, and its ledger.
#[derive(clap::Args)]
pub struct Place {
    #[arg(value_parser = parse::item)]
    item: ItemId,
    /// The number of the ledger.
    #[arg(value_parser = parse::shard)]
    shard: ShardId,
}

/// The arguments of `move-group`: the group, and where its items go.
#[derive(clap::Args)]
pub struct Group {
    #[arg(value_parser = parse::group)]
    group: LimitGroupId,
    /// The number of the ledger that the items go to.
    #[arg(value_parser = parse::shard)]
    target: ShardId,
    /// The longest pause of all items together: a move that needs more is given up.
    #[arg(long, value_name = "MS", default_value_t = PAUSE_MS_MAX)]
    pause_ms_max: u64,
}

/// The arguments of `recover`: the item.
#[derive(clap::Args)]
pub struct Recover {
    #[arg(value_parser = parse::item)]
    item: ItemId,
}

/// Brings an item back that its home does not have. Exit 1 when nothing was done, 2 when a ledger does not
/// answer.
pub async fn recover(config: &Config, &Recover { item }: &Recover) -> ExitResult {
    let mover = Mover::new(ledgers(config)?, limits(config, PAUSE_MS_MAX));
    match mover.recover(item).await {
        Ok(RecoveryResult { home, as_of, .. }) => {
            let state = match as_of {
                Some(at) => {
                    format!(", as it was when it left there at {at}; what was sold later is lost")
                }
                None => String::new(),
            };
            println!("item {item} lives in shard {home} now{state}");
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ MoveError::Ledger(_)) => {
            Err(format!("{error}; all ledgers must answer, and the same command goes on"))
        }
        Err(error) => super::refuse(error),
    }
}

/// Moves the items of a limit group together. Exits like [`run`].
pub async fn move_group(config: &Config, arguments: &Group) -> ExitResult {
    let mover = Mover::new(ledgers(config)?, limits(config, arguments.pause_ms_max));
    let work = mover.move_group(arguments.group, arguments.target);
    match while_shown(&mover, work).await {
        Ok(all) => {
            all.iter().for_each(|(item, moved)| println!("{}", sentence(*item, moved)));
            Ok(ExitCode::SUCCESS)
        }
        Err(MoveError::AtHome(home)) => {
            println!("the items of group {} live in shard {home} already", arguments.group);
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ (MoveError::Ledger(_) | MoveError::Superseded)) => Err(format!(
            "{error}; `seckill shard moves` shows how far the moves have come, and the same command goes on"
        )),
        Err(error) => super::refuse(error),
    }
}

/// Moves an item whose sale has not begun, by the clock of its ledger.
pub async fn place(config: &Config, &Place { item, shard }: &Place) -> ExitResult {
    let ledgers = ledgers(config)?;
    let unread = |error: ledger::Error| format!("a ledger does not answer: {error}");
    let (at, _) = moves::home(&ledgers[&ShardId::HOME], item).await.map_err(unread)?;
    let pool = ledgers.get(&at).ok_or_else(|| {
        format!("item {item} lives in ledger {at}, which the settings do not name")
    })?;
    match items::is_upcoming(pool, item).await.map_err(unread)? {
        Some(true) => {
            let (target, pause_ms_max) = (Some(shard), PAUSE_MS_MAX);
            let (resume, give_up) = (false, false);
            run(config, &Arguments { item, target, resume, give_up, pause_ms_max }).await
        }
        Some(false) => super::refuse(format_args!(
            "the sale of item {item} has begun: `seckill shard move {item} {shard}` moves it while it sells"
        )),
        None => super::refuse(format_args!("there is no item {item}")),
    }
}

/// Moves an item, or ends a move. Exit 1 when the item was not moved and sells as before, 2 when a ledger
/// does not answer.
pub async fn run(config: &Config, arguments: &Arguments) -> ExitResult {
    let item = arguments.item;
    let mover = Mover::new(ledgers(config)?, limits(config, arguments.pause_ms_max));
    let work = async {
        match arguments.target {
            Some(target) => mover.move_item(item, target).await,
            None if arguments.give_up => mover.give_up(item).await,
            None => mover.resume(item).await,
        }
    };
    match while_shown(&mover, work).await {
        Ok(moved) => {
            println!("{}", sentence(item, &moved));
            Ok(ExitCode::SUCCESS)
        }
        Err(MoveError::AtHome(home)) => {
            println!("item {item} lives in shard {home} already");
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ (MoveError::Ledger(_) | MoveError::Superseded)) => Err(format!(
            "{error}; `seckill shard moves` shows how far the move of item {item} has come, and --resume ends it"
        )),
        Err(error) => super::refuse(error),
    }
}

fn limits(config: &Config, pause_ms_max: u64) -> Limits {
    let item_age_max = Duration::from_millis(config.purchase.item_age_ms_max);
    Limits::new(Duration::from_millis(pause_ms_max), item_age_max)
}

/// Waits for a move, and shows how many rows are copied.
async fn while_shown<T>(mover: &Mover, work: impl Future<Output = T>) -> T {
    let rows = mover.progress();
    let mut progress = Progress::new("copying rows", 0);
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(LOOK_PERIOD, &mut work).await {
            Ok(ended) => return ended,
            Err(_) => {
                let total = rows.total.load(Ordering::Relaxed);
                let copied = rows.rows.load(Ordering::Relaxed).min(total);
                progress.set_total(total);
                progress.show(copied);
            }
        }
    }
}

fn sentence(item: ItemId, moved: &MoveResult) -> String {
    let pause = match moved.pause {
        Some(pause) => format!("; it was paused for {} ms", pause.as_millis()),
        None => String::new(),
    };
    let again = match moved.given_up {
        0 => String::new(),
        tries => format!("; {tries} tries were given up before"),
    };
    let MoveResult { home, rows, .. } = moved;
    let compared = match rows {
        0 => String::new(),
        rows => format!("; {rows} rows are the same on both sides"),
    };
    format!("item {item} lives in shard {home} now{compared}{pause}{again}")
}

/// Lists the moves.
pub async fn list(config: &Config) -> ExitResult {
    let pool = rows::pool(config)?;
    let listed = moves::list(&pool).await;
    let listed = listed.map_err(|error| format!("the home ledger does not answer: {error}"))?;
    listed.iter().for_each(print);
    let under_way = listed.iter().filter(|of| of.ended_at.is_none()).count();
    println!("{} moves, {under_way} under way", listed.len());
    Ok(ExitCode::SUCCESS)
}

/// Prints a move.
pub(super) fn print(of: &ItemMove) {
    let state = of.state.as_str();
    let note = if of.ended_at.is_none() { ", under way" } else { "" };
    let pause = of.closed_at.zip(of.flipped_at).map_or_else(String::new, |(closed, flipped)| {
        format!(", paused for {} ms", (flipped - closed).whole_milliseconds())
    });
    println!(
        "item {}\tshard {} to {}\tepoch {}\tbegan {}\t{state}{note}{pause}",
        of.item, of.source, of.target, of.epoch, of.started_at
    );
}

/// The ledgers of the settings, by their numbers.
pub(super) fn ledgers(config: &Config) -> Result<BTreeMap<ShardId, Database>, String> {
    let each = config.ledgers()?;
    let numbered =
        (0..).zip(&each).filter_map(|(number, ledger)| Some((ShardId::new(number)?, ledger)));
    numbered.map(|(shard, ledger)| Ok((shard, rows::pool_of(ledger, POOL_MAX)?))).collect()
}

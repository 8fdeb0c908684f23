//! `seckill archive`: orders of sales that ended long ago leave the ledger for files.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::archive::{ArchiveError, ArchiveResult, Archiver};
use shop_domain::ItemId;

use super::{ExitResult, parse};

/// How long one item may take; the next call goes on.
const ITEM_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The arguments: which items are archived.
#[derive(clap::Args)]
pub struct Arguments {
    /// One item; all whose sale ended long enough ago if it is left out.
    #[arg(long, value_parser = parse::item)]
    item: Option<ItemId>,
    /// Only say what would be archived, and what keeps the others.
    #[arg(long, conflicts_with = "item")]
    dry_run: bool,
    /// How many days ago a sale must have ended; `retention.after_days` if it is left out.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    after_days: Option<u32>,
}

/// Archives items. Exit 1 when one that was asked for, or whose archive has begun, could not be archived.
pub async fn run(file: Option<&Path>, arguments: &Arguments) -> ExitResult {
    let config = super::settings(file)?;
    let mut settings = config.retention.clone();
    settings.after_days = arguments.after_days.unwrap_or(settings.after_days);
    if settings.after_days == 0 {
        return super::refuse("retention.after_days is 0: set it, or say --after-days");
    }
    if settings.dir.as_os_str().is_empty() {
        return super::refuse("retention.dir is not set: the files need a folder");
    }
    let ledgers = super::ledgers::open(&config)?;
    let archiver = Archiver::new(ledgers.clone(), settings);
    if let Some(item) = arguments.item {
        return match archiver.archive(item, Instant::now() + ITEM_MAX).await {
            Ok(archived) => {
                print(item, &archived);
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => super::refuse(format_args!("item {item}: {error}")),
        };
    }
    let (mut archived, mut failed) = (0, 0);
    for (shard, _) in ledgers.iter() {
        let mut after = 0;
        loop {
            let ripe = archiver.ripe(shard, after).await.map_err(|error| error.to_string())?;
            let Some((last, _)) = ripe.last() else { break };
            after = last.get();
            for (item, open) in ripe {
                let done = match open {
                    Some(open) => Err(ArchiveError::Open(open)),
                    None if arguments.dry_run => {
                        println!("item {item} would be archived");
                        continue;
                    }
                    None => archiver.archive(item, Instant::now() + ITEM_MAX).await,
                };
                match done {
                    Ok(done) => {
                        print(item, &done);
                        archived += 1;
                    }
                    Err(error) => {
                        println!("item {item} stays: {error}");
                        failed += usize::from(error.is_fault());
                    }
                }
            }
        }
    }
    println!("{archived} items archived");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print(item: ItemId, ArchiveResult { orders, file, is_ended }: &ArchiveResult) {
    let rest = match is_ended {
        true => "",
        false => {
            "; orders are left whose other items are not archived yet: run this again after them"
        }
    };
    println!("item {item}: {orders} orders archived now; the file is {file}{rest}");
}

//! Archiving: orders of sales that ended long ago leave the ledger for files in `retention.dir`.
//!
//! The transactions are in `ledger::archive`; this module writes the file between them, reads it back, and compares
//! it with the ledger before anything is deleted. An archiver that dies is replaced by another one, which goes on
//! where it was.

mod file;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::audit::audit;
use crate::config;
use ledger::Ledger;
use ledger::archive::{self, Archive, ArchiveEnd, ArchiveLock};
use ledger::route::{Shards, Unreachable};
use shop_domain::{ItemId, ItemRoute, OrderId, ShardId};
use shop_metrics::archive::ArchiveMetrics;

/// Lines that wait for a slow disk.
const LINES_MAX: usize = 1_000;

/// The reason why an item is not archived, or not yet.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Something is open; nothing changed.
    #[error("{0}")]
    Open(String),
    /// Another archiver or a mover works on the item.
    #[error("another archiver or a move works on it")]
    Busy,
    /// The file.
    #[error("its file: {0}")]
    File(#[from] io::Error),
    /// The file of another item.
    #[error("the file of item {0}, which has lines of its orders: {1}")]
    FileOfOther(ItemId, io::Error),
    /// The ledger.
    #[error("the ledger: {0}")]
    Ledger(#[from] ledger::Error),
    /// The home ledger.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
}

impl ArchiveError {
    /// Whether somebody should look at it; the other reasons pass.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::Open(_) | Self::Busy)
    }
}

/// What became of an item.
#[derive(Clone, Debug)]
pub struct ArchiveResult {
    /// Orders that have left the ledger in this run.
    pub orders: usize,
    /// The file.
    pub file: String,
    /// Whether nothing is left to do. What is left is for the next run: orders with lines of an item whose file is
    /// not written yet, or whatever there was no time for.
    pub is_ended: bool,
}

/// What one look at the ended sales has done.
#[derive(Debug, Default)]
pub struct ArchiveRun {
    /// Items of which nothing is left to do.
    pub items: usize,
    /// Orders that have left the ledger.
    pub orders: usize,
    /// Items that something keeps in the ledger, with the reason.
    pub kept: Vec<(ItemId, ArchiveError)>,
}

/// Archives the orders of ended sales. Clones share everything.
#[derive(Clone)]
pub struct Archiver {
    ledgers: Shards<Ledger>,
    settings: config::Retention,
    metrics: ArchiveMetrics,
}

impl Archiver {
    /// Makes an archiver of these ledgers.
    #[must_use]
    pub fn new(ledgers: Shards<Ledger>, settings: config::Retention) -> Self {
        Self { ledgers, settings, metrics: ArchiveMetrics::default() }
    }

    /// Counts in these metrics.
    #[must_use]
    pub fn counting(self, metrics: ArchiveMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Lists the items of one ledger behind `after` that may be archived, each with what keeps it.
    pub async fn ripe(
        &self,
        shard: ShardId,
        after: i64,
    ) -> Result<Vec<(ItemId, Option<String>)>, ArchiveError> {
        let (pool, days) = (&self.ledgers.at(shard).pool, self.settings.after_days);
        let items = archive::ripe(pool, days, after).await?;
        let mut found = Vec::new();
        for ItemRoute { item, .. } in self.ledgers.homes().routed_in(shard, items).await? {
            found.push((item, archive::what_is_open(pool, item, days).await?));
        }
        Ok(found)
    }

    /// Archives the items of one ledger until `until`.
    pub async fn run(&self, shard: ShardId, until: Instant) -> Result<ArchiveRun, ArchiveError> {
        let (mut run, mut after) = (ArchiveRun::default(), 0);
        loop {
            let ripe = self.ripe(shard, after).await?;
            let Some((last, _)) = ripe.last() else { return Ok(run) };
            after = last.get();
            for (item, open) in ripe {
                if Instant::now() >= until {
                    return Ok(run);
                }
                let archived = match open {
                    Some(open) => Err(ArchiveError::Open(open)),
                    None => self.archive(item, until).await,
                };
                match archived {
                    Ok(archived) => {
                        run.items += usize::from(archived.is_ended);
                        run.orders += archived.orders;
                    }
                    Err(error) => {
                        self.metrics.failures.inc_by(error.is_fault().into());
                        run.kept.push((item, error));
                    }
                }
            }
        }
    }

    /// Archives an item, or goes on with it, until `until`: what is left then is for the next run.
    pub async fn archive(
        &self,
        item: ItemId,
        until: Instant,
    ) -> Result<ArchiveResult, ArchiveError> {
        let lock = ArchiveLock::take(&self.ledgers.home().pool, item).await?;
        let _lock = lock.ok_or(ArchiveError::Busy)?;
        // Under the lock: no move begins any more.
        let home = self.ledgers.homes().find_again(item).await?;
        let (ledger, routed) = (self.ledgers.at(home.shard), ItemRoute { item, home });
        let open = |why: &str| ArchiveError::Open(why.to_owned());
        let audited = audit(&ledger.pool, None, item).await?;
        if !audited.ok_or_else(|| open("there is no such item"))?.is_clean() {
            return Err(open("its audit is not clean"));
        }
        if let Some(what) = archive::begin(ledger, routed, self.settings.after_days).await? {
            return Err(ArchiveError::Open(what));
        }
        failpoint!("archive-begun");
        let known = archive::find(&ledger.pool, item).await?;
        let Archive { mut file, digest, is_ended } = known.ok_or(ledger::Error::RowNotFound)?;
        let mut orders = 0;
        if is_ended {
            return Ok(ArchiveResult { orders, file, is_ended });
        }
        if file.is_empty() {
            file = self.write(ledger, routed).await?;
        } else {
            self.check(file.clone(), digest).await?;
        }
        let others = self.others(ledger, item).await?;
        let limit = self.settings.chunk_orders_max;
        loop {
            let left = archive::remove_chunk(ledger, routed, &others, limit).await?;
            failpoint!("archive-chunk-removed");
            orders += left;
            self.metrics.orders.inc_by(left as u64);
            let end = match left {
                0 => archive::end(ledger, routed, limit).await?,
                _ => ArchiveEnd::More,
            };
            if end != ArchiveEnd::More || Instant::now() >= until {
                let is_ended = end == ArchiveEnd::Ended;
                tracing::info!(%item, orders, file, is_ended, "orders archived");
                return Ok(ArchiveResult { orders, file, is_ended });
            }
            tokio::time::sleep(Duration::from_millis(self.settings.pause_ms)).await;
        }
    }

    /// Writes the file of a closed item, compares it with the ledger, and records it. Returns its name.
    async fn write(&self, ledger: &Ledger, routed: ItemRoute) -> Result<String, ArchiveError> {
        let prefix = format!("item-{}-", routed.item);
        let name = format!("{prefix}{}.jsonl.gz", OrderId::generate());
        let (sender, mut lines) = mpsc::channel(LINES_MAX);
        let (dir, file) = (self.settings.dir.clone(), name.clone());
        let write = blocking(move || {
            file::remove_parts(&dir, &prefix)?;
            file::write(&dir, &file, &mut lines)
        });
        let copy = async {
            let copied = archive::copy_rows(&ledger.pool, routed.item, &sender).await;
            drop(sender);
            copied
        };
        let (written, copied) = tokio::join!(write, copy);
        written?;
        copied?;
        failpoint!("archive-file-written");
        let (dir, file) = (self.settings.dir.clone(), name.clone());
        let (digest, sums) = blocking(move || file::read_back(&dir, &file)).await?;
        if sums != archive::sums(&ledger.pool, routed.item).await? {
            let error = io::Error::other("it does not add up to the ledger");
            return Err(error.into());
        }
        let (dir, file) = (self.settings.dir.clone(), name.clone());
        blocking(move || file::publish(&dir, &file)).await?;
        archive::record_file(ledger, routed, (&name, &digest), &sums).await?;
        failpoint!("archive-file-recorded");
        // Another archiver, whose lock was lost, may have been quicker: then its file is the one.
        let known = archive::find(&ledger.pool, routed.item).await?;
        Ok(known.ok_or(ledger::Error::RowNotFound)?.file)
    }

    /// Checks that the file of an item is here as it was recorded: what is still in the ledger must not be deleted
    /// without it.
    async fn check(&self, file: String, recorded: String) -> io::Result<()> {
        let dir: PathBuf = self.settings.dir.clone();
        if blocking(move || file::digest(&dir, &file)).await? == recorded {
            return Ok(());
        }
        Err(io::Error::other("it is not as it was written"))
    }

    /// Lists the other items of an item's orders whose files are recorded, and checks each file like its own.
    async fn others(&self, ledger: &Ledger, item: ItemId) -> Result<Vec<ItemId>, ArchiveError> {
        let others = archive::sharing(&ledger.pool, item).await?;
        for other in &others {
            let known = archive::find(&ledger.pool, *other).await?;
            let Archive { file, digest, .. } = known.ok_or(ledger::Error::RowNotFound)?;
            let checked = self.check(file, digest).await;
            checked.map_err(|error| ArchiveError::FileOfOther(*other, error))?;
        }
        Ok(others)
    }
}

/// Runs work on files on a thread that may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

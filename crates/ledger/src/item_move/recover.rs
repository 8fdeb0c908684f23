//! Brings an item back whose home does not have it, such as after the restore of an old backup.
//!
//! Either one other ledger has the item: then the home ledger has forgotten a move. Or none has it: then the
//! ledger that it left last has kept its rows. In both cases the item gets an epoch that was never used.

use std::collections::BTreeMap;

use crate::Database;
use time::OffsetDateTime;

use super::close::{OPEN_COPY, epoch_of, tried};
use super::copy::{self, CHUNK_ROWS, Layout, Values};
use super::tables::{ITEM_TABLES, RowPolicy};
use super::{MoveError, Mover};
use crate::rows::kept_rows::{self, KeptMove, KeptRow};
use crate::rows::{answered, confirmed, moves, transact};
use shop_domain::{ItemId, ShardId};

/// An item that lives again.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryResult {
    /// The ledger where it lives.
    pub home: ShardId,
    /// The epoch of the routes to it.
    pub epoch: u64,
    /// When it left this ledger, if its kept rows were brought back: what was sold later is not among them.
    pub as_of: Option<OffsetDateTime>,
}

impl Mover {
    /// Brings an item back whose home has no stock row of its epoch. All ledgers must answer.
    pub async fn recover(&self, item: ItemId) -> Result<RecoveryResult, MoveError> {
        let _lock = self.lock(item).await?;
        let refused = |sentence: String| Err(MoveError::NotRecovered(sentence));
        if moves::under_way(self.home()?, item).await?.is_some() {
            return refused("a move of the item is under way: end it first".to_owned());
        }
        let known = moves::home(self.home()?, item).await?;
        let mut found = Vec::new();
        let mut kept: Option<(ShardId, KeptMove)> = None;
        for (shard, pool) in &self.ledgers {
            // A copy that was never complete is none.
            let epoch = epoch_of(pool, item).await?.filter(|epoch| *epoch != OPEN_COPY);
            found.extend(epoch.map(|epoch| (*shard, epoch)));
            let here = kept_rows::newest(pool, item).await?.map(|here| (*shard, here));
            kept = kept.into_iter().chain(here).max_by_key(|(_, kept)| kept.epoch);
        }
        if found.contains(&known) {
            return refused(format!("the item lives in shard {}, where its home says", known.0));
        }
        let used = found.iter().map(|(_, epoch)| *epoch).chain(kept.map(|(_, kept)| kept.epoch));
        let used = used.chain([known.1, moves::last_epoch(self.home()?, item).await?]);
        let epoch = used.max().unwrap_or_default() + 1;
        let (home, as_of) = match (found.as_slice(), kept) {
            (&[(shard, _)], _) => {
                self.raise(shard, item, epoch).await?;
                (shard, None)
            }
            ([], Some((shard, kept))) => {
                self.bring_back(shard, (item, kept.epoch), epoch).await?;
                (shard, Some(kept.at))
            }
            ([], None) => {
                return refused(
                    "no ledger has a stock row of the item, or rows of it that were kept: only a backup has it"
                        .to_owned(),
                );
            }
            (several, _) => {
                let shards: Vec<_> = several.iter().map(|(shard, _)| shard.to_string()).collect();
                return refused(format!(
                    "shards {} have a stock row of the item each, and none is the one that its home names",
                    shards.join(" and ")
                ));
            }
        };
        moves::place(self.home()?, item, home, epoch).await?;
        Ok(RecoveryResult { home, epoch, as_of })
    }

    /// Deletes rows that items have left behind in any ledger, `hours` after they were moved.
    ///
    /// # Errors
    /// The first ledger's that does not answer; the others are done.
    pub async fn forget_kept_rows(&self, hours: u32) -> sqlx::Result<()> {
        let mut ended = Ok(());
        for pool in self.ledgers.values() {
            if let Err(error) = kept_rows::delete_older(pool, hours).await {
                ended = ended.and(Err(error));
            }
        }
        ended
    }

    /// Gives the stock row of an item its new epoch.
    async fn raise(&self, shard: ShardId, item: ItemId, epoch: u64) -> Result<(), MoveError> {
        let pool = self.ledger(shard)?;
        let raise = || async move {
            let raised = sqlx::query("UPDATE stock SET home_epoch = ? WHERE item_id = ?");
            let raised = raised.bind(epoch).bind(item.get()).execute(pool);
            confirmed(pool, answered(raised)).await
        };
        match tried(raise).await?.rows_affected() {
            1 => Ok(()),
            _ => Err(MoveError::NotRecovered(format!("ledger {shard} has no stock row of it"))),
        }
    }

    /// Writes the kept rows of a move into their tables. The stock row comes last, with the new epoch: until
    /// then the same command begins anew.
    async fn bring_back(
        &self,
        shard: ShardId,
        of: (ItemId, u64),
        epoch: u64,
    ) -> Result<(), MoveError> {
        let pool = self.ledger(shard)?;
        let mut layouts = BTreeMap::new();
        for table in ITEM_TABLES.iter().filter(|table| table.fate != RowPolicy::Shared) {
            layouts.insert(table.name, copy::layout(pool, *table).await?);
        }
        let (mut after, mut stock) = (0, None);
        loop {
            let rows = kept_rows::read(pool, of, after, CHUNK_ROWS).await?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            let mut tables: BTreeMap<&str, (&Layout, Vec<Values>)> = BTreeMap::new();
            for row in &rows {
                let (layout, values) = values_of(&layouts, row)?;
                match layout.table.name {
                    "stock" => stock = Some((layout, values)),
                    name => tables.entry(name).or_insert((layout, Vec::new())).1.push(values),
                }
            }
            for (layout, rows) in tables.values() {
                tried(|| write(pool, (layout, rows), None)).await?;
            }
        }
        let Some((layout, values)) = stock else {
            return Err(MoveError::NotRecovered("the kept rows are not complete".to_owned()));
        };
        let rows = [values];
        tried(|| write(pool, (layout, &rows), Some((of.0, epoch)))).await?;
        Ok(())
    }
}

/// Writes rows of one table, and then gives the item's stock row its epoch.
async fn write(
    pool: &Database,
    (layout, rows): (&Layout, &[Values]),
    raised: Option<(ItemId, u64)>,
) -> sqlx::Result<()> {
    transact(pool, |transaction| {
        Box::pin(async move {
            layout.write(transaction, rows).await?;
            if let Some((item, epoch)) = raised {
                let raise = sqlx::query("UPDATE stock SET home_epoch = ? WHERE item_id = ?");
                raise.bind(epoch).bind(item.get()).execute(&mut **transaction).await?;
            }
            Ok(())
        })
    })
    .await
}

/// The table of a kept row, and the row's columns in the order of the table.
fn values_of<'l>(
    layouts: &'l BTreeMap<&str, Layout>,
    row: &KeptRow,
) -> Result<(&'l Layout, Values), MoveError> {
    let content = serde_json::from_str(&row.content).ok();
    let layout = layouts.get(row.table_name.as_str());
    let (Some(layout), Some(content)) = (layout, content) else {
        let sentence = format!("a kept row of `{}` cannot be read", row.table_name);
        return Err(MoveError::NotRecovered(sentence));
    };
    Ok((layout, layout.values_of(content)))
}

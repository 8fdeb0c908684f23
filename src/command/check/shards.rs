//! Checks of several ledgers together: whether each has the items that live there.

use std::sync::Arc;

use ledger::Database;

use super::{Finding, State, mysql};
use crate::config::Config;
use ledger::rows::homes;
use shop_domain::ShardId;

/// The name of the check.
const CHECK: &str = "ledger.shards";
/// Items of each ledger that are looked up.
const LOOKED_UP_MAX: u32 = 20;

/// Runs all checks of the ledgers, the home ledger first. Returns the findings about the home ledger, and
/// those about the others: they may be away while it sells.
pub async fn check(ledgers: &[(Arc<Config>, Database)]) -> (Vec<Finding>, Vec<Finding>) {
    let Some(((config, home), others)) = ledgers.split_first() else {
        return (Vec::new(), Vec::new());
    };
    let mut findings = mysql::check(config, home).await;
    if findings.iter().any(|finding| finding.state >= State::Waiting) {
        return (findings, Vec::new());
    }
    if others.is_empty() {
        findings.extend(check_only(home).await);
        return (findings, Vec::new());
    }
    let mut of_others = Vec::new();
    for (index, (config, pool)) in others.iter().enumerate() {
        let number = index + 1;
        let mut found = mysql::check(config, pool).await;
        if found.iter().all(|finding| finding.state < State::Waiting) {
            found.push(check_items(number, home, pool).await);
        }
        of_others.extend(found.into_iter().map(|finding| Finding {
            found: format!("shard {number}: {}", finding.found),
            ..finding
        }));
    }
    (findings, of_others)
}

/// With one ledger no route is looked up, so no item may live elsewhere.
async fn check_only(home: &Database) -> Option<Finding> {
    match homes::find_moved(home).await {
        Ok(None) => None,
        Ok(Some(item)) => Some(Finding::bad(
            CHECK,
            State::Failed,
            format!("item {item} lives in another ledger, or has been moved"),
            "name every ledger in [shards]; see docs/shards.md",
        )),
        Err(error) => Some(Finding::bad(
            CHECK,
            State::Waiting,
            format!("the table of the items' homes could not be read: {error}"),
            "run `seckill migrate`",
        )),
    }
}

/// Two URLs that were swapped would have a ledger be asked for the items of another one.
async fn check_items(number: usize, home: &Database, pool: &Database) -> Finding {
    let read = async {
        let newest = homes::newest_items(pool, LOOKED_UP_MAX).await?;
        let homes = homes::find_several(home, &newest).await?;
        let lives_here = |shard: ShardId| shard.index() == number;
        let here = newest
            .iter()
            .filter(|item| homes.get(item).is_some_and(|(shard, _)| lives_here(*shard)));
        Ok::<_, ledger::Error>((here.count(), newest.len()))
    };
    match read.await {
        Ok((0, 1..)) => Finding::bad(
            CHECK,
            State::Failed,
            "it has items, and none of the newest lives there by the home ledger",
            "check the URLs in [shards]: two of them may be swapped",
        ),
        Ok(_) => Finding::ok(CHECK, "its newest items live there"),
        Err(error) => Finding::bad(
            CHECK,
            State::Waiting,
            format!("its items could not be looked up: {error}"),
            "wait for the database server",
        ),
    }
}

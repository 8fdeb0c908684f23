//! Creates the items that many loads sell.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use loadtest::failure::CannotJudge;
use loadtest::options::RunOptions;
use loadtest::service::Admin;

/// Requests for a new item that are under way at once.
const MAKING_MAX: usize = 32;
/// No further item is made after this time; a load that needs more items fails.
const MAKING_SECONDS_MAX: u64 = 45;

/// Makes up to `count` items with `stock` units each; fewer when it takes too long. By id, so that
/// neighbours lie together.
pub async fn create(
    admin: &Arc<Admin>,
    options: &RunOptions,
    stock: i64,
    count: u32,
) -> Result<Vec<i64>, CannotJudge> {
    let until = Instant::now() + Duration::from_secs(MAKING_SECONDS_MAX);
    let mut made = Vec::with_capacity(count as usize);
    let mut under_way = JoinSet::new();
    for _ in 0..count {
        if Instant::now() >= until {
            break;
        }
        if under_way.len() >= MAKING_MAX {
            take_finished(&mut under_way, &mut made).await?;
        }
        let admin = Arc::clone(admin);
        let options = options.clone();
        under_way.spawn(async move { admin.create_lab_item(&options, stock).await });
    }
    while !under_way.is_empty() {
        take_finished(&mut under_way, &mut made).await?;
    }
    made.sort_unstable();
    Ok(made)
}

async fn take_finished(
    under_way: &mut JoinSet<Result<i64, CannotJudge>>,
    made: &mut Vec<i64>,
) -> Result<(), CannotJudge> {
    if let Some(ended) = under_way.join_next().await {
        made.push(ended.map_err(|error| CannotJudge(error.to_string()))??);
    }
    Ok(())
}

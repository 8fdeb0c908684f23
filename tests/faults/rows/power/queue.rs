//! The power of the Redis that has the queue is cut, while the ledger is frozen so that orders wait in the queue.

use forgetful_disk::{ForgetfulDisk, Survives};

use super::{cuts_of, no_disk};
use crate::checker::QueueCut;
use crate::prelude::*;
use crate::testbed::OwnRedis;

/// Orders come all the time, also while the ledger is frozen.
const STEADY: Pace = Pace { clients: 16, per_second: 100.0 };
/// Further cuts while none has taken anything: a flush of the last second may have come just before.
const CUTS_MORE: u32 = 10;
/// Units for one cut; a quarter of them is left for afterwards.
const STOCK_PER_CUT: i64 = 600;
/// Orders between two cuts, at least.
const SOLD_BEFORE_CUT: u64 = 20;
/// How long the ledger is frozen before the cut, in milliseconds.
const FROZEN_MS: std::ops::Range<u64> = 300..900;
/// What `appendfsync everysec` may lose, as docs/promises.md says it.
const EVERY_SECOND_LOSES: Duration = Duration::from_secs(2);

/// With `appendfsync always` the queue is kept: no order is lost. With `everysec` orders of the last two seconds may be,
/// and no others.
pub async fn cut(testbed: &mut Testbed, seed: u64, is_kept: bool) -> TrialResult {
    let cuts = cuts_of(testbed);
    let cuts_max = cuts + CUTS_MORE;
    let fsync = if is_kept { "appendfsync always" } else { "appendfsync everysec" };
    let OwnRedis { mut server, folder } = testbed.own_redis(&[fsync]).await?;
    server.stop().await;
    let disk = match ForgetfulDisk::over(&folder.join("data")) {
        Ok(disk) => disk,
        Err(error) => return Ok(left_out(&no_disk(&error))),
    };
    server.restart().await.said()?;
    let setup = testbed.setup().with("REDIS_URL", server.url());
    let mut plan = Plan::new(seed, Wanted::These(&["redis-stream"]), &setup);
    plan.stock = i64::from(cuts_max) * STOCK_PER_CUT;
    (plan.pace, plan.control) = (STEADY, false);
    if !is_kept {
        plan.allowed.queue_may_be_lost = true;
        plan.allowed.queue_cuts = Some(QueueCut::within(EVERY_SECOND_LOSES));
    }
    let trial = run_trial(testbed, plan, async |testbed, trial| {
        let mut bytes = 0;
        for cut in 1..=cuts_max {
            trial.until_sold(SOLD_BEFORE_CUT).await?;
            testbed.mysql.pause();
            sleep(Duration::from_millis(trial.random.random_range(FROZEN_MS))).await;
            disk.cut();
            let now_us = trial.workload.now_us();
            if let Some(queue) = &mut trial.allowed.queue_cuts {
                queue.at_us.push(now_us);
            }
            server.kill().await;
            trial.injections += 1;
            bytes += disk.power_on(Survives::Nothing).said()?.bytes;
            testbed.mysql.resume();
            let is_last = cut == cuts_max || cut >= cuts && (bytes > 0 || is_kept);
            if is_last {
                trial.fault_ended();
            }
            server.restart().await.said()?;
            if is_last {
                break;
            }
        }
        let cuts = trial.injections;
        proven(bytes > 0 || is_kept, format!("{cuts} cuts; {bytes} bytes were forgotten"))
    });
    let trial = trial.await;
    testbed.mysql.resume();
    server.stop().await;
    trial
}

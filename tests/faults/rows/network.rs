//! Links that break: to the database, to Redis.

use crate::prelude::*;

/// How much later everything comes.
pub const LATE: Duration = Duration::from_millis(200);
/// How long nothing gets through: longer than any time-out of the service, so that it has to leave
/// its connections and find the new way by itself.
const HOLE: Duration = Duration::from_secs(60);
/// The pause between two bytes.
pub const BYTE: Duration = Duration::from_secs(1);

pub async fn to_mysql(testbed: &mut Testbed, seed: u64, link: Link) -> TrialResult {
    let wire = FaultyLink::to(testbed.mysql.port()).await.said()?;
    let setup = testbed.setup().with("DATABASE_URL", testbed.ledger_url_by(wire.port()));
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |_, _| broken(&wire, link).await).await
}

pub async fn to_redis(testbed: &mut Testbed, seed: u64, link: Link) -> TrialResult {
    let wire = FaultyLink::to(testbed.redis.port()).await.said()?;
    let setup =
        testbed.setup().with("REDIS_URL", Testbed::redis_url_by(&testbed.redis, wire.port()));
    let plan = Plan::new(seed, Wanted::Needing("redis"), &setup);
    run_trial(testbed, plan, async |_, _| broken(&wire, link).await).await
}

async fn broken(wire: &FaultyLink, link: Link) -> Run<String> {
    let before = wire.bites();
    link.begin(wire);
    sleep(if link == Link::BlackHole { HOLE } else { FAULT }).await;
    wire.mend();
    let bites = wire.bites() - before;
    proven(bites > 0, format!("{bites} connections or pieces were broken or held back"))
}

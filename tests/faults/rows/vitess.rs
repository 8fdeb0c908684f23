//! The ledger on a cluster of Vitess: vtgate or a tablet is lost, or another tablet becomes the primary.

use dev_servers::{ONLY_SHARD, VitessCluster, VitessServer};

use crate::prelude::*;

/// After its primary is gone, a shard needs one tablet that becomes it, and one more that a commit waits for.
const TABLETS: u32 = 3;
/// The strategies that are known to work on Vitess.
const TRIED: Wanted = Wanted::These(&[
    "mysql-atomic",
    "mysql-batch",
    "mysql-for-update",
    "mysql-version",
    "lock-redis",
    "redis-lua",
]);

pub async fn gate_killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    disturbed(testbed, seed, async |cluster| {
        let gate = cluster.gate();
        let pid = gate.pid();
        gate.kill().await;
        gate.restart().await.said()?;
        proven(gate.pid() != pid, format!("vtgate {pid} was gone"))
    })
    .await
}

pub async fn tablet_killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    disturbed(testbed, seed, async |cluster| {
        let killed = cluster.kill_tablet(ONLY_SHARD).await.said()?;
        cluster.restart_tablet(killed).await.said()?;
        proven(true, format!("tablet {killed} was gone"))
    })
    .await
}

pub async fn killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    disturbed(testbed, seed, async |cluster| {
        let old = cluster.kill_primary(ONLY_SHARD).await.said()?;
        cluster.take_over(ONLY_SHARD).await.said()?;
        replaced(cluster, old).await
    })
    .await
}

pub async fn demoted(testbed: &mut Testbed, seed: u64) -> TrialResult {
    disturbed(testbed, seed, async |cluster| {
        let old = cluster.primary_of(ONLY_SHARD).await.said()?;
        cluster.hand_over(ONLY_SHARD).await.said()?;
        replaced(cluster, old).await
    })
    .await
}

/// The proof that another tablet is the primary.
async fn replaced(cluster: &VitessCluster, old: u32) -> Run<String> {
    let new = cluster.primary_of(ONLY_SHARD).await.said()?;
    proven(new != old, format!("tablet {new} after {old}"))
}

/// A trial on a cluster that is disturbed once. The audit reads the server of the primary.
async fn disturbed(
    testbed: &mut Testbed,
    seed: u64,
    disturb: impl AsyncFnOnce(&mut VitessCluster) -> Run<String>,
) -> TrialResult {
    // It is built from its Go module.
    if let Err(missing) = VitessServer::programs() {
        return Ok(left_out(&missing.to_string()));
    }
    let mut cluster = VitessCluster::start_temporary(TABLETS).await.said()?;
    Testbed::migrate(&cluster.url()).await?;
    let setup = testbed.setup_of_new_ledger().with("DATABASE_URL", cluster.url());
    let plan = Plan::new(seed, TRIED, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        trial.wait_a_moment(MOMENT_MS).await;
        let proof = disturb(&mut cluster).await;
        trial.fault_ended();
        let primary = cluster.primary_url(ONLY_SHARD).await.said()?;
        testbed.ledger_elsewhere = Some(primary);
        proof
    })
    .await
}

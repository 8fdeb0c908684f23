//! The ledger on two servers that replicate: the writer is lost, and its replica takes over. Rows of the fault matrix
//! freeze it, and lose it while its replica is behind.

use dev_servers::Replication;
use mysql_connection::replication::{self, read_from};

use crate::ledger::failover::execute;
use crate::support::crowd::{Crowd, ENOUGH, assert_nothing_lost, metric, on, until_figure};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writer_is_killed_or_demoted_and_its_replica_loses_no_accepted_order() {
    let (mut pair, shop, instance) = on(Replication::SemiSync).await;
    assert_eq!(metric(&instance, "seckill_ledger_writer_changes_total").await, 0.0);
    let crowd = Crowd::enters(&instance).await;
    crowd.has_bought(ENOUGH).await;
    pair.member(0).kill().await;
    pair.take_over().await.expect("the replica takes over");
    crowd.has_bought(ENOUGH).await;
    // It comes back as a replica of the new writer, and takes no writes.
    pair.member(0).restart().await.expect("it starts again");
    pair.rejoin(0).await.expect("it replicates");
    crowd.has_bought(ENOUGH).await;
    // The way back, by hand. What was committed before is on its way to the first one.
    execute(&pair, 1, "SET GLOBAL read_only = 1").await;
    pair.take_over().await.expect("the first one takes over again");
    crowd.has_bought(ENOUGH).await;
    pair.rejoin(1).await.expect("the demoted one replicates");
    assert_nothing_lost(&shop, &instance, &crowd.leaves().await).await;
    assert_eq!(metric(&instance, "seckill_ledger_writer_changes_total").await, 2.0);
    assert_eq!(metric(&instance, "seckill_ledger_writer").await, 1.0);
    assert_eq!(metric(&instance, "seckill_ledger_writers").await, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fallback_to_asynchronous_replication_is_shown() {
    let (pair, shop, instance) = on(Replication::SemiSync).await;
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!(ready.json["dependencies"]["mysql_replication"], "ok", "{}", ready.text);
    assert_eq!(metric(&instance, "seckill_ledger_replicas_stopped").await, 0.0);
    let crowd = Crowd::enters(&instance).await;
    crowd.has_bought(ENOUGH).await;
    execute(&pair, 1, "STOP SLAVE").await;
    // The first commits wait for the replica; then the writer goes on without it.
    crowd.has_bought(ENOUGH).await;
    let ready = instance.stranger().get("/readyz").await;
    let said = ready.json["dependencies"]["mysql_replication"].as_str().unwrap_or_default();
    assert!(said.starts_with("asynchronous"), "{}", ready.text);
    until_figure(&instance, "seckill_ledger_replication_fault", |fault| fault > 0.5).await;
    until_figure(&instance, "seckill_ledger_replicas_stopped", |stopped| stopped > 0.5).await;
    let unacknowledged = match read_from(&shop.pool).await.expect("it answers") {
        replication::Replication::SemiSynchronous { active: false, unacknowledged, .. } => {
            unacknowledged
        }
        other => panic!("{other}"),
    };
    assert!(unacknowledged > 0);
    assert_nothing_lost(&shop, &instance, &crowd.leaves().await).await;
}

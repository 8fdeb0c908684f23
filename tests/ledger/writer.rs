//! The ledger on two servers that replicate: the writer is lost, and its replica takes over.

use dev_servers::{MysqlSet, Replication};
use mysql_connection::replication::{self, read_from};
use sqlx::Executor;

use crate::support::crowd::{
    Crowd, ENOUGH, RECOVERY_MAX, assert_nothing_lost, lost, metric, on, until_figure,
};
use crate::support::{Instance, Shop, until};

/// A pair of servers, a shop on it, and an instance.
async fn on_a_pair() -> (MysqlSet, Shop, Instance) {
    on(Replication::SemiSync).await
}

async fn execute(pair: &MysqlSet, place: usize, statement: &str) {
    let mut operator = pair.operator(place).await.expect("it answers");
    operator.execute(sqlx::raw_sql(statement)).await.expect(statement);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writer_is_killed_or_demoted_and_its_replica_loses_no_accepted_order() {
    let (mut pair, shop, instance) = on_a_pair().await;
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
async fn a_frozen_writer_that_wakes_up_after_its_replacement_is_not_followed() {
    let (mut pair, shop, instance) = on_a_pair().await;
    let crowd = Crowd::enters(&instance).await;
    crowd.has_bought(ENOUGH).await;
    assert!(pair.member(0).pause());
    pair.take_over().await.expect("the replica takes over");
    crowd.has_bought(ENOUGH).await;
    // It still believes that it is the writer: nobody could tell it.
    assert!(pair.member(0).resume());
    until_figure(&instance, "seckill_ledger_writers", |writers| writers > 1.5).await;
    assert_eq!(metric(&instance, "seckill_ledger_writers_in_conflict").await, 1.0);
    crowd.has_bought(ENOUGH).await;
    assert_nothing_lost(&shop, &instance, &crowd.leaves().await).await;
    assert_eq!(metric(&instance, "seckill_ledger_writer").await, 2.0);
    assert_eq!(metric(&instance, "seckill_ledger_writer_changes_total").await, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fallback_to_asynchronous_replication_is_shown_and_its_loss_can_be_named() {
    let (mut pair, shop, instance) = on_a_pair().await;
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
    crowd.has_bought(ENOUGH).await;
    let accepted = crowd.leaves().await;
    pair.member(0).kill().await;
    pair.take_over().await.expect("the replica takes over");
    // The ledger of the replica is older, and in order. Exactly the accepted orders are missing
    // that were committed after it was cut off.
    let lost = lost(&shop, &accepted).await;
    let all: usize = accepted.iter().map(|(_, orders)| orders.len()).sum();
    assert!(!lost.is_empty() && lost.len() < all, "{} of {all} are lost", lost.len());
    for (item, _) in &accepted {
        let audit =
            until(RECOVERY_MAX, || instance.audit(*item), |it| it["findings"].is_array()).await;
        let findings: Vec<_> = audit["findings"].as_array().into_iter().flatten().collect();
        let is_clean = findings.iter().all(|one| one["holds"] != false || one["invariant"] == "I7");
        assert!(is_clean, "{audit}");
    }
}

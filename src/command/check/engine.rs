//! The check of the database's engine: its settings, and whether a set of hosts may lose orders when
//! one of them takes over.

use crate::config::{Config, Risk};
use mysql_connection::engine::Engine;
use mysql_connection::hosts;
use mysql_connection::replication::Replication;

use super::{Finding, State};

/// The name of the check.
pub const CHECK: &str = "ledger.engine";

/// Checks what a failover may lose.
pub fn check(config: &Config, engine: &Engine) -> Vec<Finding> {
    let mut findings = vec![Finding::ok(CHECK, engine.to_string())];
    let is_vitess = matches!(engine.replication, Replication::Vitess { .. });
    if is_vitess || hosts::read(config.database_url.reveal()).is_ok_and(|all| all.len() > 1) {
        findings.extend(check_losses(config, engine));
    }
    if let Replication::Vitess { primaries, .. } = engine.replication {
        // One primary has what does not belong to an item.
        findings.extend(check_shards(config, primaries.saturating_sub(1)));
    }
    findings
}

/// Checks the settings that items in shards need.
fn check_shards(config: &Config, shards: u64) -> Option<Finding> {
    let queues = config.mysql.shared_queues;
    if u64::from(queues) >= shards {
        return None;
    }
    let found = format!(
        "mysql.shared_queues = {queues}, and items are in {shards} shards: each item has batches of its own"
    );
    let remedy = "set mysql.shared_queues to the number of shards, or to a multiple";
    Some(Finding::bad(CHECK, State::Warning, found, remedy))
}

fn check_losses(config: &Config, engine: &Engine) -> Vec<Finding> {
    let fault = engine.replication.fault().map(|fault| {
        let found = format!("replication of the ledger: {fault}");
        let remedy = "see SeckillCommitsUnprotected in docs/operations.md";
        Finding::bad(CHECK, State::Warning, found, remedy)
    });
    let losses = failover_losses(engine).into_iter();
    let losses = losses.map(|found| Finding::risk(config, CHECK, Risk::LossyFailover, found));
    fault.into_iter().chain(losses).collect()
}

/// The ways in which another host that takes over may lack orders that were answered 201, in
/// sentences. A commit on one server alone is as safe as its disk.
pub fn failover_losses(engine: &Engine) -> Vec<&'static str> {
    match &engine.replication {
        Replication::None => {
            vec!["the writer has no binary log, so no other host can have its orders"]
        }
        Replication::Asynchronous => vec![
            "the writer answers a COMMIT before a replica has it: a failover loses the last orders that were answered 201",
        ],
        Replication::SemiSynchronous { after_sync: false, .. } => vec![
            "the wait point of semi-synchronous replication is AFTER_COMMIT: another session can read an order, and tell it to its buyer, before a replica has it; set rpl_semi_sync_master_wait_point=AFTER_SYNC",
        ],
        Replication::Group { applies_first: false, .. } => vec![
            "group_replication_consistency is EVENTUAL: a new primary may be asked about an order before it has applied it, and say that there is none; set BEFORE_ON_PRIMARY_FAILOVER",
        ],
        Replication::Galera { .. } => vec![
            "Galera has lost committed transactions when nodes crashed and the network was cut at once (Jepsen, March 2026)",
        ],
        Replication::Vitess { waits: false, .. } => vec![
            "the primary of a shard answers a COMMIT before a replica has it: a reparent that is not planned loses the last orders that were answered 201; set the durability policy semi_sync",
        ],
        Replication::SemiSynchronous { .. }
        | Replication::Group { .. }
        | Replication::Vitess { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::first;
    use super::*;

    fn engine(replication: Replication) -> Engine {
        Engine {
            version: "10.11".to_owned(),
            address: "db:3306".to_owned(),
            flush_at_commit: 1,
            sync_binlog: 1,
            has_binlog: true,
            isolation: "READ-COMMITTED".to_owned(),
            tls: None,
            replication,
        }
    }

    fn semi_synchronous(after_sync: bool) -> Replication {
        let (timeout_ms, replicas, unacknowledged) = (4_000, 1, 0);
        Replication::SemiSynchronous {
            active: true,
            after_sync,
            timeout_ms,
            replicas,
            unacknowledged,
        }
    }

    fn group(applies_first: bool) -> Replication {
        Replication::Group { members: 3, online: 3, applies_first }
    }

    fn vitess(waits: bool) -> Replication {
        Replication::Vitess { primaries: 2, serving: 2, waits }
    }

    #[test]
    fn shards_need_queues() {
        let mut config = Config::defaults();
        let found = |config: &Config, shards| check_shards(config, shards).map(|one| one.state);
        assert_eq!(found(&config, 0), None);
        assert_eq!(found(&config, 2), Some(State::Warning));
        config.mysql.shared_queues = 2;
        assert_eq!(found(&config, 2), None);
    }

    #[test]
    fn an_engine_that_may_lose_orders_at_a_failover_is_refused_unless_the_risk_is_accepted() {
        let mut config = Config::defaults();
        for safe in [semi_synchronous(true), group(true), vitess(true)] {
            assert_eq!(first(&check_losses(&config, &engine(safe)), State::Failed), None);
        }
        let lossy = [
            Replication::None,
            Replication::Asynchronous,
            semi_synchronous(false),
            group(false),
            Replication::Galera { nodes: 3 },
            vitess(false),
        ];
        for replication in lossy.clone() {
            let found = check_losses(&config, &engine(replication));
            let sentence = first(&found, State::Failed).expect("refused");
            assert!(sentence.contains("SECKILL_ACCEPT_RISKS=lossy-failover"), "{sentence}");
        }
        config.accept_risks = "lossy-failover".to_owned();
        for replication in lossy {
            assert_eq!(first(&check_losses(&config, &engine(replication)), State::Failed), None);
        }
    }
}

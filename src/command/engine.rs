//! The check of the database server before `serve` starts: its settings are printed, and a set of
//! hosts that may lose orders when one of them takes over stops the start.

use crate::config::{Config, Risk};
use crate::store::mysql::engine::Engine;
use crate::store::mysql::hosts;
use sqlx::MySqlPool;

use super::preflight::refuse;

/// Prints the settings of the database server and checks what a failover may lose.
///
/// # Errors
/// The database's, when it does not answer. The inner error is a sentence for the operator.
pub async fn check(config: &Config, pool: &MySqlPool) -> sqlx::Result<Result<(), String>> {
    let engine = Engine::read(pool).await?;
    tracing::info!("ledger: {engine}");
    let has_replicas = hosts::read(config.database_url.reveal()).is_ok_and(|all| all.len() > 1);
    Ok(if has_replicas { accept_losses(config, &engine) } else { Ok(()) })
}

fn accept_losses(config: &Config, engine: &Engine) -> Result<(), String> {
    if let Some(fault) = engine.replication.fault() {
        tracing::warn!("replication of the ledger: {fault}");
    }
    let losses = engine.failover_losses();
    losses.into_iter().try_for_each(|sentence| refuse(config, Risk::LossyFailover, sentence))
}

#[cfg(test)]
mod tests {
    use crate::store::mysql::replication::Replication;

    use super::*;

    fn engine(replication: Replication) -> Engine {
        Engine {
            version: "10.11".to_owned(),
            address: "db:3306".to_owned(),
            flush_at_commit: 1,
            sync_binlog: 1,
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

    #[test]
    fn an_engine_that_may_lose_orders_at_a_failover_is_refused_unless_the_risk_is_accepted() {
        let mut config = Config::defaults();
        for safe in [semi_synchronous(true), Replication::Group { members: 3, online: 3 }] {
            assert_eq!(accept_losses(&config, &engine(safe)), Ok(()));
        }
        let lossy = [
            Replication::None,
            Replication::Asynchronous,
            semi_synchronous(false),
            Replication::Galera { nodes: 3 },
        ];
        for replication in lossy.clone() {
            let sentence = accept_losses(&config, &engine(replication)).expect_err("refused");
            assert!(sentence.contains("SECKILL_ACCEPT_RISKS=lossy-failover"), "{sentence}");
        }
        config.accept_risks = "lossy-failover".to_owned();
        for replication in lossy {
            assert_eq!(accept_losses(&config, &engine(replication)), Ok(()));
        }
    }
}

//! Ledgers that were restored or replaced: an item that its ledger lost is found by the audit and comes back.

use dev_servers::MysqlOptions;
use ledger::item_move::MoveError;
use ledger::item_move::audit::misplaced;
use ledger::item_move::tables::ITEM_TABLES;
use ledger_audit::{State, homes_of, judge_homes};
use seckill::config::Secret;
use shop_domain::ItemId;

use super::{Pair, SECOND, buyers, killed, shard};
use crate::support::{Shop, own_mysql, unique};

/// Has a ledger forget an item, as the restore of a backup from before the move does.
async fn forget(pair: &Pair, number: u16, item: ItemId) {
    for table in ITEM_TABLES.iter().rev().filter(|table| table.name != "limit_groups") {
        let forget = format!("DELETE FROM {} WHERE {}", table.name, table.of_item);
        sqlx::query(&forget).bind(item.get()).execute(pair.pool(number)).await.expect("forgotten");
    }
}

async fn change(pair: &Pair, statement: &str, item: ItemId) {
    sqlx::query(statement).bind(item.get()).execute(&pair.home.pool).await.expect("changed");
}

/// Checks that both audits find the item where it does not live.
async fn assert_missed(pair: &Pair, item: ItemId) {
    let own = misplaced(&pair.ledgers()).await.expect("both ledgers are read");
    assert!(own.contains_key(&item), "the service's audit is silent: {own:?}");
    let urls = [&pair.home, &pair.second].map(|shop| shop.config.database_url.reveal().to_owned());
    let finding = judge_homes(&homes_of(&urls).await.expect("both ledgers are read"));
    assert_eq!(finding.state, State::Broken, "the outside audit is silent");
}

async fn orders(pair: &Pair, number: u16, item: ItemId) -> Vec<(String, String)> {
    let orders = sqlx::query_as("SELECT id, status FROM orders WHERE item_id = ? ORDER BY id");
    orders.bind(item.get()).fetch_all(pair.pool(number)).await.expect("read")
}

#[tokio::test]
async fn an_item_that_its_new_ledger_lost_comes_back_from_the_rows_that_it_left() {
    let pair = Pair::new().await;
    let (other, item) = (pair.make_item(5).await, pair.make_item(600).await);
    for buyer in 1..=300 {
        assert!(pair.buyers().buy(item.get(), buyer).await.is_some());
    }
    let before = orders(&pair, 0, item).await;
    pair.mover().move_item(item, shard(SECOND)).await.expect("it moves");
    pair.assert_lives_in(SECOND, item).await;
    let id = item.to_string();
    let recover = ["shard", "recover", &id];
    let (code, text) = killed::run(&pair, &recover, None).await;
    assert_eq!((code, text.contains("where its home says")), (1, true), "{text}");
    assert!(pair.buyers().buy(item.get(), 1_000).await.is_some());
    forget(&pair, SECOND, item).await;
    assert_missed(&pair, item).await;
    let (code, text) = killed::run(&pair, &["audit"], None).await;
    assert_eq!((code, text.contains("I15 BROKEN")), (1, true), "{text}");
    let (code, text) = killed::run(&pair, &recover, None).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("lives in shard 0 now, as it was when it left"), "{text}");
    pair.assert_lives_in(0, item).await;
    assert_eq!(orders(&pair, 0, item).await, before);
    assert!(pair.buyers().buy(item.get(), 1_001).await.is_some(), "it sells");
    let (code, text) = killed::run(&pair, &["audit"], None).await;
    assert_eq!(code, 0, "{text}");
    // It moves again, with an epoch that was never used.
    pair.mover().move_item(item, shard(SECOND)).await.expect("it moves");
    pair.assert_lives_in(SECOND, item).await;
    pair.assert_lives_in(0, other).await;
}

#[tokio::test]
async fn rows_that_items_left_behind_are_deleted_after_their_time() {
    let pair = Pair::new().await;
    let item = pair.make_item(5).await;
    pair.mover().move_item(item, shard(SECOND)).await.expect("it moves");
    let kept = async || -> i64 {
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM kept_rows");
        count.fetch_one(&pair.home.pool).await.expect("counted")
    };
    assert_eq!(kept().await, 2, "the item and its stock");
    pair.mover().forget_kept_rows(2).await.expect("answered");
    assert_eq!(kept().await, 2, "they are new");
    change(
        &pair,
        "UPDATE kept_rows SET kept_at = kept_at - INTERVAL 3 HOUR WHERE item_id = ?",
        item,
    )
    .await;
    pair.mover().forget_kept_rows(2).await.expect("answered");
    assert_eq!(kept().await, 0);
}

#[tokio::test]
async fn an_item_whose_move_the_home_ledger_forgot_is_found_where_it_is() {
    let pair = Pair::new().await;
    let item = pair.make_item(5).await;
    assert!(pair.buyers().buy(item.get(), 1).await.is_some());
    pair.mover().move_item(item, shard(SECOND)).await.expect("it moves");
    change(&pair, "DELETE FROM item_moves WHERE item_id = ?", item).await;
    change(&pair, "DELETE FROM item_homes WHERE item_id = ?", item).await;
    assert_missed(&pair, item).await;
    let (code, text) = killed::run(&pair, &["shard", "recover", &item.to_string()], None).await;
    assert_eq!((code, text.contains("lives in shard 1 now")), (0, true), "{text}");
    pair.assert_lives_in(SECOND, item).await;
    assert!(pair.buyers().buy(item.get(), 2).await.is_some(), "it sells");
}

#[tokio::test]
async fn giving_up_deletes_nothing_while_the_source_does_not_have_the_item() {
    let pair = Pair::new().await;
    let item = pair.make_item(5).await;
    assert!(pair.buyers().buy(item.get(), 1).await.is_some());
    pair.mover().move_item(item, shard(SECOND)).await.expect("it moves");
    assert!(pair.buyers().buy(item.get(), 2).await.is_some());
    // The home ledger was restored from a backup of the moment when the item was closed.
    for forgotten in [
        "UPDATE item_moves SET state = 'closed', flipped_at = NULL, ended_at = NULL WHERE item_id = ?",
        "DELETE FROM item_homes WHERE item_id = ?",
    ] {
        change(&pair, forgotten, item).await;
    }
    let before = pair.rows(SECOND, item).await;
    let refused = pair.mover().give_up(item).await;
    assert_eq!(pair.rows(SECOND, item).await, before, "the only copy is deleted: {refused:?}");
    assert!(matches!(refused, Err(MoveError::NotAtSource(_))), "{refused:?}");
    let (code, text) =
        killed::run(&pair, &["shard", "move", &item.to_string(), "--give-up"], None).await;
    assert_eq!((code, text.contains("has no stock row of this move")), (1, true), "{text}");
    // Forwards is the only way.
    let moved = pair.mover().resume(item).await.expect("it moves");
    assert_eq!(moved.home, shard(SECOND));
    pair.assert_lives_in(SECOND, item).await;
    assert!(pair.buyers().buy(item.get(), 3).await.is_some(), "it sells");
}

#[tokio::test]
async fn no_item_moves_to_a_ledger_whose_replication_is_at_fault() {
    if std::env::var_os("SECKILL_MYSQLD").is_some() {
        println!("left out: MySQL has other names for these settings");
        return;
    }
    let mut options = MysqlOptions::temporary();
    options.extra_arguments = vec!["--log-bin".to_owned()];
    // No replica follows, and no commit waits for one for long.
    options.extra_statements = vec![
        "SET GLOBAL rpl_semi_sync_master_timeout = 1, GLOBAL rpl_semi_sync_master_enabled = 1"
            .to_owned(),
    ];
    let server = own_mysql(options).await;
    let url = server.url_of(&unique("seckill_second"));
    let second = Shop::with(|config| config.database_url = Secret::new(url)).await;
    let pair = Pair::to(second).await;
    let item = pair.make_item(5).await;
    let refused = pair.mover().move_item(item, shard(SECOND)).await;
    let refused = refused.expect_err("the copy exists once").to_string();
    assert!(refused.contains("no replica acknowledges commits"), "{refused}");
    pair.assert_lives_in(0, item).await;
    let route = buyers::route(&pair.home.pool, item.get()).await;
    assert!(pair.buyers().try_buy(route, item.get(), 1).await.is_some(), "it sells as before");
}

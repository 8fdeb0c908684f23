//! The audit of homes (I15) finds an item that is in two ledgers, or rows that were left behind.

use ledger::item_move::audit::misplaced;
use ledger_audit::{Finding, State, homes_of, judge_homes};

use super::{Pair, SECOND, shard};

/// The finding of the outside audit; the service's own must agree.
async fn finding(pair: &Pair) -> Finding {
    let urls = [&pair.home, &pair.second].map(|shop| shop.config.database_url.reveal().to_owned());
    let finding = judge_homes(&homes_of(&urls).await.expect("both ledgers are read"));
    let own = misplaced(&pair.ledgers()).await.expect("both ledgers are read");
    assert_eq!(own.is_empty(), finding.state == State::Holds, "{own:?}");
    finding
}

#[tokio::test]
async fn rows_left_at_the_source_and_an_item_in_two_ledgers_are_caught() {
    let pair = Pair::new().await;
    let item = pair.make_item(5).await;
    assert!(pair.buyers().buy(item.get(), 1).await.is_some());
    assert_eq!(finding(&pair).await.state, State::Holds);
    pair.mover().move_item(item, shard(SECOND)).await.expect("it moves");
    let moved = finding(&pair).await;
    assert_eq!(moved.state, State::Holds, "{:?}", moved.examples);
    let plant = async |statement: &str| {
        sqlx::query(statement).bind(item.get()).execute(&pair.home.pool).await.expect("planted");
    };
    plant(
        "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) \
         VALUES (?, 'left', 'sold', -1, UTC_TIMESTAMP(6))",
    )
    .await;
    let left = finding(&pair).await;
    assert_eq!(left.state, State::Broken);
    assert!(left.examples[0].contains("shard 0 has 1 rows of it"), "{:?}", left.examples);
    plant("INSERT INTO stock (item_id, total, available) VALUES (?, 5, 5)").await;
    let twice = finding(&pair).await;
    assert_eq!(twice.state, State::Broken, "an item in two shards");
    plant("DELETE FROM stock_movements WHERE item_id = ?").await;
    plant("DELETE FROM stock WHERE item_id = ?").await;
    assert_eq!(finding(&pair).await.state, State::Holds);
    // A route that no write can use.
    plant("UPDATE item_homes SET epoch = epoch + 1 WHERE item_id = ?").await;
    let shut = finding(&pair).await;
    assert!(shut.examples[0].contains("its route has the epoch 3"), "{:?}", shut.examples);
}

//! `seckill shard move` killed at each of its steps, while the item sells: the next command ends the move.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ledger::Database;
use seckill::failpoint::MOVE_POINTS;
use shop_domain::ItemId;
use tokio::process::Command;

use super::Pair;
use crate::process::program::{program, told};

/// Orders before the move, so that there is something to copy.
const SOLD_BEFORE: i64 = 40;
/// The longest pause: machines are shared and slow.
const PAUSE_MS_MAX: &str = "20000";
/// The points that only a move reaches which gives up.
const POINTS_OF_GIVING_UP: [&str; 2] = ["move-reopening", "move-given-up"];

/// A command with both ledgers in its settings.
fn command(pair: &Pair, arguments: &[&str]) -> Command {
    let mut command = program(&pair.home, arguments);
    let second = format!("1={}", pair.second.config.database_url.reveal());
    command.env("SECKILL_SHARDS_URLS", second);
    command
}

/// Runs the command until it ends or a crash point kills it; answers its exit code and output.
pub async fn run(pair: &Pair, arguments: &[&str], point: Option<&str>) -> (i32, String) {
    let mut command = command(pair, arguments);
    if let Some(point) = point {
        command.env("FAILPOINT", point);
    }
    told(&command.output().await.expect("the program runs"))
}

async fn orders(pool: &Database, item: ItemId) -> BTreeSet<String> {
    let orders: Vec<String> = sqlx::query_scalar("SELECT id FROM orders WHERE item_id = ?")
        .bind(item.get())
        .fetch_all(pool)
        .await
        .expect("read");
    orders.into_iter().collect()
}

/// How a move is ended after the mover was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By the same command.
    Again,
    /// The item stays where it was.
    GiveUp,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mover_that_is_killed_at_any_step_is_replaced_and_nothing_is_lost() {
    let pair = Arc::new(Pair::new().await);
    let (given_up, others): (Vec<&str>, Vec<&str>) =
        MOVE_POINTS.iter().copied().partition(|point| POINTS_OF_GIVING_UP.contains(point));
    let until_the_flip = others.iter().take_while(|point| **point != "move-flipped");
    let ended_again = others.iter().map(|point| (*point, End::Again));
    let stays = given_up.iter().chain(until_the_flip).map(|point| (*point, End::GiveUp));
    let cases = ended_again.chain(stays);
    for (point, end) in cases {
        killed_at(&pair, point, end).await;
    }
}

async fn killed_at(pair: &Arc<Pair>, point: &str, end: End) {
    let item = pair.make_item(100_000).await;
    let buyers = pair.buyers();
    let mut sold = BTreeSet::new();
    for buyer in 1..=SOLD_BEFORE {
        sold.extend(buyers.buy(item.get(), buyer).await);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let sellers = (1..=2_i64).map(|lane| {
        let (buyers, stop) = (buyers.clone(), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut sold = BTreeSet::new();
            let mut buyer = lane * 1_000_000;
            while !stop.load(Ordering::Relaxed) {
                sold.extend(buyers.buy(item.get(), buyer).await);
                buyer += 1;
            }
            sold
        })
    });
    let sellers: Vec<_> = sellers.collect();
    let id = item.to_string();
    // No pause at all: such a move is given up.
    let pause = if POINTS_OF_GIVING_UP.contains(&point) { "0" } else { PAUSE_MS_MAX };
    let first = ["shard", "move", &id, "1", "--pause-ms-max", pause];
    let (code, text) = run(pair, &first, Some(point)).await;
    assert_eq!(code, -1, "{point} did not kill it: {text}");
    let (code, text) = run(pair, &["shard", "moves"], None).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(", under way"), "{point}: {text}");
    let again: &[&str] = match end {
        End::Again => &["shard", "move", &id, "1", "--pause-ms-max", PAUSE_MS_MAX],
        End::GiveUp => &["shard", "move", &id, "--give-up"],
    };
    let (code, text) = run(pair, again, None).await;
    assert_eq!(code, 0, "{point}: {text}");
    stop.store(true, Ordering::Relaxed);
    for seller in sellers {
        sold.extend(seller.await.expect("no panic"));
    }
    let home = if end == End::Again { 1 } else { 0 };
    assert!(text.contains(&format!("lives in shard {home} now")), "{point}: {text}");
    pair.assert_lives_in(home, item).await;
    assert_eq!(orders(pair.pool(home), item).await, sold, "{point}: lost or sold twice");
    println!("{point}, {end:?}: {} orders; {}", sold.len(), text.trim());
}

#[tokio::test]
async fn the_command_says_in_a_sentence_why_an_item_stays() {
    let pair = Pair::new().await;
    let item = pair.make_item(5).await;
    let id = item.to_string();
    let cases: [(&[&str], i32, &str); 7] = [
        (&[&id, "7"], 1, "there is no shard 7"),
        (&[&id, "0"], 0, "lives in shard 0 already"),
        (&["4711", "1"], 1, "there is no item 4711"),
        (&[&id, "--resume"], 1, "no move of the item is under way"),
        (&[&id, "--give-up"], 1, "no move of the item is under way"),
        (&[&id, "1", "--pause-ms-max", "0"], 1, "the item sells in shard 0 as before"),
        (&[&id], 2, "required"),
    ];
    for (arguments, expected, sentence) in cases {
        let arguments = [&["shard", "move"], arguments].concat();
        let (code, text) = run(&pair, &arguments, None).await;
        assert_eq!(code, expected, "{arguments:?}: {text}");
        assert!(text.contains(sentence), "{arguments:?}: {text}");
    }
    // Before its sale an item is placed.
    for (id, sentence, code) in [("4711", "there is no item 4711", 1), (&*id, "has begun", 1)] {
        let (ended, text) = run(&pair, &["shard", "place", id, "1"], None).await;
        assert_eq!(ended, code, "{text}");
        assert!(text.contains(sentence), "{text}");
    }
    let upcoming = pair.make_item(5).await;
    let later = sqlx::query("UPDATE items SET starts_at = '2036-01-01' WHERE id = ?");
    later.bind(upcoming.get()).execute(pair.pool(0)).await.expect("changed");
    let (code, text) = run(&pair, &["shard", "place", &upcoming.to_string(), "1"], None).await;
    assert_eq!(code, 0, "{text}");
    pair.assert_lives_in(1, upcoming).await;
    let mut away = command(&pair, &["shard", "move", &id, "1"]);
    away.env("SECKILL_SHARDS_URLS", "1=mysql://seckill:x@127.0.0.1:9/seckill");
    let (code, text) = told(&away.output().await.expect("runs"));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("a ledger does not answer"), "{text}");
    assert!(pair.buyers().buy(item.get(), 1).await.is_some(), "it sells as before");
    let (code, text) = run(&pair, &["shard", "move", &id, "1"], None).await;
    assert_eq!(code, 0, "{text}");
    pair.assert_lives_in(1, item).await;
}

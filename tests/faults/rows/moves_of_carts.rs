//! Carts that are sold while one of their items moves to another ledger, with the mover killed at its steps.

use std::time::Duration;

use dev_servers::MysqlOptions;
use hyper::body::Bytes;
use seckill::account::Role;
use serde_json::{Value, json};
use sqlx::{Connection, MySqlConnection};
use tokio::time::sleep;

use super::moves::{SECOND, kill_at, program};
use super::moves_beside::{plan, said};
use super::proven;
use crate::service::Service;
use crate::testbed::Testbed;
use crate::trial::{make_item, run_trial};
use crate::{Run, TrialResult};

/// The first buyer of the carts.
const FIRST_BUYER: i64 = 70_000_000;
/// Pairs of items in a trial, of which the second one moves, and the most carts of each.
const PAIRS: usize = 4;
const CARTS_MAX: i64 = 200;
/// Points before the flip. At the first two the item still sells; a cart that is sold then keeps it where it is.
const POINTS: [&str; 6] = [
    "move-recorded",
    "move-copied",
    "move-source-closed",
    "move-closed",
    "move-sealed",
    "move-verified",
];
/// What a mover says that leaves an item with its carts.
const STAYS: &str = "have lines of other items";
/// The answers to a cart whose item moves, or has moved away from the other one.
const REFUSALS: [&str; 3] = ["item_moving", "items_in_several_ledgers", "contended"];
const BETWEEN_CARTS: Duration = Duration::from_millis(5);

/// An order of which not all lines are in a ledger, or not all their movements.
const HALVES: &str = "SELECT COUNT(*) FROM (SELECT LEFT(orders.id, 34) AS whole, COUNT(*) AS found, \
     COUNT(moves.order_id) AS taken, MAX(orders.line_count) AS wanted FROM orders \
     LEFT JOIN stock_movements AS moves ON moves.item_id = orders.item_id \
       AND moves.order_id = orders.id AND moves.reason = 'sold' \
     WHERE line_count IS NOT NULL GROUP BY whole HAVING found <> wanted OR taken <> wanted) AS halves";

/// Carts of two items, of which one moves. The mover dies at a step; then another one ends the move. An item stays
/// where it has carts, and moves where it has none.
pub async fn sold(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let ledger = testbed.ledger(MysqlOptions::temporary()).await?;
    let second = ledger.url_of(SECOND);
    Testbed::migrate(&second).await?;
    let (setup, plan) = plan(testbed, (&ledger, &second), seed, "carts");
    let outcome = run_trial(testbed, plan, async |testbed, trial| {
        let (mut all_sold, mut all_refused, mut moved) = (0, 0, 0);
        for pair in 0..PAIRS {
            let more = json!({ "shard": 0, "stock": 2 * CARTS_MAX });
            let mut items = Vec::new();
            for _ in 0..2 {
                items.push(make_item(testbed, &trial.services[0], false, &more).await?);
            }
            let first = FIRST_BUYER + i64::try_from(pair).unwrap_or(0) * CARTS_MAX;
            let mut carts = Carts { items, next: first, sold: 0, refused: 0 };
            let turn = usize::try_from(seed).unwrap_or_default() * PAIRS + pair;
            kill_at(&setup, trial, carts.items[1], "1", POINTS[turn % POINTS.len()]).await?;
            for service in &trial.services {
                carts.ask(testbed, service).await?;
            }
            let id = carts.items[1].to_string();
            let arguments = ["shard", "move", &id, "1", "--pause-ms-max", "5000"];
            let mut mover = program(&setup, &arguments, None).spawn().map_err(|e| e.to_string())?;
            while mover.try_wait().map_err(|error| error.to_string())?.is_none() {
                for service in &trial.services {
                    carts.ask(testbed, service).await?;
                }
                sleep(BETWEEN_CARTS).await;
            }
            let ended = mover.wait_with_output().await.map_err(|error| error.to_string())?;
            let has_moved = ended.status.success();
            moved += usize::from(has_moved);
            let mover_said = String::from_utf8_lossy(&ended.stderr);
            if has_moved && carts.sold > 0 {
                return Err(format!("item {id} has moved away from {} carts", carts.sold));
            } else if !has_moved && !mover_said.contains(STAYS) {
                return Err(format!("item {id} has not moved: {mover_said}"));
            }
            for item in &carts.items {
                let audit = said(&setup, &["audit", "--item", &item.to_string()]).await?;
                if audit.contains("BROKEN") {
                    return Err(audit);
                }
            }
            let lines = lines_of(&testbed.ledger_url(), &carts.items).await?;
            if lines != carts.sold * 2 {
                return Err(format!("{} carts were sold, and there are {lines} lines", carts.sold));
            }
            all_sold += carts.sold;
            all_refused += carts.refused;
        }
        trial.fault_ended();
        let mut halves = 0;
        for url in [&testbed.ledger_url(), &second] {
            halves += number(url, HALVES).await?;
        }
        if halves > 0 {
            return Err(format!("{halves} orders are not whole"));
        }
        let proof = format!(
            "{PAIRS} movers killed; {all_sold} carts sold, {all_refused} refused; {moved} items moved, the others stayed with their carts"
        );
        proven(all_refused > 0 && moved > 0, proof)
    })
    .await;
    testbed.ledger_elsewhere = None;
    ledger.stop().await;
    outcome
}

/// Carts of the same items, each of another buyer.
struct Carts {
    items: Vec<i64>,
    next: i64,
    sold: i64,
    refused: u32,
}

impl Carts {
    /// Asks for the next one.
    async fn ask(&mut self, testbed: &Testbed, service: &Service) -> Run<()> {
        let token = testbed.token(self.next, Role::Buyer);
        self.next += 1;
        let lines: Vec<Value> = self.items.iter().map(|item| json!({ "item_id": item })).collect();
        let body = Bytes::from(json!({ "lines": lines }).to_string());
        let reply = service.ask("POST", "/api/reservations", Some(&token), body).await?;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        match (reply.status, answer["code"].as_str()) {
            (201, _) => self.sold += 1,
            (_, Some(code)) if REFUSALS.contains(&code) => self.refused += 1,
            (status, _) => return Err(format!("a cart was answered {status} {answer}")),
        }
        Ok(())
    }
}

async fn lines_of(url: &str, items: &[i64]) -> Run<i64> {
    let items: Vec<String> = items.iter().map(i64::to_string).collect();
    let statement = format!("SELECT COUNT(*) FROM orders WHERE item_id IN ({})", items.join(", "));
    number(url, &statement).await
}

async fn number(url: &str, statement: &str) -> Run<i64> {
    let said = |error: sqlx::Error| error.to_string();
    let mut ledger = MySqlConnection::connect(url).await.map_err(said)?;
    sqlx::query_scalar(statement).fetch_one(&mut ledger).await.map_err(said)
}

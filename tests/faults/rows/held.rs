//! The stock row of one item is held, beside carts of it and of another item that is sold.

use std::cell::Cell;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use sqlx::Connection;
use tokio::time::sleep;
use web::token::Role;

use super::proven;
use super::waiting::{OTHER_STOCK, STRANGERS, ask, sell_meanwhile};
use crate::TrialResult;
use crate::testbed::Testbed;
use crate::trial::{Plan, Trial, Wanted, make_item, run_trial};

/// Clients that reserve carts of both items, cancel them, and join the waiting list of the held item.
const CARTS: i64 = 30;
/// How long the other item is sold with the row free, and then with the row held.
const PHASE: Duration = Duration::from_secs(3);

/// Others keep their rate while carts wait for a held row.
pub async fn beside_carts(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::These(&["mysql-batch"]), &testbed.setup());
    run_trial(testbed, plan, async |testbed, trial| {
        let more = json!({ "stock": OTHER_STOCK, "hold_seconds": 900 });
        let other = make_item(testbed, &trial.services[0], false, &more).await?;
        let held = make_item(testbed, &trial.services[0], false, &more).await?;
        let mut side = testbed.operator().await?;
        let said = |error: sqlx::Error| error.to_string();
        let sold = Cell::new(0_i64);
        let is_over = Cell::new(false);
        let phases = async {
            sleep(PHASE).await;
            let free = sold.get();
            let mut transaction = side.begin().await.map_err(said)?;
            sqlx::query("SELECT available FROM stock WHERE item_id = ? FOR UPDATE")
                .bind(held)
                .execute(&mut *transaction)
                .await
                .map_err(said)?;
            sleep(PHASE).await;
            let beside = sold.get() - free;
            transaction.rollback().await.map_err(said)?;
            is_over.set(true);
            Ok::<_, String>((free, beside))
        };
        let crowd = crowd(testbed, trial, [other, held], &is_over);
        let selling = sell_meanwhile(testbed, trial, other, &sold);
        let (free, beside) = tokio::select! {
            (phases, ()) = async { tokio::join!(phases, crowd) } => phases?,
            () = selling => return Err("the other item is sold out".to_owned()),
        };
        trial.injections += 1;
        trial.fault_ended();
        proven(
            beside > free / 2,
            format!(
                "{free} of another item sold beside carts, {beside} with the row of their item held"
            ),
        )
    })
    .await
}

async fn crowd(testbed: &Testbed, trial: &Trial, items: [i64; 2], is_over: &Cell<bool>) {
    let lines = items.map(|item| json!({ "item_id": item }));
    let cart = &json!({ "lines": lines }).to_string();
    let joining = &format!("/api/items/{}/waiting", items[1]);
    let clients = (0..CARTS).zip(0..).map(|(client, at): (i64, usize)| async move {
        let service = &trial.services[at % 2];
        let mut number = 0;
        while !is_over.get() {
            number += 1;
            let buyer = STRANGERS + 2 * OTHER_STOCK + client + CARTS * number;
            let token = testbed.token(buyer, Role::Buyer);
            let (status, order) = ask(service, ("POST", "/api/reservations"), &token, cart).await;
            if let (201, Some(id)) = (status, order["id"].as_str()) {
                let cancellation = format!("/api/orders/{id}/cancellation");
                ask(service, ("POST", &cancellation), &token, "{}").await;
            } else {
                ask(service, ("POST", joining), &token, "{}").await;
            }
        }
    });
    join_all(clients).await;
}

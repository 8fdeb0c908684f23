//! The stock row of one item is held, beside carts of it and of another item that is sold.

use std::cell::Cell;

use super::mysql::LOCK_STOCK;
use super::waiting::{OTHER_STOCK, STRANGERS, sell_meanwhile};
use crate::prelude::*;

/// Clients that reserve carts of both items, cancel them, and join the waiting list of the held item.
const CARTS: i64 = 30;
/// How long the other item is sold with the row free, and then with the row held.
const PHASE: Duration = Duration::from_secs(3);

/// What has been sold until now: units of the other item, and carts of both.
#[derive(Default)]
struct Progress {
    others: Cell<i64>,
    carts: Cell<i64>,
    /// The carts end.
    is_over: Cell<bool>,
}

/// Carts that wait for a held row do not hold the other row, too. With the row free, the carts take turns with the buyers
/// of the other item. With it held none gets through, so nothing but a cart that waits with the other row could slow
/// these buyers down.
pub async fn beside_carts(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::These(&["mysql-batch"]), &testbed.setup());
    run_trial(testbed, plan, async |testbed, trial| {
        let more = json!({ "stock": OTHER_STOCK, "hold_seconds": 900 });
        let other = make_item(testbed, &trial.services[0], &more).await?;
        let held = make_item(testbed, &trial.services[0], &more).await?;
        let mut side = testbed.operator().await?;
        let progress = Progress::default();
        let phases = async {
            sleep(PHASE).await;
            let mut transaction = side.begin().await.said()?;
            sqlx::query(LOCK_STOCK).bind(held).execute(&mut *transaction).await.said()?;
            let free = progress.others.get();
            let carts = progress.carts.get();
            sleep(PHASE).await;
            let beside = progress.others.get() - free;
            let carts_beside = progress.carts.get() - carts;
            transaction.rollback().await.said()?;
            progress.is_over.set(true);
            Ok::<_, String>(Phases { free, beside, carts, carts_beside })
        };
        let crowd = crowd(testbed, trial, [other, held], &progress);
        let selling = sell_meanwhile(testbed, trial, other, &progress.others);
        let Phases { free, beside, carts, carts_beside } = tokio::select! {
            (phases, ()) = async { tokio::join!(phases, crowd) } => phases?,
            () = selling => return Err("the other item is sold out".to_owned()),
        };
        // Each client may hear of one cart whose COMMIT was before.
        let do_carts_wait = carts > 0 && carts_beside <= CARTS;
        let proof = format!(
            "{free} of another item sold beside {carts} carts, {beside} while the row of their item was held \
             and {carts_beside} carts were told"
        );
        proven(do_carts_wait && beside > free / 4, proof)
    })
    .await
}

/// What was sold in the two phases: of another item, and in carts.
struct Phases {
    free: i64,
    beside: i64,
    carts: i64,
    carts_beside: i64,
}

async fn crowd(testbed: &Testbed, trial: &Trial, items: [i64; 2], progress: &Progress) {
    let lines = items.map(|item| json!({ "item_id": item }));
    let cart = &json!({ "lines": lines }).to_string();
    let joining = &format!("/api/items/{}/waiting", items[1]);
    let clients = (0..CARTS).zip(0..).map(|(client, at): (i64, usize)| async move {
        let service = &trial.services[at % 2];
        let mut number = 0;
        while !progress.is_over.get() {
            number += 1;
            let buyer = STRANGERS + 2 * OTHER_STOCK + client + CARTS * number;
            let token = testbed.token(buyer, Role::Buyer);
            let (status, order) = service.ask("POST", "/api/reservations", &token, cart).await;
            if let (201, Some(id)) = (status, order["id"].as_str()) {
                progress.carts.set(progress.carts.get() + 1);
                let cancellation = format!("/api/orders/{id}/cancellation");
                service.ask("POST", &cancellation, &token, "{}").await;
            } else {
                service.ask("POST", joining, &token, "{}").await;
            }
        }
    });
    join_all(clients).await;
}

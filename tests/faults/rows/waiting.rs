//! A sale that ends with a long waiting list, beside others that go on.

use std::cell::Cell;

use crate::prelude::*;

/// Buyers who have an order of the item, and cancel it while it is paused.
const BUYERS: i64 = 100;
/// A buyer whose orders are not the workload's.
pub(super) const STRANGERS: i64 = 9_000_000;
/// Stock of the item that others buy meanwhile: more than they can buy.
pub(super) const OTHER_STOCK: i64 = 500_000;
/// Purchases of it at once.
const SELLERS: usize = 8;
/// The line must have ended by then.
const ENDED_MAX: Duration = Duration::from_secs(60);
/// The time between two readings of the number of units sold.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// An item with a long line is paused, while its buyers cancel and others want to join.
pub async fn paused(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    run_trial(testbed, plan, async |testbed, trial| {
        let more = json!({ "stock": BUYERS, "hold_seconds": 900 });
        let item = make_item(testbed, &trial.services[0], &more).await?;
        let orders = sell_out(testbed, trial, item).await?;
        let mut operator = testbed.operator().await?;
        let waiters = testbed.waiters;
        fill_line(&mut operator, item, waiters).await?;
        let services = &trial.services;
        let joining = &format!("/api/items/{item}/waiting");
        let steps = orders.iter().zip(0..).map(|((buyer, order), at)| {
            let owner = testbed.token(*buyer, Role::Buyer);
            let stranger = testbed.token(*buyer + BUYERS, Role::Buyer);
            let service = &services[at % 2];
            async move {
                let cancellation = format!("/api/orders/{order}/cancellation");
                tokio::join!(
                    service.ask("POST", &cancellation, &owner, "{}"),
                    service.ask("POST", joining, &stranger, "{}"),
                )
            }
        });
        let admin = testbed.token(1, Role::Admin);
        let path = format!("/api/admin/items/{item}");
        let pause = services[0].ask("PATCH", &path, &admin, r#"{"paused": true}"#);
        let more = json!({ "stock": OTHER_STOCK, "hold_seconds": 900 });
        let other = make_item(testbed, &trial.services[0], &more).await?;
        let sold = Cell::new(0_i64);
        let selling = sell_meanwhile(testbed, trial, other, &sold);
        let work = async {
            let (paused, stepped) = tokio::join!(pause, join_all(steps));
            let cancelled = stepped.iter().filter(|(cancelled, _)| cancelled.0 == 200).count();
            (paused.0, cancelled, until_ended(&mut operator, item).await)
        };
        let ((paused, cancelled, ended), stop) = tokio::select! {
            done = watched(&sold, work) => done,
            () = selling => return Err("the other item is sold out".to_owned()),
        };
        let (sold, took) = (sold.get(), ended?);
        let proof = format!(
            "a line of {waiters} ended within {} ms, {cancelled} of {BUYERS} cancelled; {sold} of another \
             item sold meanwhile, {} ms the longest time without a sale",
            took.as_millis(),
            stop.as_millis()
        );
        proven(paused == 200 && cancelled > 0 && sold > 0, proof)
    })
    .await
}

/// Sells every unit of an item; returns the buyers with their orders.
async fn sell_out(testbed: &Testbed, trial: &Trial, item: i64) -> Run<Vec<(i64, String)>> {
    let path = format!("/api/seckill/mysql-batch/{item}");
    let bought = (STRANGERS..STRANGERS + BUYERS).map(|buyer| {
        let (token, path) = (testbed.token(buyer, Role::Buyer), path.clone());
        let service = &trial.services[0];
        async move {
            let (status, order) = service.ask("POST", &path, &token, "").await;
            let id = order["id"].as_str().filter(|_| status == 201);
            let id = id.ok_or_else(|| format!("not sold: {status} {order}"))?;
            Ok((buyer, id.to_owned()))
        }
    });
    join_all(bought).await.into_iter().collect()
}

/// Puts buyers into the line as if each had joined.
async fn fill_line(operator: &mut MySqlConnection, item: i64, waiters: i64) -> Run<()> {
    let fill = "INSERT INTO waiting_list (item_id, user_id, status, live, joined_at) \
         WITH RECURSIVE numbers AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < 1000) \
         SELECT ?, ? + high.n * 1000 + low.n, 'waiting', 1, UTC_TIMESTAMP(6) \
         FROM numbers AS low JOIN numbers AS high WHERE high.n * 1000 + low.n < ? \
         ORDER BY high.n, low.n";
    let fill = sqlx::query(fill).bind(item).bind(STRANGERS + 2 * BUYERS).bind(waiters);
    fill.execute(operator).await.map(drop).said()
}

/// Waits until nobody is in the line; returns how long that took.
async fn until_ended(operator: &mut MySqlConnection, item: i64) -> Run<Duration> {
    let begin = Instant::now();
    let count = "SELECT COUNT(*) FROM waiting_list WHERE item_id = ? AND live = 1";
    loop {
        let left = sqlx::query_scalar(count).bind(item).fetch_one(&mut *operator).await;
        let left: i64 = left.said()?;
        match left {
            0 => return Ok(begin.elapsed()),
            _ if begin.elapsed() > ENDED_MAX => return Err(format!("{left} places did not end")),
            _ => sleep(LOOK_EVERY).await,
        }
    }
}

/// Sells units of an item to one buyer after the other, some at once, and counts them.
pub(super) async fn sell_meanwhile(testbed: &Testbed, trial: &Trial, item: i64, sold: &Cell<i64>) {
    let path = &format!("/api/seckill/mysql-batch/{item}");
    let begun = &Cell::new(0);
    let sellers = (0..SELLERS).map(|at| async move {
        while begun.get() < OTHER_STOCK {
            begun.set(begun.get() + 1);
            let token = testbed.token(STRANGERS + OTHER_STOCK + begun.get(), Role::Buyer);
            if trial.services[at % 2].ask("POST", path, &token, "{}").await.0 == 201 {
                sold.set(sold.get() + 1);
            }
        }
    });
    join_all(sellers).await;
}

/// Does the work; returns also the longest time in which nothing was sold meanwhile.
async fn watched<T>(units: &Cell<i64>, work: impl Future<Output = T>) -> (T, Duration) {
    let mut work = std::pin::pin!(work);
    let (mut longest, mut sold, mut at) = (Duration::ZERO, units.get(), Instant::now());
    loop {
        tokio::select! {
            done = &mut work => return (done, longest.max(at.elapsed())),
            () = sleep(LOOK_EVERY) => {}
        }
        let now = units.get();
        if now != sold {
            longest = longest.max(at.elapsed());
            (sold, at) = (now, Instant::now());
        }
    }
}
